//! PostgreSQL on file systems that tests mount: a small cluster, its server, and what is true of its
//! contents at any time.
#![allow(dead_code)] // Each test uses a part.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use postgres::{Client, Config, NoTls};

use super::common::server::{Open, build, family, kill, port, text, wait_until_gone};
use super::common::{Scratch, mezz};
use super::mounting::{run, wait_for};

/// Transactions between two checkpoints.
pub(crate) const BETWEEN_CHECKPOINTS: u64 = 8;

/// Resources alone: what makes a commit durable is as it is without any settings.
const SETTINGS: &str = "
shared_buffers = 128kB
max_connections = 5
max_worker_processes = 0
max_wal_senders = 0
max_wal_size = 4MB
min_wal_size = 2MB
";

/// A row for each commit and a counter, which are changed together.
const TABLES: &str = "create extension amcheck
create table t (id bigint primary key, v text not null)
create table c (n bigint not null)
insert into c values (0)
update pg_database set datistemplate = false where datname = 'template0'
drop database template0
drop database postgres
";

/// The file system's journal is replayed, and its files are looked at where nobody else sees them: a mount
/// that goes with the check.
pub(crate) const MOUNT: &str = r#"
folder=$(mktemp -d); trap 'umount "$folder/fs" 2>/dev/null; rm -r --one-file-system "$folder"' EXIT
chmod 755 "$folder"; mkdir "$folder/fs"
e2fsck -fy "$MEZZ_IMAGE" >"$folder/log" 2>&1; [ $? -lt 4 ] || { tail -n 1 "$folder/log"; exit 1; }
mount -o loop,nobarrier "$MEZZ_IMAGE" "$folder/fs" || exit 125
marks=$(wc -l <"$MEZZ_MARKS")
"#;

/// Recovers the database that is in the folder `$folder/db`, and looks at all of it. Alone, so that it takes
/// little: the recovery is the server's. `$marks` commits were acknowledged.
pub(crate) const CHECK: &str = r#"
as_user() { setpriv --reuid="$SERVER_UID" --regid="$SERVER_GID" --clear-groups "$@"; }
bin=$POSTGRES/bin
cat >"$folder/queries" <<END
select 'rows: ' || case when count(*) < $marks then count(*) || ' rows, $marks were acknowledged' when count(*) <> coalesce(max(id), 0) or count(*) <> (select n from c) then count(*) || ' rows up to ' || max(id) || ', and the counter is ' || (select n from c) when bool_or(v <> (select string_agg(md5(t.id || '.' || g), '') from generate_series(1, 30) g)) then 'a row is not what was written' else 'in order' end from t
select bt_index_check('t_pkey', true)
END
as_user "$bin/postgres" --single -F -c exit_on_error=on -c log_min_messages=warning -D "$folder/fs/db" template1 \
    <"$folder/queries" >"$folder/said" 2>"$folder/log" || {
    grep -E 'PANIC|FATAL|ERROR' "$folder/log" | tail -n 1 | sed 's/^.*\] *//' | grep . || tail -n 1 "$folder/log"; exit 1; }
said=$(sed -n 's/.*"rows: \(.*\)".*/\1/p' "$folder/said")
[ "$said" = 'in order' ] || { echo "${said:-nothing was read}"; exit 1; }
as_user "$bin/pg_checksums" --check -D "$folder/fs/db" >"$folder/said" 2>"$folder/log" || { head -n 1 "$folder/log"; exit 1; }
"#;

/// A cluster of which file systems are made.
pub(crate) struct Template {
    open: Open,
    pub(crate) prefix: String,
    user: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Where the table of the counter is, in the data directory.
    pub(crate) counter: String,
}

impl Template {
    pub(crate) fn make(name: &str) -> Self {
        let open = Open::new(name);
        let prefix = text(&build(), "prefix").to_owned();
        let directory = open.file("root/db");
        std::fs::create_dir(open.file("root")).unwrap();
        let initdb = ["--locale=C", "--auth-local=trust", "--data-checksums", "--wal-segsize=1", "--no-sync"];
        let mut arguments = vec!["pg", "init", "--json", "--pgdata", &directory, "--postgres", &prefix];
        arguments.extend(initdb.iter().flat_map(|option| ["--initdb", option]));
        let made = mezz(&arguments).expect(0).json();
        let owner = std::fs::metadata(&directory).unwrap();
        let mut template = Self {
            user: text(&made, "user").to_owned(),
            uid: owner.uid(),
            gid: owner.gid(),
            counter: String::new(),
            prefix,
            open,
        };
        let file = std::fs::File::options().append(true).open(template.open.file("root/db/postgresql.conf"));
        file.unwrap().write_all(SETTINGS.as_bytes()).unwrap();
        let said = template.alone(&directory, &format!("{TABLES}select pg_relation_filepath('c')\n"));
        let path = said.split("pg_relation_filepath = \"").nth(1).and_then(|rest| rest.split('"').next());
        template.counter = path.unwrap_or_else(|| panic!("no path in {said}")).to_owned();
        template
    }

    /// A folder that the server's user can get to.
    pub(crate) fn folder(&self) -> PathBuf {
        PathBuf::from(self.open.file(""))
    }

    fn as_user(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.uid(self.uid).gid(self.gid).current_dir("/");
        command
    }

    /// What a server without clients answers.
    fn alone(&self, directory: &str, queries: &str) -> String {
        let mut command = self.as_user(Path::new(&self.prefix).join("bin/postgres"));
        command.args(["--single", "-F", "-c", "exit_on_error=on", "-D", directory, "template1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(queries.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A file with a file system that has the cluster.
    pub(crate) fn image(&self, path: &str, bytes: u64) {
        std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
        let root = self.open.file("root");
        let features = ["-E", "lazy_itable_init=0", "-J", "size=4", "-b", "4096", "-d", &root];
        run("mke2fs", &[&["-q", "-t", "ext4"][..], &features, &[path]].concat());
    }

    /// What [`CHECK`] goes by.
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("POSTGRES", self.prefix.clone()),
            ("SERVER_UID", self.uid.to_string()),
            ("SERVER_GID", self.gid.to_string()),
        ]
    }

    /// Why the database in the folder `fs` of this one is not in order, recovered as far as it is.
    pub(crate) fn broken(&self, below: &Path, acknowledged: u64) -> Option<String> {
        let mut command = Command::new("sh");
        command.args(["-c", CHECK]).env("folder", below).env("marks", acknowledged.to_string());
        let output = command.envs(self.environment()).output().unwrap();
        // Recovery has not waited for the device.
        run("sync", &["-f", &below.join("fs").to_string_lossy()]);
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The same of the contents of a device.
    pub(crate) fn broken_image(&self, image: &str, scratch: &Scratch, acknowledged: u64) -> Option<String> {
        let marks = scratch.file("acknowledged");
        std::fs::write(&marks, "\n".repeat(acknowledged as usize)).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{MOUNT}{CHECK}")]);
        command.env("MEZZ_IMAGE", image).env("MEZZ_MARKS", marks);
        let output = command.envs(self.environment()).output().unwrap();
        let code = output.status.code();
        assert!(code.is_some_and(|code| code < 125), "{output:?}");
        (code != Some(0)).then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Starts a server on a data directory. With a program before it that is given its command.
    pub(crate) fn serve(&self, directory: &Path, settings: &[&str], before: &[&str]) -> Server<'_> {
        let program = Path::new(&self.prefix).join("bin/postgres").display().to_string();
        let mut words = before.iter().copied().chain([program.as_str()]);
        let mut command = self.as_user(words.next().unwrap());
        let (port, sockets) = (port(), "/tmp");
        command.args(words).arg("-D").arg(directory).args(["-k", sockets, "-p", &port, "-h", ""]);
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        let log = std::fs::File::options().append(true).create(true).open(self.open.file("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        Server { template: self, child: Some(child), port, directory: directory.to_owned() }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.open.file("log")).unwrap_or_default()
    }
}

/// A server; killed if nobody ends it.
pub(crate) struct Server<'t> {
    template: &'t Template,
    child: Option<Child>,
    port: String,
    directory: PathBuf,
}

impl Server<'_> {
    /// A client, as soon as it takes one.
    pub(crate) fn client(&self) -> Client {
        let mut config = Config::new();
        config.host_path("/tmp").port(self.port.parse().unwrap()).dbname("template1");
        config.user(&self.template.user).connect_timeout(Duration::from_secs(30));
        let client = std::cell::RefCell::new(None);
        wait_for("the server lets somebody in", || {
            *client.borrow_mut() = config.connect(NoTls).ok();
            client.borrow().is_some()
        });
        client.into_inner().unwrap()
    }

    /// Ends it in order.
    pub(crate) fn end(mut self) {
        let file = std::fs::read_to_string(self.directory.join("postmaster.pid")).unwrap();
        run("kill", &["-INT", file.lines().next().unwrap()]);
        let status = self.child.take().unwrap().wait().unwrap();
        assert!(status.success(), "{status}: {}", self.template.log());
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Each of its processes is of a group of its own, and may have files open there.
            let family = family(child.id());
            kill(&family);
            let _ = child.wait();
            wait_until_gone(&family);
        }
    }
}

/// One row more, and the counter with it.
pub(crate) fn commit(client: &mut Client, row: u64) -> Result<(), postgres::Error> {
    client.batch_execute(&format!(
        "begin; insert into t select {row}, string_agg(md5('{row}.' || g), '') from generate_series(1, 30) g; \
         update c set n = n + 1; commit"
    ))
}

/// Commits until one is not acknowledged; how many have been, with those before.
pub(crate) fn commit_until_it_fails(client: &mut Client, acknowledged: u64) -> u64 {
    let mut row = acknowledged;
    while commit(client, row + 1).is_ok() {
        row += 1;
        if row % BETWEEN_CHECKPOINTS == 0 && client.batch_execute("checkpoint").is_err() {
            break;
        }
    }
    row
}

/// How many rows there are.
pub(crate) fn rows(client: &mut Client) -> u64 {
    client.query_one("select count(*) from t", &[]).unwrap().get::<_, i64>(0) as u64
}
