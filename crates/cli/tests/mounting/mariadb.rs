//! MariaDB on file systems that tests mount.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::common::Scratch;
use super::common::server::kill_family;
use super::mounting::database::{Database, Session, file_system};

/// Besides those that mount.
pub(crate) const SERVER: [&str; 3] = ["mariadbd", "mariadb", "innochecksum"];

/// Resources alone: what makes a commit durable is as it is without any settings. Nothing but these tables is
/// there, so nobody is asked for a password.
const SETTINGS: &str = "[mariadbd]
user = root
skip-grant-tables
skip-networking
performance_schema = OFF
innodb_buffer_pool_size = 6M
innodb_log_file_size = 4M
innodb_autoextend_increment = 1
";

const TABLES: &str = "create database d;
create table d.t (id bigint primary key, v text not null, k char(32) not null, key (k)) engine = innodb;
create table d.c (n bigint not null) engine = innodb;
insert into d.c values (0);
";

/// A server without clients recovers the database and is asked, which takes little: the recovery is the same.
const CHECK: &str = r#"
rm -f "$folder/said"
cat >"$folder/queries" <<END
select concat('rows: ', case when count(*) < $marks then concat(count(*), ' rows, $marks were acknowledged') when count(*) <> coalesce(max(id), 0) or count(*) <> (select n from d.c) then concat(count(*), ' rows up to ', coalesce(max(id), 0), ', and the counter is ', (select n from d.c)) when sum(v <> repeat(md5(id), 30) or k <> md5(id)) > 0 then 'a row is not what was written' when count(*) <> (select count(*) from d.t force index (k) where k >= '') then 'an index has another number of rows' else 'in order' end) into outfile '$folder/said' from d.t force index (primary);
END
mariadbd --defaults-file="$MARIADB_SETTINGS" --datadir="$folder/fs/db" --bootstrap --innodb-flush-method=nosync \
    <"$folder/queries" >"$folder/log" 2>&1
status=$?
[ $status = 0 ] && [ -s "$folder/said" ] || {
    grep -E '\[ERROR\]|^ERROR' "$folder/log" | grep -v Aborting | head -n 1 | sed 's/^.*\[ERROR\] *//' | grep . || { echo "the server ends with $status"; tail -n 1 "$folder/log"; }
    exit 1; }
said=$(sed -n 's/^rows: //p' "$folder/said")
[ "$said" = 'in order' ] || { echo "${said:-nothing was read}"; exit 1; }
for file in t c; do
    innochecksum "$folder/fs/db/d/$file.ibd" >"$folder/log" 2>&1 || { head -n 1 "$folder/log"; exit 1; }
done
"#;

/// A data directory of which file systems are made.
pub(crate) struct Template {
    scratch: Scratch,
}

impl Template {
    pub(crate) fn make() -> Self {
        let template = Self { scratch: Scratch::new() };
        let directory = template.scratch.0.join("root/db");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(template.settings(), SETTINGS).unwrap();
        let mut command = template.server(&[], &directory);
        command.arg("--bootstrap").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(TABLES.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        template
    }

    fn settings(&self) -> String {
        self.scratch.file("my.cnf")
    }

    fn server(&self, before: &[&str], directory: &Path) -> Command {
        let mut words = before.iter().copied().chain(["mariadbd"]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(format!("--defaults-file={}", self.settings()));
        command.arg(format!("--datadir={}", directory.display()));
        command
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.file("log")).unwrap_or_default()
    }
}

impl Database for Template {
    fn folder(&self) -> PathBuf {
        self.scratch.0.clone()
    }

    fn image(&self, path: &str) {
        file_system(path, 64 << 20, &self.scratch.file("root"));
    }

    fn begin<'d>(&'d self, directory: &Path, settings: &[&str], before: &[&str]) -> Box<dyn Session + 'd> {
        // A path of a socket is short.
        let socket = std::env::temp_dir().join(format!("mezz-test-{}.sock", super::common::server::port()));
        let mut command = self.server(before, directory);
        command.args(settings).arg(format!("--socket={}", socket.display()));
        command.arg(format!("--pid-file={}", self.scratch.file("pid")));
        let log = std::fs::File::options().append(true).create(true).open(self.scratch.file("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        let mut server = Server { template: self, child: Some(child), client: None, socket };
        let begun = Instant::now();
        loop {
            server.client = server.socket.exists().then(|| Talk::to(&server.socket));
            if server.ask("select 'hello';").as_deref() == Some("hello") {
                return Box::new(server);
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody is let in: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn check(&self) -> &'static str {
        CHECK
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![("MARIADB_SETTINGS", self.settings())]
    }

    fn counter(&self) -> &str {
        "d/c.ibd"
    }
}

/// The program that talks to a server.
struct Talk {
    child: Child,
    queries: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Talk {
    fn to(socket: &Path) -> Self {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--unbuffered", "--batch", "--skip-column-names", "--socket"]);
        command.arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (queries, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, queries, answers: BufReader::new(answers) }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server; killed if nobody ends it.
struct Server<'t> {
    template: &'t Template,
    child: Option<Child>,
    client: Option<Talk>,
    socket: PathBuf,
}

impl Server<'_> {
    /// One line of an answer; none if the server cannot give one.
    fn ask(&mut self, queries: &str) -> Option<String> {
        let talk = self.client.as_mut()?;
        talk.queries.write_all(format!("{queries}\n").as_bytes()).ok()?;
        let mut line = String::new();
        talk.answers.read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    }
}

impl Session for Server<'_> {
    fn commit(&mut self, row: u64) -> bool {
        let queries = format!(
            "begin; insert into d.t select {row}, repeat(md5({row}), 30), md5({row}); \
             update d.c set n = n + 1; commit; select 'committed';"
        );
        self.ask(&queries).as_deref() == Some("committed")
    }

    fn checkpoint(&mut self) -> bool {
        self.ask("set global innodb_log_checkpoint_now = on; select 'done';").as_deref() == Some("done")
    }

    fn rows(&mut self) -> u64 {
        self.ask("select count(*) from d.t;").unwrap().parse().unwrap()
    }

    fn end(mut self: Box<Self>) {
        self.client = None;
        let pid = std::fs::read_to_string(self.template.scratch.file("pid")).unwrap();
        super::mounting::run("kill", &["-TERM", pid.trim()]);
        let status = self.child.take().unwrap().wait().unwrap();
        assert!(status.success(), "{status}: {}", self.template.log());
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.client = None;
        if let Some(child) = &mut self.child {
            kill_family(child);
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}
