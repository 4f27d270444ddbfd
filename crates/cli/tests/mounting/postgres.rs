//! PostgreSQL on file systems that tests mount: a small cluster, its server, and what is true of its
//! contents at any time.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, Config, NoTls};

use super::common::mezz;
use super::common::server::{Open, build, kill_family, port, text};
use super::mounting::database::{Database, Session, file_system};
use super::mounting::run;

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

/// A server without clients recovers the database and is asked, which takes little: the recovery is the same.
const CHECK: &str = r#"
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
    prefix: String,
    user: String,
    uid: u32,
    gid: u32,
    /// Where the table of the counter is, in the data directory.
    counter: String,
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

    fn log(&self) -> String {
        std::fs::read_to_string(self.open.file("log")).unwrap_or_default()
    }
}

impl Database for Template {
    fn folder(&self) -> PathBuf {
        PathBuf::from(self.open.file(""))
    }

    fn image(&self, path: &str) {
        file_system(path, 64 << 20, &self.open.file("root"));
    }

    fn begin<'d>(&'d self, directory: &Path, settings: &[&str], before: &[&str]) -> Box<dyn Session + 'd> {
        let program = Path::new(&self.prefix).join("bin/postgres").display().to_string();
        let mut words = before.iter().copied().chain([program.as_str()]);
        let mut command = self.as_user(words.next().unwrap());
        let (port, sockets) = (port(), "/tmp");
        command.args(words).arg("-D").arg(directory).args(["-k", sockets, "-p", &port, "-h", ""]);
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        let log = std::fs::File::options().append(true).create(true).open(self.open.file("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        let mut server =
            Server { template: self, child: Some(child), client: None, directory: directory.to_owned() };
        let mut config = Config::new();
        config.host_path(sockets).port(port.parse().unwrap()).dbname("template1");
        config.user(&self.user).connect_timeout(Duration::from_secs(30));
        let begun = Instant::now();
        server.client = loop {
            match config.connect(NoTls) {
                Ok(client) => break Some(client),
                Err(error) => {
                    assert!(begun.elapsed() < Duration::from_secs(60), "{error}: {}", self.log());
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        };
        Box::new(server)
    }

    fn check(&self) -> &'static str {
        CHECK
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("POSTGRES", self.prefix.clone()),
            ("SERVER_UID", self.uid.to_string()),
            ("SERVER_GID", self.gid.to_string()),
        ]
    }

    fn counter(&self) -> &str {
        &self.counter
    }
}

/// A server; killed if nobody ends it.
struct Server<'t> {
    template: &'t Template,
    child: Option<Child>,
    client: Option<Client>,
    directory: PathBuf,
}

impl Server<'_> {
    fn client(&mut self) -> &mut Client {
        self.client.as_mut().unwrap()
    }
}

impl Session for Server<'_> {
    fn commit(&mut self, row: u64) -> bool {
        let query = format!(
            "begin; insert into t select {row}, string_agg(md5('{row}.' || g), '') from generate_series(1, 30) g; \
             update t set v = v where id % 8 = {row} % 8; update c set n = n + 1; commit"
        );
        self.client().batch_execute(&query).is_ok()
    }

    fn checkpoint(&mut self) -> bool {
        self.client().batch_execute("select pg_switch_wal(); checkpoint").is_ok()
    }

    fn rows(&mut self) -> u64 {
        self.client().query_one("select count(*) from t", &[]).unwrap().get::<_, i64>(0) as u64
    }

    fn end(mut self: Box<Self>) {
        self.client = None;
        let file = std::fs::read_to_string(self.directory.join("postmaster.pid")).unwrap();
        run("kill", &["-INT", file.lines().next().unwrap()]);
        let status = self.child.take().unwrap().wait().unwrap();
        assert!(status.success(), "{status}: {}", self.template.log());
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.client = None;
        if let Some(child) = &mut self.child {
            // Each of its processes is of a group of its own, and may have files open there.
            kill_family(child);
        }
    }
}
