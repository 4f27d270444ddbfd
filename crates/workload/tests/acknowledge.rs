//! The acknowledgement log finds commits that were lost and rows that nobody committed.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

mod support;

use mezzanine_workload::{
    AcknowledgementLog, AcknowledgementReport, AcknowledgementWriter, Command, Database, ErrorKind, Scale,
    ViolationKind, run, verify_acknowledged,
};
use support::faulty::{Fault, FaultyDatabase};
use support::{Kind, TestDatabase, transactions};

const RUN_ID: u32 = 0xFFFF_FFFE;

/// Runs 800 transactions with a log, or as many as go well, and returns the log's text.
fn logged(database: &TestDatabase, on: &dyn Database, clients: u32) -> String {
    // Some transactions without a log, so that the log does not begin with the initial population.
    run(&database.database, &transactions(1, 77, 100), None, &mut |_| Command::Continue).unwrap();
    let writer = AcknowledgementWriter::begin(Vec::new(), database.session().as_mut(), RUN_ID).unwrap();
    // Faulty databases end the run with an error, which is what is wanted of them.
    let _ = run(on, &transactions(clients, 3, 800), Some(&writer), &mut |_| Command::Continue);
    String::from_utf8(writer.into_inner()).unwrap()
}

fn verify(database: &TestDatabase, log: &str) -> AcknowledgementReport {
    let log = AcknowledgementLog::read(log.as_bytes()).unwrap();
    verify_acknowledged(database.session().as_mut(), &log).unwrap()
}

fn kinds(report: &AcknowledgementReport) -> Vec<ViolationKind> {
    report.violations.iter().map(|violation| violation.kind).collect()
}

#[test]
fn everything_acknowledged_is_found_and_nothing_else() {
    for (kind, clients) in [(Kind::Memory, 1), (Kind::WalFile, 4), (Kind::RollbackFile, 4)] {
        let database = TestDatabase::loaded(kind, Scale::tiny(2), 1);
        let log = logged(&database, &database.database, clients);
        let report = verify(&database, &log);
        assert_eq!(report.violations, [], "{kind:?}");
        assert_eq!((report.in_doubt, report.in_doubt_present), (0, 0));
        // All but the reads, 8 %, the orders that are rolled back and deliveries of nothing.
        assert!((650..=736).contains(&report.acknowledged), "{}", report.acknowledged);
        assert_eq!(database.broken_conditions(), [], "{kind:?}");
    }
}

#[test]
fn a_removed_commit_is_missing() {
    for (damage, what) in [
        ("DELETE FROM orders WHERE o_id = (SELECT MAX(o_id) FROM orders)", "NewOrder"),
        ("DELETE FROM history WHERE h_date = (SELECT MAX(h_date) FROM history)", "Payment"),
        // As if another order had been entered in its place.
        (
            "UPDATE orders SET o_c_id = o_c_id % 30 + 1 WHERE o_id = (SELECT MAX(o_id) FROM orders)",
            "NewOrder",
        ),
        ("UPDATE history SET h_amount = 1 WHERE h_date = (SELECT MAX(h_date) FROM history)", "Payment"),
    ] {
        let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
        let log = logged(&database, &database.database, 2);
        assert!(verify(&database, &log).holds());
        assert!((1..=10).contains(&database.change(damage)), "{damage}");
        let report = verify(&database, &log);
        assert!(!report.holds(), "{damage}");
        let missing: Vec<_> =
            report.violations.iter().filter(|violation| violation.kind == ViolationKind::Missing).collect();
        assert!(!missing.is_empty(), "{damage}: {:?}", report.violations);
        assert!(missing.iter().all(|violation| violation.what.contains(what)), "{damage}: {missing:?}");
        assert!(missing[0].to_string().starts_with("acknowledged but missing: "));
    }
}

#[test]
fn a_delivery_that_is_undone_is_missing_or_torn() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let log = logged(&database, &database.database, 2);
    let last = database.number("SELECT MAX(o_id) FROM orders WHERE o_d_id = 4 AND o_carrier_id IS NOT NULL");
    let sql = format!("UPDATE orders SET o_carrier_id = NULL WHERE o_d_id = 4 AND o_id = {last}");
    assert_eq!(database.change(Box::leak(sql.into_boxed_str())), 1);
    assert_eq!(kinds(&verify(&database, &log)), [ViolationKind::Torn]);

    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let log = logged(&database, &database.database, 2);
    database.change("UPDATE orders SET o_carrier_id = NULL WHERE o_id >= 22");
    let report = verify(&database, &log);
    assert!(report.violations.len() > 5);
    assert!(report.violations.iter().all(|violation| violation.kind == ViolationKind::Missing));
}

#[test]
fn an_order_without_all_of_its_lines_is_torn() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let log = logged(&database, &database.database, 1);
    database.change(
        "DELETE FROM order_line WHERE ol_d_id = 2 AND ol_number = 3 \
         AND ol_o_id = (SELECT MAX(ol_o_id) FROM order_line WHERE ol_d_id = 2)",
    );
    assert_eq!(kinds(&verify(&database, &log)), [ViolationKind::Torn]);
}

#[test]
fn what_the_log_does_not_know_is_extra() {
    let tag = format!("{RUN_ID:x}.0.ffffff");
    let payment = format!("INSERT INTO history VALUES (1, 1, 1, 1, 1, 1, 1, '{tag}')");
    for (damage, count) in [
        ("INSERT INTO orders VALUES (1, 7, 5000, 1, 1, NULL, 0, 1)", 1),
        (&*Box::leak(payment.into_boxed_str()), 1),
        (
            "UPDATE orders SET o_carrier_id = 3 WHERE o_d_id = 3 AND o_id = (SELECT MAX(o_id) FROM orders WHERE o_d_id = 3)",
            1,
        ),
        // The same payment twice.
        ("INSERT INTO history SELECT * FROM history WHERE h_date = (SELECT MAX(h_date) FROM history)", 1),
    ] {
        let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
        let log = logged(&database, &database.database, 1);
        assert_eq!(database.change(damage), 1, "{damage}");
        let report = verify(&database, &log);
        assert_eq!(kinds(&report), vec![ViolationKind::Extra; count], "{damage}: {:?}", report.violations);
    }
}

#[test]
fn commits_cut_off_the_log_are_extra_but_the_last_of_each_client_is_in_doubt() {
    let database = TestDatabase::loaded(Kind::WalFile, Scale::tiny(2), 1);
    let log = logged(&database, &database.database, 1);
    let lines: Vec<&str> = log.lines().collect();
    // The last acknowledgement is not written: in doubt, and in the database.
    assert!(lines.last().unwrap().starts_with('+'));
    let cut = lines[..lines.len() - 1].join("\n") + "\n";
    let report = verify(&database, &cut);
    assert_eq!((report.in_doubt, report.in_doubt_present), (1, 1));
    assert_eq!(report.violations, []);
    // An incomplete line counts as not written.
    let report = verify(&database, &log[..log.len() - 1]);
    assert_eq!((report.in_doubt, report.in_doubt_present), (1, 1));
    // Nor is the line before: nobody has asked for this commit, and yet it is there.
    let cut = lines[..lines.len() - 2].join("\n") + "\n";
    let report = verify(&database, &cut);
    assert_eq!(report.in_doubt, 0);
    assert!(!report.holds() && report.violations.iter().all(|one| one.kind == ViolationKind::Extra));
}

#[test]
fn refused_commits_are_withdrawn_and_must_not_be_found() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let faulty = FaultyDatabase::new(&database.database, Fault::Conflict, 7);
    let log = logged(&database, &faulty, 2);
    assert!(log.lines().filter(|line| line.starts_with('-')).count() > 50);
    let report = verify(&database, &log);
    assert_eq!((report.in_doubt, &*report.violations), (0, &[][..]));
    // Had the last of the acknowledged commits been refused, it would be one too many.
    let last = log.rfind('+').unwrap();
    let mut changed = log.clone();
    changed.replace_range(last..=last, "-");
    assert!(kinds(&verify(&database, &changed)).contains(&ViolationKind::Extra));
}

#[test]
fn a_commit_that_fails_is_in_doubt_whether_it_happened_or_not() {
    for (fault, present) in [(Fault::FailBefore, 0), (Fault::FailAfter, 1)] {
        let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
        let faulty = FaultyDatabase::new(&database.database, fault, 300);
        let log = logged(&database, &faulty, 3);
        let report = verify(&database, &log);
        assert_eq!((report.in_doubt, report.in_doubt_present), (1, present), "{fault:?}");
        assert_eq!(report.violations, [], "{fault:?}");
        assert!(report.acknowledged >= 200);
    }
}

#[test]
fn what_is_no_log_is_refused_by_its_line() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let log = logged(&database, &database.database, 1);
    let begin = log.find("begin\n").unwrap();
    let first = log.find('?').unwrap();
    let second_line = first + log[first..].find('\n').unwrap() + 1;
    let cases = [
        ("something else\n".to_owned(), "line 1"),
        (log[..begin].to_owned(), "header"),
        (String::new(), "header"),
        // A client that goes on although its commit is in doubt.
        (format!("{}{}", &log[..second_line], "? 0 99 payment 1 1 1 1 1 1 x\n"), "still in doubt"),
        (format!("{}+ 3 99\n", &log[..second_line]), "no commit in doubt"),
        (format!("{}+ 0 99\n", &log[..second_line]), "another commit"),
        (format!("{}? 0 1 new-order 1 x\n", &log[..begin + 6]), "number"),
        (format!("{}? 0 1 stock-level 1\n", &log[..begin + 6]), "not a transaction"),
    ];
    for (text, reason) in cases {
        let error = AcknowledgementLog::read(text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LogFormat);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_log_that_cannot_be_written_ends_the_run_before_the_commit() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    // The header and the two lines of the first commit.
    let writer = AcknowledgementWriter::begin(Full(3), database.session().as_mut(), 1).unwrap();
    let error = run(&database.database, &transactions(1, 3, 800), Some(&writer), &mut |_| Command::Continue)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Log);
    let orders = database.number("SELECT COUNT(*) FROM orders") - 300;
    let payments = database.number("SELECT COUNT(*) FROM history") - 300;
    let delivered = database.number("SELECT SUM(c_delivery_cnt) FROM customer");
    assert_eq!(orders + payments + delivered.min(1), 1);
}
