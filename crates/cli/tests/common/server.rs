//! PostgreSQL servers for tests that are run where a build of it may take its minutes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::mezz;

/// A server with assertions and the extension, made once in the user's own cache: minutes the first time.
pub(crate) fn build() -> serde_json::Value {
    mezz(&["pg", "build", "--assertions", "--json"]).expect(0).json()
}

pub(crate) fn text<'a>(value: &'a serde_json::Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// A port that nobody used a moment ago.
pub(crate) fn port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// A directory that the server's user can get to, which the target directory of a checkout need not be.
pub(crate) struct Open(PathBuf);

impl Open {
    pub(crate) fn new(name: &str) -> Open {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("mezz-test-pg-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Open(path)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = mezz(&["pg", "stop", "--mode", "immediate", "--pgdata", &self.file("db")]);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A data directory of the build with assertions, whose server anybody on this machine may ask.
pub(crate) struct Cluster {
    open: Open,
    pub(crate) directory: String,
    pub(crate) flash: String,
    prefix: String,
    port: String,
    user: String,
}

impl Cluster {
    /// With a tier of 64 MiB and 1 MiB of shared buffers; `settings` are `NAME=VALUE`.
    pub(crate) fn create(name: &str, settings: &[&str]) -> Cluster {
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        Cluster::made(name, &[&["--flash", "FLASH", "--flash-size", "64MiB"][..], &settings].concat())
    }

    /// Without a tier.
    pub(crate) fn without_tier(name: &str) -> Cluster {
        Cluster::made(name, &[])
    }

    fn made(name: &str, options: &[&str]) -> Cluster {
        let open = Open::new(name);
        let (directory, flash, port) = (open.file("db"), open.file("flash.mezz"), port());
        let prefix = text(&build(), "prefix").to_owned();
        let fixed = [
            "pg",
            "init",
            "--json",
            "--pgdata",
            &directory,
            "--postgres",
            &prefix,
            "--port",
            &port,
            "--shared-buffers",
            "1MiB",
            "--initdb",
            "--locale=C",
            "--initdb",
            "--auth-local=trust",
        ];
        let options = options.iter().map(|option| if *option == "FLASH" { flash.as_str() } else { option });
        let arguments: Vec<&str> = fixed.into_iter().chain(options).collect();
        let made = mezz(&arguments).expect(0).json();
        let user = text(&made, "user").to_owned();
        Cluster { open, directory, flash, prefix, port, user }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.open.file(name)
    }

    pub(crate) fn start(&self) {
        mezz(&["pg", "start", "--pgdata", &self.directory]).expect(0);
    }

    /// One more line of settings, which counts over those before.
    pub(crate) fn configure(&self, line: &str) {
        use std::io::Write as _;
        let path = Path::new(&self.directory).join("mezzanine.conf");
        let mut file = std::fs::File::options().append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    /// What the server answers in the database postgres.
    pub(crate) fn sql(&self, query: &str) -> String {
        let output = Command::new(Path::new(&self.prefix).join("bin/psql"))
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"])
            .args(["--host", "/tmp", "--port", &self.port, "--username", &self.user, "--dbname", "postgres"])
            .args(["--command", query])
            .output()
            .unwrap();
        assert!(output.status.success(), "{query}:\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A running standby with a tier of its own, made from a base backup of this server.
    pub(crate) fn standby(&self, name: &str) -> Cluster {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
        use std::os::unix::process::CommandExt as _;
        let open = Open::new(name);
        let (directory, flash, port) = (open.file("db"), open.file("flash.mezz"), port());
        // As the user of the server, who owns its data directory.
        let owner = std::fs::metadata(&self.directory).unwrap();
        let own = |path: &str, mode: u32| {
            chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        std::fs::create_dir(&directory).unwrap();
        own(&directory, 0o700);
        std::fs::write(&flash, "").unwrap();
        own(&flash, 0o600);
        let done = Command::new(Path::new(&self.prefix).join("bin/pg_basebackup"))
            .uid(owner.uid())
            .gid(owner.gid())
            .current_dir("/")
            .args(["--host", "/tmp", "--port", &self.port, "--username", &self.user, "--checkpoint", "fast"])
            .args(["--write-recovery-conf", "--pgdata", &directory])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let standby =
            Cluster { open, directory, flash, prefix: self.prefix.clone(), port, user: self.user.clone() };
        standby.configure(&format!("mezzanine.flash_path = '{}'\nport = {}", standby.flash, standby.port));
        standby.start();
        standby
    }

    /// A line of `pg_controldata`.
    pub(crate) fn control(&self, name: &str) -> String {
        let program = Path::new(&self.prefix).join("bin/pg_controldata");
        let output = Command::new(program).arg(&self.directory).env("LC_ALL", "C").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name} in:\n{said}")).trim().to_owned()
    }

    /// Puts an empty file of the same owner and mode where the tier is, and returns where that lies now.
    pub(crate) fn take_flash_away(&self) -> String {
        let away = self.file("flash.away");
        std::fs::rename(&self.flash, &away).unwrap();
        let copied =
            Command::new("cp").args(["--preserve", "--attributes-only", &away, &self.flash]).status();
        assert!(copied.unwrap().success());
        away
    }

    /// kill -9 of all of the server's processes, and waits until they are gone.
    pub(crate) fn kill(&self) {
        let pid_file = std::fs::read_to_string(Path::new(&self.directory).join("postmaster.pid")).unwrap();
        let postmaster: u32 = pid_file.lines().next().unwrap().parse().unwrap();
        let all = family(postmaster);
        kill(&all);
        wait_until_gone(&all);
    }
}

/// kill -9 of a child of this process with its children and theirs, and waits until they are gone.
pub(crate) fn kill_family(child: &mut Child) {
    let all = family(child.id());
    kill(&all);
    let _ = child.wait();
    wait_until_gone(&all);
}

/// A process, its children and theirs.
fn family(root: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = processes().collect();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(all.iter().filter(|process| process.1 == parent).map(|process| process.0));
        next += 1;
    }
    family
}

/// kill -9. One that ended by itself meanwhile is just as dead.
fn kill(all: &[u32]) {
    let numbers: Vec<String> = all.iter().map(u32::to_string).collect();
    let _ = Command::new("kill").arg("-9").args(&numbers).stderr(Stdio::null()).status().unwrap();
}

fn wait_until_gone(all: &[u32]) {
    let began = Instant::now();
    while processes().any(|process| all.contains(&process.0)) {
        assert!(began.elapsed() < Duration::from_secs(60), "a killed process does not go away");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Numbers of all processes, with their parents' numbers. One that is dead counts until it is reaped: pg_ctl
/// takes it for a server.
fn processes() -> impl Iterator<Item = (u32, u32)> {
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // A name may hold spaces and parentheses.
        let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
        Some((pid, fields.nth(1)?.parse().ok()?))
    })
}
