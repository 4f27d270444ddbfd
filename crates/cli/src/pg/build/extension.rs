//! The extension: the tier as a static library, linked into a module of PostgreSQL's.
//!
//! It is installed into a copy of the server's build, with a name of its own that hashes the sources. So a
//! build never changes under a server that runs from it, and the server is compiled once however often the
//! extension is.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use mezzanine_report::now_utc;
use sha2::{Digest as _, Sha256};

use super::cache::{self, Place, Stamp};
use super::steps::Log;
use super::{Build, found, tools};
use crate::failure::Failure;

/// What the module is made of, relative to the repository.
const SOURCES: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "crates/device/Cargo.toml",
    "crates/device/models",
    "crates/device/src",
    "crates/engine/Cargo.toml",
    "crates/engine/src",
    "crates/ffi/Cargo.toml",
    "crates/ffi/src",
    "crates/ground/Cargo.toml",
    "crates/ground/src",
    "crates/trace/Cargo.toml",
    "crates/trace/src",
    EXTENSION,
];

/// The module's own directory.
const EXTENSION: &str = "postgres/mezzanine";

/// Compiles the extension for a build, or finds it compiled unless `force` is set, and returns the build that
/// has it.
pub(crate) fn install_extension(build: &Build, force: bool) -> Result<Build, Failure> {
    let repository = repository()?;
    let sum = sum_of(&repository)?;
    let (Some(builds), Some(name)) = (build.prefix.parent(), build.prefix.file_name()) else {
        return Err(Failure::refused(build.prefix.display(), "this is not a build in the cache"));
    };
    let place = Place::new(builds, &format!("{}-mezzanine-{}", name.to_string_lossy(), &sum[..12]));
    if let Some(stamp) = place.stamp().filter(|_| !force) {
        return Ok(found(&place, stamp, true));
    }
    let _lock = place.lock()?;
    if let Some(stamp) = place.stamp().filter(|_| !force) {
        return Ok(found(&place, stamp, true));
    }
    place.clear()?;
    let started = Instant::now();
    make(build, &repository, &place)?;
    let stamp = Stamp {
        version: build.version.clone(),
        source_sha256: build.source_sha256.clone(),
        patches: build.patches.clone(),
        configure: build.configure.clone(),
        built: now_utc(),
        seconds: started.elapsed().as_secs_f64(),
        checked: build.checked,
        extension: Some(sum),
    };
    place.finish(&stamp)?;
    cache::remove(std::fs::remove_dir_all(&place.workshop), &place.workshop)?;
    Ok(found(&place, stamp, false))
}

/// The checkout that this `mezz` was built in.
fn repository() -> Result<PathBuf, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap_or(root);
    if root.join(EXTENSION).join("Makefile").exists() {
        return Ok(root);
    }
    Err(Failure::refused(
        root.join(EXTENSION).display(),
        "the extension's source is not there: this mezz was built in a checkout that has gone or moved",
    )
    .next("build mezz again where the checkout is now, or build the server alone with --server-only"))
}

fn make(build: &Build, repository: &Path, place: &Place) -> Result<(), Failure> {
    let again = "the server itself is built; --server-only leaves the extension out";
    cache::make_directory(&place.workshop)?;
    let mut log = Log::create(&place.log)?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    log.run(
        "compiling the tier",
        Command::new("cargo")
            .args(["build", "--release", "--locked", "--package", "mezzanine-ffi", "--target-dir"])
            .arg(&target)
            .current_dir(repository),
        again,
    )?;
    let copy = |how: &str, from: &Path, to: &Path| {
        let mut command = Command::new("cp");
        command.args(["--archive", how]).arg(from).arg(to);
        command
    };
    let prefix = place.workshop.join("prefix");
    // Files of a build never change, and installing replaces them: both may have them in common.
    log.run("copying the server", &mut copy("--link", &build.prefix, &prefix), again)?;
    // The copy is complete when it says so itself.
    let stamp = prefix.join(cache::STAMP);
    cache::remove(std::fs::remove_file(&stamp), &stamp)?;
    let module = place.workshop.join("mezzanine");
    log.run(
        "copying the extension",
        &mut copy("--reflink=auto", &repository.join(EXTENSION), &module),
        again,
    )?;
    for (what, target_name) in [("cleaning", "clean"), ("compiling and installing the extension", "install")]
    {
        log.run(
            what,
            Command::new(tools::make())
                .arg(target_name)
                .arg(format!("PG_CONFIG={}", prefix.join("bin/pg_config").display()))
                .arg(format!("MEZZ_FFI={}", target.join("release/libmezzanine_ffi.a").display()))
                .current_dir(&module),
            again,
        )?;
    }
    std::fs::rename(&prefix, &place.prefix).map_err(|e| Failure::refused(place.prefix.display(), e))
}

/// One checksum over names and contents, in the order of the names.
fn sum_of(repository: &Path) -> Result<String, Failure> {
    let mut files = Vec::new();
    for path in SOURCES {
        list(&repository.join(path), &mut files).map_err(|e| Failure::refused(path, e))?;
    }
    files.sort();
    let mut hash = Sha256::new();
    let mut bytes = Vec::new();
    for file in &files {
        bytes.clear();
        std::fs::File::open(file)
            .and_then(|mut open| open.read_to_end(&mut bytes))
            .map_err(|e| Failure::refused(file.display(), e))?;
        let name = file.strip_prefix(repository).unwrap_or(file);
        hash.update(name.to_string_lossy().as_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
    }
    Ok(hex::encode(hash.finalize()))
}

/// The files below a path, without what a compiler has left there.
fn list(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        let compiled = path.extension().is_some_and(|kind| ["o", "so", "bc"].iter().any(|it| kind == *it));
        if !compiled {
            files.push(path.to_owned());
        }
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        list(&entry?.path(), files)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;
    use std::path::Path;

    use super::SOURCES;

    /// The crates of this workspace that one of them is built of, itself among them.
    fn crates_of(repository: &Path, name: &str, found: &mut BTreeSet<String>) {
        if !found.insert(name.to_owned()) {
            return;
        }
        let manifest = std::fs::read_to_string(repository.join(format!("crates/{name}/Cargo.toml"))).unwrap();
        let dependencies = manifest.split("\n[").find(|part| part.starts_with("dependencies]")).unwrap();
        for line in dependencies.lines() {
            // The module is built without features.
            let always = !line.contains("optional");
            if let Some(rest) = line.strip_prefix("mezzanine-").filter(|_| always) {
                let end = rest.find(['.', ' ', '=']).unwrap();
                crates_of(repository, &rest[..end], found);
            }
        }
    }

    #[test]
    fn every_crate_that_the_extension_is_built_of_counts() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut crates = BTreeSet::new();
        crates_of(&repository, "ffi", &mut crates);
        assert!(crates.len() > 3, "{crates:?}");
        for name in crates {
            for part in ["Cargo.toml", "src"] {
                let source = format!("crates/{name}/{part}");
                assert!(SOURCES.contains(&source.as_str()), "{source} does not count");
            }
        }
    }
}
