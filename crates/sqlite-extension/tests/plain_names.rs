//! Databases without a URI: what has a sidecar, or what a rule matches, is on its tier, and everything else
//! is as without the extension.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The library that Cargo has built for this test.
fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let found = tests.parent().unwrap().join("libmezzanine.so");
    assert!(found.exists(), "{} was not built", found.display());
    found
}

fn shell() -> Option<PathBuf> {
    let found =
        ["/usr/bin/sqlite3", "/usr/local/bin/sqlite3"].into_iter().map(PathBuf::from).find(|p| p.exists());
    if found.is_none() {
        eprintln!("SKIPPED: no sqlite3 shell is installed (apt install sqlite3)");
    }
    found
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let base = fs::canonicalize(std::env::temp_dir()).unwrap();
        let path = base.join(format!("mezzanine-names-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("tiered")).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Rules that put what is in the folder `tiered` on a tier.
    fn rules(&self) -> PathBuf {
        let path = self.file("rules.toml");
        let folder = self.0.display();
        let text = format!(
            "[[database]]\npath = \"{folder}/tiered/*.db\"\nflash = \"{folder}/app.mezz\"\nflash_size = \"8MiB\"\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// Feeds a script to the shell, which loads the extension first, by this entry point.
    fn run(&self, shell: &Path, entry: &str, rules: Option<&Path>, script: &str) -> Output {
        let mut command = Command::new(shell);
        if let Some(rules) = rules {
            command.env("MEZZANINE_SQLITE_RULES", rules);
        }
        let mut child = command
            .args(["-batch", ":memory:"])
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The shell's own commands begin their lines.
        let script: String = script.lines().map(|line| format!("{}\n", line.trim_start())).collect();
        let script = format!(".load {} {entry}\n{script}", library().display());
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.stderr.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

/// What an SQLite without the extension reads.
fn plain(shell: &Path, database: &Path, sql: &str) -> String {
    let output = Command::new(shell).arg("-batch").arg(database).arg(sql).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

const FILL: &str = "CREATE TABLE t (a); INSERT INTO t VALUES (7);\n";

#[test]
fn a_rule_puts_a_database_on_a_tier_and_others_are_none_of_its() {
    let Some(shell) = shell() else { return };
    let folder = Folder::new("rules");
    let rules = folder.rules();
    for journal in ["wal", "delete"] {
        let script = format!(
            ".open tiered/{journal}.db\nPRAGMA journal_mode = {journal};\n{FILL}
             .open other-{journal}.db\nPRAGMA journal_mode = {journal};\n{FILL}
             ATTACH 'tiered/{journal}.db' AS tiered; SELECT sum(a) FROM tiered.t;
             PRAGMA tiered.mezzanine_sync_mode; PRAGMA main.mezzanine_sync_mode;
             VACUUM INTO 'copy-{journal}.db';\n"
        );
        let output = folder.run(&shell, "mezzanine_default", Some(&rules), &script);
        // A pragma that nobody knows says nothing.
        assert_eq!(said(&output), [journal, journal, "7", "durable"]);
        assert!(folder.file(&format!("tiered/{journal}.db.mezzanine")).exists());
        assert_eq!(plain(&shell, &folder.file(&format!("other-{journal}.db")), "SELECT a FROM t"), "7");
        assert_eq!(plain(&shell, &folder.file(&format!("copy-{journal}.db")), "SELECT a FROM t"), "7");
        let refused = plain(&shell, &folder.file(&format!("tiered/{journal}.db")), "SELECT a FROM t");
        assert!(refused.contains("not a database"), "{refused}");
    }
}

#[test]
fn a_database_with_a_sidecar_is_on_its_tier_without_any_rule() {
    let Some(shell) = shell() else { return };
    let folder = Folder::new("sidecar");
    let uri = ".open 'file:app.db?vfs=mezzanine&flash=app.mezz&flash_size=8MiB&sync_mode=durable'\n";
    assert!(said(&folder.run(&shell, "", None, &format!("{uri}{FILL}"))).is_empty());
    // By the default VFS, and in a connection that has the VFS otherwise.
    let again = folder.run(
        &shell,
        "mezzanine_default",
        None,
        ".open app.db\nINSERT INTO t VALUES (1); SELECT sum(a) FROM t;\n",
    );
    assert_eq!(said(&again), ["8"]);
    let other = ".open 'file:other.db?vfs=mezzanine&flash=other.mezz&flash_size=8MiB'\n";
    let script = format!(
        "{other}{FILL}ATTACH 'app.db' AS app; SELECT sum(a) FROM app.t; ATTACH 'new.db' AS new; CREATE TABLE new.t (a);
         VACUUM INTO 'into.db';\n"
    );
    assert_eq!(said(&folder.run(&shell, "", None, &script)), ["8"]);
    assert_eq!(plain(&shell, &folder.file("new.db"), "SELECT count(*) FROM t"), "0");
    assert_eq!(plain(&shell, &folder.file("into.db"), "SELECT a FROM t"), "7");
    // Drained and closed it is an ordinary database, with any SQLite.
    let drained = folder.run(&shell, "mezzanine_default", None, ".open app.db\nPRAGMA mezzanine_drain;\n");
    assert!(said(&drained)[0].starts_with("drained"));
    assert_eq!(plain(&shell, &folder.file("app.db"), "SELECT sum(a) FROM t"), "8");
    let after = folder.run(
        &shell,
        "mezzanine_default",
        None,
        ".open app.db\nPRAGMA mezzanine_sync_mode;\nSELECT sum(a) FROM t;\n",
    );
    assert_eq!(said(&after).last().unwrap(), "8");
}

/// SQLite's own shell, as it is used, with the extension and nothing for it to do.
#[test]
fn whatever_is_on_no_tier_works_as_before() {
    let Some(shell) = shell() else { return };
    let folder = Folder::new("plain");
    let script = "
        CREATE TEMP TABLE x (a); INSERT INTO x VALUES (1);
        .open plain.db
        PRAGMA journal_mode = wal; PRAGMA mmap_size = 1048576;
        CREATE TABLE t (a); WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT i FROM n;
        PRAGMA wal_checkpoint(truncate); PRAGMA journal_mode = delete;
        BEGIN; UPDATE t SET a = 0; ROLLBACK;
        ATTACH 'second.db' AS second; CREATE TABLE second.t (a); BEGIN; INSERT INTO second.t VALUES (1); INSERT INTO t VALUES (1); COMMIT;
        SELECT sum(a) FROM t; PRAGMA integrity_check;
        .vfsname
        .backup backup.db
    ";
    let with = said(&folder.run(&shell, "mezzanine_default", None, script));
    assert_eq!(with, ["wal", "1048576", "0|0|0", "delete", "12502501", "ok", "unix"]);
    assert_eq!(plain(&shell, &folder.file("backup.db"), "SELECT sum(a) FROM t"), "12502501");
    let files =
        fs::read_dir(&folder.0).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    let mut files: Vec<String> = files.filter(|name| name != "tiered").collect();
    files.sort();
    assert_eq!(files, ["backup.db", "plain.db", "second.db"]);
}

#[test]
fn rules_that_cannot_be_used_are_named() {
    let Some(shell) = shell() else { return };
    let folder = Folder::new("wrong");
    let rules = folder.file("rules.toml");
    let loaded = |text: Option<&str>| {
        if let Some(text) = text {
            fs::write(&rules, text).unwrap();
        }
        let output = folder.run(&shell, "mezzanine_default", Some(&rules), "");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let missing = loaded(None);
    assert!(missing.contains("rules.toml") && missing.contains("No such file"), "{missing}");
    for (text, part) in [("[[database]]\npath = \"/x\"\n", "needs a flash"), ("colour = 1\n", "[[database]]")]
    {
        let why = loaded(Some(text));
        assert!(why.contains("rules.toml") && why.contains(part), "{why}");
    }
}

/// Was found by reading: the extension was loaded without a word, and then every database failed to open.
#[test]
fn rules_that_cannot_be_used_are_named_also_when_the_extension_becomes_the_default_later() {
    let Some(shell) = shell() else { return };
    let folder = Folder::new("later");
    let rules = folder.file("rules.toml");
    fs::write(&rules, "colour = 1\n").unwrap();
    let script =
        format!(".load {} mezzanine_default\n.open plain.db\n{FILL} SELECT a FROM t;\n", library().display());
    let output = folder.run(&shell, "sqlite3_extension_init", Some(&rules), &script);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("rules.toml") && why.contains("[[database]]"), "{why}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n", "{why}");
    assert_eq!(plain(&shell, &folder.file("plain.db"), "SELECT a FROM t"), "7");
}
