//! A process that runs transactions is killed; what it was told is committed must be in the database, and of
//! what it was not told at most one transaction per client.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use mezzanine_workload::sqlite::{JournalMode, SqliteDatabase, SqliteOptions, Synchronous};
use mezzanine_workload::{
    AcknowledgementLog, AcknowledgementWriter, Command, Database, RunConfig, Scale, Until, check_consistency,
    load, run, verify_acknowledged,
};

const CHILD_DIRECTORY: &str = "MEZZANINE_WORKLOAD_KILL_TEST";
const CHILD_JOURNAL: &str = "MEZZANINE_WORKLOAD_KILL_TEST_JOURNAL";
const CLIENTS: u32 = 3;
/// Steps in the log, of which a commit has two, before the process is killed.
const LINES_MIN: usize = 400;

fn database(directory: &Path, journal_mode: JournalMode) -> SqliteDatabase {
    let options = SqliteOptions {
        journal_mode,
        // The machine stays up, so what was written is there whether or not it was synced.
        synchronous: Synchronous::Off,
        wal_autocheckpoint: Some(50),
        ..SqliteOptions::default()
    };
    SqliteDatabase::new(directory.join("tpcc.db"), None, options)
}

/// What the killed process does. Does nothing when it is run as an ordinary test.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY).map(PathBuf::from) else { return };
    let wal = std::env::var_os(CHILD_JOURNAL).is_some_and(|name| name == "wal");
    let database = database(&directory, if wal { JournalMode::Wal } else { JournalMode::Delete });
    let log = File::create(directory.join("log")).unwrap();
    let writer = AcknowledgementWriter::begin(log, database.open_session().unwrap().as_mut(), 1).unwrap();
    let config = RunConfig { clients: CLIENTS, seed: 9, warm_up: None, measure: Until::Told };
    run(&database, &config, Some(&writer), &mut |_| Command::Continue).unwrap();
}

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    for journal in ["wal", "delete"] {
        let directory =
            std::env::temp_dir().join(format!("mezzanine-workload-kill-{}-{journal}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mode = if journal == "wal" { JournalMode::Wal } else { JournalMode::Delete };
        let database = database(&directory, mode);
        load(&database, Scale::tiny(2), 1, &|_| {}).unwrap();

        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD_DIRECTORY, &directory)
            .env(CHILD_JOURNAL, journal)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let log = directory.join("log");
        let lines = || std::fs::read(&log).unwrap_or_default().iter().filter(|&&byte| byte == b'\n').count();
        while lines() < LINES_MIN {
            assert_eq!(child.try_wait().unwrap(), None, "the child ended by itself");
            assert!(started.elapsed() < Duration::from_secs(60), "the child does not get on");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();

        let log = AcknowledgementLog::read(File::open(&log).unwrap()).unwrap();
        let mut session = database.open_session().unwrap();
        let report = verify_acknowledged(session.as_mut(), &log).unwrap();
        assert_eq!(report.violations, [], "{journal}");
        assert!(report.acknowledged >= 100, "{}", report.acknowledged);
        assert!(report.in_doubt <= CLIENTS as usize && report.in_doubt_present <= report.in_doubt);
        for checked in check_consistency(session.as_mut()).unwrap() {
            assert!(checked.holds(), "{journal}: {checked}");
        }
        drop(session);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
