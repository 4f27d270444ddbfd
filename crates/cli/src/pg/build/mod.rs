//! `mezz pg build`: PostgreSQL from its released source and the patch queue, into a cache.

mod cache;
mod extension;
mod queue;
mod release;
mod source;
mod steps;
mod tools;

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::Args;
use mezzanine_report::{facts, now_utc};
use rustix::fs::Mode;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use self::cache::{Place, Stamp};
use self::extension::install_extension;
use self::queue::{Patch, QUEUE};
use self::release::Release;
use self::steps::Log;
use crate::failure::Failure;
use crate::output;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz pg build
  mezz pg build --source postgresql-17.11.tar.bz2 --jobs 8
  mezz pg build --unpatched --json

The source is looked for in this order: --source; the cache; Debian's mirrors; postgresql.org. It is built only if its SHA-256 checksum is that of \
the release. Builds lie in $MEZZANINE_CACHE, else $XDG_CACHE_HOME/mezzanine, else ~/.cache/mezzanine, and for root in /var/cache/mezzanine, because the \
server itself runs as another user. One that is there is used as it is; it takes about 40 MB.";

#[derive(Debug, Default, Args)]
pub(crate) struct BuildArgs {
    /// The release to build.
    #[arg(long, value_name = "X.Y", default_value = release::DEFAULT)]
    version: String,

    /// The release's source archive (tar.bz2).
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,

    /// The archive's SHA-256 checksum, for a release that this mezz does not know.
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,

    /// How many compilers run at once [default: the number of processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Leave the patches out: a stock server, to compare with.
    #[arg(long)]
    unpatched: bool,

    /// The server alone, without the extension.
    #[arg(long)]
    server_only: bool,

    /// For tests: with assertions, debugging symbols and the TAP test library.
    #[arg(long)]
    assertions: bool,

    /// Without ICU (its collations are then not available).
    #[arg(long)]
    without_icu: bool,

    /// One more option for PostgreSQL's configure, such as --with-openssl; may be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    configure: Vec<String>,

    /// Run PostgreSQL's regression and isolation tests before installing (as an unprivileged user if started
    /// as root).
    #[arg(long)]
    check: bool,

    /// Build again although it is there. No server may be running from it.
    #[arg(long)]
    force: bool,

    /// Fetch the release's source archive into the cache, or find it there, and build nothing.
    #[arg(long)]
    fetch_only: bool,
}

/// Who runs PostgreSQL's tests if root is asked to.
const NOBODY: u32 = 65534;

/// A finished build.
#[derive(Debug, Serialize)]
pub(crate) struct Build {
    pub(crate) version: String,
    pub(crate) prefix: PathBuf,
    pub(crate) pg_config: PathBuf,
    pub(crate) log: PathBuf,
    patches: Vec<String>,
    configure: Vec<String>,
    source_sha256: String,
    checked: bool,
    /// The checksum of the extension's sources.
    extension: Option<String>,
    /// It was there already.
    cached: bool,
    seconds: f64,
}

/// What is to be built; all of it decides where it lies.
struct Recipe {
    release: Release,
    patches: &'static [Patch],
    configure: Vec<String>,
}

impl Recipe {
    fn new(args: &BuildArgs) -> Result<Recipe, Failure> {
        let release = Release::find(&args.version, args.sha256.as_deref())?;
        let mut configure = vec![if args.without_icu { "--without-icu" } else { "--with-icu" }.to_owned()];
        if args.assertions {
            configure.extend(["--enable-cassert", "--enable-debug", "--enable-tap-tests"].map(str::to_owned));
        }
        for option in &args.configure {
            if option.starts_with("--prefix") || !option.starts_with("--") && !option.contains('=') {
                return Err(Failure::usage(
                    "--configure",
                    format!("'{option}' is not an option that may be added to configure"),
                ));
            }
            configure.push(option.clone());
        }
        Ok(Recipe { release, patches: if args.unpatched { &[] } else { QUEUE }, configure })
    }

    /// The version, and a hash of everything else.
    fn name(&self) -> String {
        let mut hash = Sha256::new();
        // Raised when the steps below change what comes out.
        hash.update(b"recipe 1\n");
        hash.update(self.release.sha256.as_bytes());
        for text in self.configure.iter().map(String::as_str).chain(self.patches.iter().map(|p| p.text)) {
            hash.update(text.len().to_le_bytes());
            hash.update(text.as_bytes());
        }
        format!("{}-{}", self.release.version, &hex::encode(hash.finalize())[..12])
    }
}

/// What there is to build from.
#[derive(Debug, Serialize)]
struct Fetched {
    version: String,
    source: PathBuf,
    source_sha256: String,
}

fn fetch(args: &BuildArgs, json: bool) -> Result<(), Failure> {
    let release = Release::find(&args.version, args.sha256.as_deref())?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let source = source::find(&release, args.source.as_deref(), &cache::root()?)?;
    let fetched = Fetched { version: release.version, source, source_sha256: release.sha256 };
    if json {
        return output::json(&fetched);
    }
    output::print(&facts(&[
        ("version", format!("PostgreSQL {}", fetched.version)),
        ("source", fetched.source.display().to_string()),
    ]))
}

pub(crate) fn run(args: &BuildArgs, json: bool) -> Result<(), Failure> {
    if args.fetch_only {
        return fetch(args, json);
    }
    let server = build(args)?;
    let build =
        if args.unpatched || args.server_only { server } else { install_extension(&server, args.force)? };
    if json {
        return output::json(&build);
    }
    output::print(&facts(&[
        ("version", format!("PostgreSQL {}", build.version)),
        (
            "patches",
            if build.patches.is_empty() {
                "none (stock)".to_owned()
            } else {
                build.patches.len().to_string()
            },
        ),
        (
            "extension",
            match &build.extension {
                Some(sum) => format!("mezzanine, of sources {}", &sum[..12]),
                None => "none".to_owned(),
            },
        ),
        ("configured", build.configure.join(" ")),
        ("installed in", build.prefix.display().to_string()),
        ("log", build.log.display().to_string()),
        ("built", if build.cached { "before".to_owned() } else { format!("now, in {:.0} s", build.seconds) }),
    ]))
}

/// The patched server with the extension, as `mezz pg build` makes it without options.
pub(crate) fn default_build() -> Result<Build, Failure> {
    let args = BuildArgs { version: release::DEFAULT.to_owned(), ..BuildArgs::default() };
    install_extension(&build(&args)?, false)
}

/// Makes a build, or finds it.
pub(crate) fn build(args: &BuildArgs) -> Result<Build, Failure> {
    let recipe = Recipe::new(args)?;
    // What is made here is for other users to read, whoever runs this.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let cache = cache::root()?;
    let builds = cache.join("postgresql");
    cache::make_directory(&builds)?;
    let place = Place::new(&builds, &recipe.name());
    if let Some(stamp) = place.stamp().filter(|stamp| !args.force && (stamp.checked || !args.check)) {
        return Ok(found(&place, stamp, true));
    }
    tools::check(!args.without_icu, args.assertions)?;
    let _lock = place.lock()?;
    // Somebody else may have made it while this one waited.
    if let Some(stamp) = place.stamp().filter(|stamp| !args.force && (stamp.checked || !args.check)) {
        return Ok(found(&place, stamp, true));
    }
    let archive = source::find(&recipe.release, args.source.as_deref(), &cache)?;
    place.clear()?;
    let started = Instant::now();
    make(&recipe, &archive, &place, args)?;
    let stamp = Stamp {
        version: recipe.release.version.clone(),
        source_sha256: recipe.release.sha256.clone(),
        patches: recipe.patches.iter().map(|patch| patch.name.to_owned()).collect(),
        configure: recipe.configure.clone(),
        built: now_utc(),
        seconds: started.elapsed().as_secs_f64(),
        checked: args.check,
        extension: None,
    };
    place.finish(&stamp)?;
    cache::remove(std::fs::remove_dir_all(&place.workshop), &place.workshop)?;
    Ok(found(&place, stamp, false))
}

fn found(place: &Place, stamp: Stamp, cached: bool) -> Build {
    Build {
        version: stamp.version,
        prefix: place.prefix.clone(),
        pg_config: place.prefix.join("bin/pg_config"),
        log: place.log.clone(),
        patches: stamp.patches,
        configure: stamp.configure,
        source_sha256: stamp.source_sha256,
        checked: stamp.checked,
        extension: stamp.extension,
        cached,
        seconds: stamp.seconds,
    }
}

/// Unpacks, patches, configures, compiles, checks and installs.
fn make(recipe: &Recipe, archive: &Path, place: &Place, args: &BuildArgs) -> Result<(), Failure> {
    let workshop = &place.workshop;
    cache::make_directory(workshop)?;
    let mut log = Log::create(&place.log)?;
    let jobs = args
        .jobs
        .map_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get), usize::from);
    let room = "look whether there is room and memory, then build again";
    log.run(
        "unpacking the source",
        Command::new("tar")
            .arg("-xjf")
            .arg(archive)
            .args(["--no-same-owner", "--strip-components=1", "-C"])
            .arg(workshop),
        room,
    )?;
    for patch in recipe.patches {
        apply(&mut log, workshop, patch, &recipe.release)?;
    }
    log.run(
        "configure",
        Command::new("./configure")
            .arg(format!("--prefix={}", place.prefix.display()))
            .args(&recipe.configure)
            .current_dir(workshop),
        &format!("{} says more; --configure adds options", workshop.join("config.log").display()),
    )?;
    let compile = |target: &str| {
        let mut command = Command::new(tools::make());
        command.arg(format!("--jobs={jobs}")).args(["--silent", target]).current_dir(workshop);
        command
    };
    log.run("compiling (some minutes)", &mut compile("world-bin"), room)?;
    // Installed first: the tests get the directory, and nothing is installed from it afterwards.
    log.run("installing", &mut compile("install-world-bin"), room)?;
    if args.check { check(&mut log, workshop) } else { Ok(()) }
}

fn apply(log: &mut Log, workshop: &Path, patch: &Patch, release: &Release) -> Result<(), Failure> {
    let file = workshop.join(patch.name);
    File::create(&file)
        .and_then(|mut file| file.write_all(patch.text.as_bytes()))
        .map_err(|e| Failure::refused(file.display(), e))?;
    log.run(
        &format!("applying {}", patch.name),
        Command::new("patch")
            .args(["-p1", "--forward", "--fuzz=0", "--input"])
            .arg(&file)
            .current_dir(workshop),
        &format!("the queue is made for PostgreSQL {}; this is {}", release::DEFAULT, release.version),
    )
}

/// PostgreSQL's own tests, which refuse to run as root.
fn check(log: &mut Log, workshop: &Path) -> Result<(), Failure> {
    let root = rustix::process::geteuid().is_root();
    if root {
        let status = Command::new("chown").args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(workshop).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(Failure::refused(workshop.display(), "cannot be given to an unprivileged user"));
        }
    }
    for (what, directory) in [("regression tests", "."), ("isolation tests", "src/test/isolation")] {
        let mut command = Command::new(tools::make());
        command.args(["--silent", "check"]).current_dir(workshop.join(directory));
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        log.run(what, &mut command, "the log names the tests that failed")?;
    }
    Ok(())
}
