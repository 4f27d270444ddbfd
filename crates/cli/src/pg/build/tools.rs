//! What a build needs of the system, asked for before anything is done, all at once.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// A program, and the Debian package that brings it.
struct Program {
    names: &'static [&'static str],
    package: &'static str,
}

/// A library, and how to see that its headers are there.
struct Library {
    name: &'static str,
    program: &'static str,
    package: &'static str,
}

/// The archive has no generated parsers, hence bison, flex and perl.
const PROGRAMS: &[Program] = &[
    Program { names: &["cc", "gcc", "clang"], package: "gcc" },
    Program { names: &["make", "gmake"], package: "make" },
    Program { names: &["bison"], package: "bison" },
    Program { names: &["flex"], package: "flex" },
    Program { names: &["perl"], package: "perl" },
    Program { names: &["tar"], package: "tar" },
    Program { names: &["bzip2"], package: "bzip2" },
    Program { names: &["patch"], package: "patch" },
];

const LIBRARIES: &[Library] = &[
    Library { name: "the C library", program: "#include <stdlib.h>\n", package: "libc6-dev" },
    Library {
        name: "readline",
        program: "#include <stdio.h>\n#include <readline/readline.h>\n",
        package: "libreadline-dev",
    },
    Library { name: "zlib", program: "#include <zlib.h>\n", package: "zlib1g-dev" },
];

const ICU: Library = Library { name: "ICU", program: "#include <unicode/ucol.h>\n", package: "libicu-dev" };

/// The first of some programs that the PATH has.
pub(crate) fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().find_map(|name| directories.iter().map(|d| d.join(name)).find(|file| is_executable(file)))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// GNU make by the name it has here.
pub(crate) fn make() -> PathBuf {
    find(&["make", "gmake"]).unwrap_or_else(|| PathBuf::from("make"))
}

/// Refuses with everything that is missing, and how to get it.
pub(crate) fn check(icu: bool, tap_tests: bool) -> Result<(), Failure> {
    let mut missing = Vec::new();
    let mut packages = Vec::new();
    let mut miss = |what: String, package: &'static str| {
        missing.push(what);
        packages.push(package);
    };
    for program in PROGRAMS {
        if find(program.names).is_none() {
            miss(program.names[0].to_owned(), program.package);
        }
    }
    // Without a compiler nothing can be said of libraries: they are named with the rest.
    let compiler = find(PROGRAMS[0].names);
    for library in LIBRARIES.iter().chain(icu.then_some(&ICU)) {
        let there = match &compiler {
            Some(compiler) => compiles(compiler, library.program)?,
            None => false,
        };
        if !there {
            miss(format!("the header files of {}", library.name), library.package);
        }
    }
    if icu && find(&["pkg-config"]).is_none() {
        miss("pkg-config".to_owned(), "pkg-config");
    }
    if tap_tests && find(&["perl"]).is_some_and(|perl| !has_ipc_run(&perl)) {
        miss("the Perl module IPC::Run (for --assertions)".to_owned(), "libipc-run-perl");
    }
    if missing.is_empty() {
        return Ok(());
    }
    let mut next =
        format!("on Debian and Ubuntu: apt-get install --no-install-recommends {}", packages.join(" "));
    if packages.contains(&ICU.package) {
        next.push_str("; or build without ICU: --without-icu");
    }
    Err(Failure::refused("build tools", format!("missing here: {}", missing.join(", "))).next(next))
}

fn compiles(compiler: &Path, program: &str) -> Result<bool, Failure> {
    let failed = |e: std::io::Error| Failure::refused(compiler.display(), e);
    let mut child = Command::new(compiler)
        .args(["-fsyntax-only", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // A compiler that ends before it has read everything has said no already.
        let _ = input.write_all(program.as_bytes());
    }
    Ok(child.wait().map_err(failed)?.success())
}

fn has_ipc_run(perl: &Path) -> bool {
    let mut command = Command::new(perl);
    command.args(["-MIPC::Run", "-e", "1"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
