//! The driver for PostgreSQL, on a server of its own. Without a build of PostgreSQL these tests say so and
//! pass.
//!
//! The server is looked for in `MEZZANINE_TEST_PG` (a directory with `bin/postgres`) and in the newest build
//! of `mezz pg build`. Any version does: nothing here needs the tier.
#![cfg(feature = "postgres")]
#![allow(unreachable_pub, clippy::unwrap_used)]

#[path = "postgres/server.rs"]
mod server;

use std::time::Duration;

use mezzanine_workload::postgres::{Isolation, PostgresDatabase, PostgresOptions};
use mezzanine_workload::{
    Access, AcknowledgementLog, AcknowledgementWriter, Command, Database, ErrorKind, RunConfig, Scale,
    Statement, Transaction, TransactionType, Until, Value, check_consistency, load, run, verify_acknowledged,
};
use server::Server;

const TRANSACTIONS: u64 = 300;

const ISOLATIONS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

fn statement(sql: &'static str) -> Statement {
    Statement { name: "test", sql }
}

fn number(database: &PostgresDatabase, sql: &'static str) -> i64 {
    let mut session = database.open_session().unwrap();
    let mut transaction = Transaction::begin(session.as_mut(), Access::ReadOnly).unwrap();
    transaction.query_one(statement(sql), &[], |row| row.int(0)).unwrap()
}

fn broken_conditions(database: &PostgresDatabase) -> Vec<u32> {
    let checked = check_consistency(database.open_session().unwrap().as_mut()).unwrap();
    assert_eq!(checked.len(), 12);
    checked.iter().filter(|checked| !checked.holds()).map(|checked| checked.condition.number).collect()
}

#[test]
fn clients_at_every_isolation_level_leave_it_consistent_and_what_was_counted_is_there() {
    let Some(server) = Server::start() else { return };
    for isolation in ISOLATIONS {
        let options = PostgresOptions { isolation, load_sessions: 2 };
        let database = server.database(isolation.name(), options);
        load(&database, Scale::tiny(2), 1, &|_| {}).unwrap();
        assert_eq!(broken_conditions(&database), [], "{isolation:?}, as loaded");
        let config =
            RunConfig { clients: 4, seed: 3, warm_up: None, measure: Until::Transactions(TRANSACTIONS) };
        let report = run(&database, &config, None, &mut |_| Command::Continue).unwrap();
        assert_eq!(broken_conditions(&database), [], "{isolation:?}");
        let rolled_back = report.of(TransactionType::NewOrder).rolled_back;
        assert_eq!(report.committed() + rolled_back, TRANSACTIONS, "{isolation:?}");
        let committed = |kind| report.of(kind).committed as i64;
        assert_eq!(
            number(&database, "SELECT COUNT(*) FROM orders") - 600,
            committed(TransactionType::NewOrder),
            "{isolation:?}"
        );
        assert_eq!(
            number(&database, "SELECT COUNT(*) FROM history") - 600,
            committed(TransactionType::Payment),
            "{isolation:?}"
        );
        // Four clients on two warehouses meet all the time, and every meeting is a conflict above READ
        // COMMITTED.
        assert!(isolation == Isolation::ReadCommitted || report.retries() > 0, "{isolation:?}");
    }
}

#[test]
fn a_broken_condition_is_found() {
    let Some(server) = Server::start() else { return };
    let database = server.database("broken", PostgresOptions::default());
    load(&database, Scale::tiny(1), 1, &|_| {}).unwrap();
    let mut session = database.open_session().unwrap();
    session.define("UPDATE warehouse SET w_ytd = w_ytd + 1").unwrap();
    assert_eq!(broken_conditions(&database), [1, 8]);
}

#[test]
fn a_serialisation_failure_is_a_conflict_and_a_failed_transaction_does_not_commit() {
    let Some(server) = Server::start() else { return };
    let options = PostgresOptions { isolation: Isolation::RepeatableRead, load_sessions: 1 };
    let database = server.database("conflicts", options);
    load(&database, Scale::tiny(1), 1, &|_| {}).unwrap();
    let pay = statement("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = 1");
    let look = statement("SELECT w_ytd FROM warehouse WHERE w_id = 1");
    let (mut first, mut second) = (database.open_session().unwrap(), database.open_session().unwrap());
    first.begin(Access::ReadWrite).unwrap();
    first.query(look, &[], &mut |_| Ok(())).unwrap();
    second.begin(Access::ReadWrite).unwrap();
    second.execute(pay, &[Value::Int(1)]).unwrap();
    second.commit().unwrap();
    let error = first.execute(pay, &[Value::Int(1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    // PostgreSQL would answer this COMMIT with a rollback that looks like success.
    assert_eq!(first.commit().unwrap_err().kind(), ErrorKind::Database);
    first.rollback().unwrap();
    first.rollback().unwrap();
    first.begin(Access::ReadWrite).unwrap();
    first.execute(pay, &[Value::Int(1)]).unwrap();
    first.commit().unwrap();
}

#[test]
fn loading_twice_is_refused_and_a_database_without_a_population_says_so() {
    let Some(server) = Server::start() else { return };
    let database = server.database("twice", PostgresOptions::default());
    let config = RunConfig { clients: 1, seed: 1, warm_up: None, measure: Until::Transactions(1) };
    let error = run(&database, &config, None, &mut |_| Command::Continue).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotLoaded);
    let report = load(&database, Scale::tiny(1), 1, &|_| {}).unwrap();
    assert!(report.database_bytes > 1_000_000 && report.rows > 3_000, "{report:?}");
    assert_eq!(load(&database, Scale::tiny(1), 1, &|_| {}).unwrap_err().kind(), ErrorKind::AlreadyLoaded);
}

#[test]
fn a_killed_server_loses_nothing_that_was_acknowledged() {
    let Some(mut server) = Server::start() else { return };
    let database = server.database("killed", PostgresOptions::default());
    load(&database, Scale::tiny(2), 1, &|_| {}).unwrap();
    let writer =
        AcknowledgementWriter::begin(Vec::new(), database.open_session().unwrap().as_mut(), 1).unwrap();
    let config = RunConfig { clients: 6, seed: 9, warm_up: None, measure: Until::Told };
    let mut killed = false;
    let error = run(&database, &config, Some(&writer), &mut |progress| {
        if !killed && progress.committed.iter().sum::<u64>() >= 300 {
            server.kill();
            killed = true;
        }
        assert!(progress.elapsed < Duration::from_secs(120), "the clients do not get on");
        Command::Continue
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Database, "{error}");
    server.start_again();
    let log = AcknowledgementLog::read(writer.into_inner().as_slice()).unwrap();
    let mut session = database.open_session().unwrap();
    let report = verify_acknowledged(session.as_mut(), &log).unwrap();
    assert_eq!(report.violations, []);
    assert!(report.acknowledged >= 100, "{}", report.acknowledged);
    assert!(report.in_doubt <= 6 && report.in_doubt_present <= report.in_doubt);
    drop(session);
    assert_eq!(broken_conditions(&database), []);

    // The check can fail: take away what was acknowledged last.
    database.open_session().unwrap().define("DELETE FROM history WHERE h_data LIKE '1.%'").unwrap();
    let report = verify_acknowledged(database.open_session().unwrap().as_mut(), &log).unwrap();
    assert!(!report.holds());
}
