//! A PostgreSQL server for a test: initialised, started, killed and removed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mezzanine_workload::Database as _;
use mezzanine_workload::postgres::{PostgresDatabase, PostgresOptions};

/// PostgreSQL refuses to run as root; then it runs as nobody.
const NOBODY: u32 = 65534;

static NEXT: AtomicU32 = AtomicU32::new(0);

pub struct Server {
    bin: PathBuf,
    directory: PathBuf,
    postmaster: Option<Child>,
}

/// The directory of a build, or `None`, said aloud.
fn build() -> Option<PathBuf> {
    let usable = |prefix: &Path| prefix.join("bin/postgres").is_file();
    if let Some(prefix) = std::env::var_os("MEZZANINE_TEST_PG").map(PathBuf::from) {
        assert!(usable(&prefix), "MEZZANINE_TEST_PG names {}, which has no bin/postgres", prefix.display());
        return Some(prefix);
    }
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let caches = [
        variable("MEZZANINE_CACHE"),
        variable("XDG_CACHE_HOME").map(|path| path.join("mezzanine")),
        Some(PathBuf::from("/var/cache/mezzanine")),
        variable("HOME").map(|path| path.join(".cache/mezzanine")),
    ];
    let builds = caches.into_iter().flatten().filter_map(|cache| fs::read_dir(cache.join("postgresql")).ok());
    // A build is complete when it has its stamp.
    let found = builds
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|prefix| usable(prefix) && prefix.join("mezzanine-build.json").is_file())
        .max();
    if found.is_none() {
        eprintln!("SKIPPED: no build of PostgreSQL; run `mezz pg build`, or name one in MEZZANINE_TEST_PG");
    }
    found
}

impl Server {
    pub fn start() -> Option<Server> {
        let bin = build()?.join("bin");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("mezzanine-workload-pg-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        let data = directory.join("data");
        fs::create_dir(&data).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
            std::os::unix::fs::chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut server = Server { bin, directory, postmaster: None };
        let status = server
            .command("initdb")
            .args(["--no-sync", "--auth=trust", "--username=tester", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "initdb failed");
        server.start_again();
        Some(server)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir(&self.directory);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    pub fn start_again(&mut self) {
        assert!(self.postmaster.is_none());
        let log = fs::File::create(self.directory.join("log")).unwrap();
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.directory.join("data")).arg("-k").arg(&self.directory);
        // What is killed is the server and not the machine, so that what was written is there, synced or not.
        for setting in [
            "listen_addresses=",
            "fsync=off",
            "max_connections=30",
            "shared_buffers=1MB",
            "dynamic_shared_memory_type=mmap",
        ] {
            command.args(["-c", setting]);
        }
        self.postmaster = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let began = Instant::now();
        while let Err(error) = self.connect("postgres", PostgresOptions::default()).open_session() {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not start: {error}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn connect(&self, name: &str, options: PostgresOptions) -> PostgresDatabase {
        let host = self.directory.display();
        PostgresDatabase::new(&format!("host={host} user=tester dbname='{name}'"), options).unwrap()
    }

    /// A new database.
    pub fn database(&self, name: &str, options: PostgresOptions) -> PostgresDatabase {
        let admin = self.connect("postgres", PostgresOptions::default());
        admin.open_session().unwrap().define(&format!("CREATE DATABASE \"{name}\"")).unwrap();
        self.connect(name, options)
    }

    /// Kills the postmaster and all of its children.
    pub fn kill(&mut self) {
        let Some(mut postmaster) = self.postmaster.take() else { return };
        let children = children_of(postmaster.id());
        postmaster.kill().unwrap();
        postmaster.wait().unwrap();
        for child in &children {
            let _ = Command::new("kill").args(["-9", &child.to_string()]).stderr(Stdio::null()).status();
        }
        let began = Instant::now();
        while children.iter().any(|child| Path::new(&format!("/proc/{child}")).exists()) {
            assert!(began.elapsed() < Duration::from_secs(30), "a child of the server does not die");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An immediate shutdown gives back what a kill would leave behind: shared memory.
        if let Some(mut postmaster) = self.postmaster.take() {
            let _ = Command::new("kill").args(["-QUIT", &postmaster.id().to_string()]).status();
            let _ = postmaster.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

fn children_of(parent: u32) -> Vec<u32> {
    let tasks = format!("/proc/{parent}/task/{parent}/children");
    let text = fs::read_to_string(tasks).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
