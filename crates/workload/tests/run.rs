//! Clients run the mix, stop when told, and leave a consistent database.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use mezzanine_workload::{
    Command, ErrorKind, Phase, RequestStream, RunConfig, Scale, TransactionType, Until, run,
};
use support::faulty::{Fault, FaultyDatabase};
use support::{KINDS, Kind, TestDatabase, transactions};

/// Everything of all tables but the times, which differ from run to run.
fn contents_without_times(database: &TestDatabase) -> Vec<Vec<String>> {
    [
        "SELECT w_id, w_ytd FROM warehouse",
        "SELECT d_w_id, d_id, d_ytd, d_next_o_id FROM district",
        "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data FROM customer",
        "SELECT h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_amount, h_data FROM history",
        "SELECT o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local FROM orders",
        "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_amount, ol_dist_info \
         FROM order_line",
        "SELECT * FROM new_order",
        "SELECT s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt FROM stock",
    ]
    .map(|sql| database.rows(sql))
    .into()
}

#[test]
fn one_and_four_clients_leave_every_kind_of_database_consistent() {
    for kind in KINDS.into_iter().chain([Kind::SharedCache]) {
        for clients in [1, 4] {
            let database = TestDatabase::loaded(kind, Scale::tiny(2), 1);
            let report =
                run(&database.database, &transactions(clients, 3, 1_200), None, &mut |_| Command::Continue)
                    .unwrap();
            let what = format!("{kind:?}, {clients} clients");
            assert_eq!(database.broken_conditions(), [], "{what}");
            let rolled_back = report.of(TransactionType::NewOrder).rolled_back;
            assert_eq!(report.committed() + rolled_back, 1_200, "{what}");
            // What was counted is what is there.
            let of = |kind| report.of(kind).committed as i64;
            assert_eq!(
                database.number("SELECT COUNT(*) FROM orders") - 600,
                of(TransactionType::NewOrder),
                "{what}"
            );
            assert_eq!(
                database.number("SELECT COUNT(*) FROM history") - 600,
                of(TransactionType::Payment),
                "{what}"
            );
            let delivered = database.number("SELECT SUM(c_delivery_cnt) FROM customer");
            assert_eq!(
                delivered,
                10 * of(TransactionType::Delivery) - report.deliveries_skipped as i64,
                "{what}"
            );
        }
    }
}

#[test]
fn one_client_with_a_seed_leaves_the_same_rows_every_time() {
    let after = |kind, seed| {
        let database = TestDatabase::loaded(kind, Scale::tiny(2), 1);
        run(&database.database, &transactions(1, seed, 600), None, &mut |_| Command::Continue).unwrap();
        contents_without_times(&database)
    };
    let reference = after(Kind::Memory, 5);
    assert!(after(Kind::WalFile, 5) == reference);
    assert!(after(Kind::RollbackFile, 5) == reference);
    assert!(after(Kind::Memory, 6) != reference);
}

#[test]
fn types_come_in_the_proportion_of_the_deck() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let report =
        run(&database.database, &transactions(1, 1, 1_000), None, &mut |_| Command::Continue).unwrap();
    for kind in TransactionType::ALL {
        let of = report.of(kind);
        assert_eq!(of.committed + of.rolled_back, 10 * u64::from(kind.cards()), "{}", kind.name());
        assert_eq!(of.latency.count(), of.committed);
        assert!(of.committed == 0 || of.latency.mean() > Duration::ZERO);
    }
    // The stream says how many orders are to be rolled back.
    let mut stream = RequestStream::new(&database.population(), 1, 0, 1);
    let rolled_back = (0..1_000)
        .filter(|_| match stream.next_request() {
            mezzanine_workload::Request::NewOrder { lines, .. } => lines.last().unwrap().item == 201,
            _ => false,
        })
        .count();
    assert!(rolled_back > 0);
    assert_eq!(report.of(TransactionType::NewOrder).rolled_back, rolled_back as u64);
}

#[test]
fn the_warm_up_ends_when_the_observer_says_so_and_does_not_count() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let config =
        RunConfig { clients: 2, seed: 1, warm_up: Some(Until::Told), measure: Until::Transactions(300) };
    let mut warm_up_seen = 0;
    let report = run(&database.database, &config, None, &mut |progress| {
        if progress.phase == Phase::WarmUp {
            warm_up_seen = progress.committed.iter().sum();
            if warm_up_seen >= 100 { Command::EndPhase } else { Command::Continue }
        } else {
            Command::Continue
        }
    })
    .unwrap();
    assert!(warm_up_seen >= 100 && report.warm_up_transactions >= warm_up_seen);
    assert_eq!(report.committed() + report.of(TransactionType::NewOrder).rolled_back, 300);
    assert!(report.warm_up > Duration::ZERO && report.elapsed > Duration::ZERO);
    let orders = database.number("SELECT COUNT(*) FROM orders") as u64 - 300;
    assert!(orders > report.of(TransactionType::NewOrder).committed, "the warm-up entered no orders");
    assert_eq!(database.broken_conditions(), []);
}

#[test]
fn phases_can_be_limited_by_transactions_and_by_time() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let config = RunConfig {
        clients: 3,
        seed: 1,
        warm_up: Some(Until::Transactions(200)),
        measure: Until::Elapsed(Duration::from_millis(1_200)),
    };
    let report = run(&database.database, &config, None, &mut |_| Command::Continue).unwrap();
    assert!((190..=200).contains(&report.warm_up_transactions), "{}", report.warm_up_transactions);
    // Much slower than 1.2 s only when the machine is.
    assert!(report.elapsed >= Duration::from_millis(1_200) && report.elapsed < Duration::from_secs(20));
    assert!(report.seconds.len() >= 2, "{:?}", report.seconds);
    for kind in TransactionType::ALL {
        let sum: u64 = report.seconds.iter().map(|second| second[kind.index()]).sum();
        assert_eq!(sum, report.of(kind).committed);
    }
    let per_minute =
        report.of(TransactionType::NewOrder).committed as f64 * 60.0 / report.elapsed.as_secs_f64();
    assert!((report.new_orders_per_minute() - per_minute).abs() < 1e-6);
}

#[test]
fn a_run_that_is_stopped_while_warming_up_measures_nothing() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let config = RunConfig { clients: 2, seed: 1, warm_up: Some(Until::Told), measure: Until::Told };
    let report = run(&database.database, &config, None, &mut |_| Command::Stop).unwrap();
    assert_eq!((report.committed(), report.elapsed), (0, Duration::ZERO));
    assert_eq!(report.new_orders_per_minute(), 0.0);
    assert_eq!(database.broken_conditions(), []);
}

#[test]
fn a_conflict_is_run_again_until_it_succeeds() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let faulty = FaultyDatabase::new(&database.database, Fault::Conflict, 5);
    let report = run(&faulty, &transactions(2, 1, 400), None, &mut |_| Command::Continue).unwrap();
    assert_eq!(report.committed() + report.of(TransactionType::NewOrder).rolled_back, 400);
    assert!(report.retries() > 50, "{} retries", report.retries());
    assert_eq!(database.broken_conditions(), []);
}

#[test]
fn any_other_error_ends_the_run_and_names_client_and_transaction() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let faulty = FaultyDatabase::new(&database.database, Fault::FailBefore, 100);
    let error = run(&faulty, &transactions(2, 1, 10_000), None, &mut |_| Command::Continue).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Database);
    let message = error.to_string();
    assert!(message.starts_with("client ") && message.contains("planted failure"), "{message}");
    assert_eq!(database.broken_conditions(), []);
}

#[test]
fn a_run_needs_clients_and_a_population() {
    let database = TestDatabase::empty(Kind::Memory);
    let go =
        |clients| run(&database.database, &transactions(clients, 1, 1), None, &mut |_| Command::Continue);
    assert_eq!(go(0).unwrap_err().kind(), ErrorKind::Configuration);
    assert_eq!(go(4_097).unwrap_err().kind(), ErrorKind::Configuration);
    assert_eq!(go(1).unwrap_err().kind(), ErrorKind::NotLoaded);
}
