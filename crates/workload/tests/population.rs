//! The initial population is the one of clause 4.3.3 and the same for the same seed.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Mutex;

use mezzanine_workload::{Database, ErrorKind, Population, Scale, Table, load};
use support::{KINDS, Kind, TestDatabase};

fn contents(database: &TestDatabase) -> Vec<Vec<String>> {
    // History has no key; any order that is the same on both sides will do.
    Table::ALL
        .iter()
        .map(|table| {
            let columns: Vec<&str> = table.column_names().collect();
            database.rows(&format!("SELECT * FROM {} ORDER BY {}", table.name(), columns.join(", ")))
        })
        .collect()
}

#[test]
fn a_seed_gives_the_same_rows_on_every_kind_of_database_and_another_seed_gives_others() {
    let scale = Scale::tiny(2);
    let reference = contents(&TestDatabase::loaded(Kind::Memory, scale, 7));
    for kind in KINDS {
        assert!(contents(&TestDatabase::loaded(kind, scale, 7)) == reference, "{kind:?}");
    }
    let other = contents(&TestDatabase::loaded(Kind::Memory, scale, 8));
    for (table, (one, two)) in Table::ALL.iter().zip(reference.iter().zip(&other)) {
        // What is no more than keys is the same for every seed.
        assert_eq!(one == two, *table == Table::NewOrder, "{}", table.name());
    }
}

#[test]
fn every_consistency_condition_holds_after_loading() {
    for kind in KINDS {
        assert_eq!(TestDatabase::loaded(kind, Scale::tiny(2), 1).broken_conditions(), [], "{kind:?}");
    }
}

#[test]
fn tables_have_the_cardinality_and_the_values_that_the_specification_gives_them() {
    // Standard but for the number of items, which nothing here depends on.
    let scale = Scale { items: 1_000, ..Scale::standard(1) };
    let database = TestDatabase::loaded(Kind::Memory, scale, 3);
    assert!(!database.population().scale.is_standard());
    for (table, rows) in [
        (Table::Warehouse, 1),
        (Table::District, 10),
        (Table::Customer, 30_000),
        (Table::History, 30_000),
        (Table::Orders, 30_000),
        (Table::NewOrder, 9_000),
        (Table::Item, 1_000),
        (Table::Stock, 1_000),
    ] {
        assert_eq!(
            database.number(&format!("SELECT COUNT(*) FROM {}", table.name())),
            rows,
            "{}",
            table.name()
        );
    }
    let none = |sql: &str| assert_eq!(database.number(sql), 0, "{sql}");
    let lines = database.number("SELECT COUNT(*) FROM order_line");
    assert!((295_000..305_000).contains(&lines), "{lines} order lines");
    assert_eq!(database.rows("SELECT w_ytd FROM warehouse"), ["30000000"]);
    none("SELECT COUNT(*) FROM district WHERE d_ytd <> 3000000 OR d_next_o_id <> 3001");
    none(
        "SELECT COUNT(*) FROM customer WHERE c_balance <> -1000 OR c_ytd_payment <> 1000 OR c_payment_cnt <> 1 \
         OR c_delivery_cnt <> 0 OR c_credit_lim <> 5000000 OR c_middle <> 'OE' OR LENGTH(c_phone) <> 16 \
         OR LENGTH(c_zip) <> 9 OR c_zip NOT LIKE '____11111' OR LENGTH(c_data) NOT BETWEEN 300 AND 500 \
         OR c_discount NOT BETWEEN 0 AND 5000 OR c_credit NOT IN ('GC', 'BC')",
    );
    let bad_credit = database.number("SELECT COUNT(*) FROM customer WHERE c_credit = 'BC'");
    assert!((2_700..3_300).contains(&bad_credit), "{bad_credit} customers of bad credit");
    // All thousand last names are there in each district, the first thousand customers having one each.
    none(
        "SELECT COUNT(*) FROM (SELECT c_d_id FROM customer GROUP BY c_d_id HAVING COUNT(DISTINCT c_last) <> 1000)",
    );
    assert_eq!(
        database
            .rows("SELECT c_last FROM customer WHERE c_d_id = 4 AND c_id IN (1, 372, 1000) ORDER BY c_id"),
        ["BARBARBAR", "PRICALLYOUGHT", "EINGEINGEING"]
    );
    // Each customer has one order, in an order of their own.
    none("SELECT COUNT(*) FROM (SELECT 1 FROM orders GROUP BY o_d_id, o_c_id HAVING COUNT(*) <> 1)");
    let in_place = database.number("SELECT COUNT(*) FROM orders WHERE o_id = o_c_id");
    assert!(in_place < 40, "{in_place} orders lie where they would without a permutation");
    none("SELECT COUNT(*) FROM orders WHERE (o_id < 2101) <> (o_carrier_id IS NOT NULL)");
    none("SELECT COUNT(*) FROM orders WHERE o_ol_cnt NOT BETWEEN 5 AND 15 OR o_all_local <> 1");
    none("SELECT COUNT(*) FROM new_order WHERE no_o_id NOT BETWEEN 2101 AND 3000");
    none(
        "SELECT COUNT(*) FROM order_line WHERE ol_quantity <> 5 OR LENGTH(ol_dist_info) <> 24 \
         OR ol_i_id NOT BETWEEN 1 AND 1000 OR (ol_o_id < 2101) <> (ol_delivery_d IS NOT NULL) \
         OR (ol_o_id < 2101) <> (ol_amount = 0) OR ol_amount NOT BETWEEN 0 AND 999999",
    );
    none(
        "SELECT COUNT(*) FROM stock WHERE s_quantity NOT BETWEEN 10 AND 100 OR LENGTH(s_dist_10) <> 24 \
         OR LENGTH(s_data) NOT BETWEEN 26 AND 50 OR s_ytd <> 0 OR s_order_cnt <> 0 OR s_remote_cnt <> 0",
    );
    none(
        "SELECT COUNT(*) FROM item WHERE i_price NOT BETWEEN 100 AND 10000 OR i_im_id NOT BETWEEN 1 AND 10000 \
         OR LENGTH(i_name) NOT BETWEEN 14 AND 24 OR LENGTH(i_data) NOT BETWEEN 26 AND 50",
    );
    for table in ["item WHERE i_data", "stock WHERE s_data"] {
        let original = database.number(&format!("SELECT COUNT(*) FROM {table} LIKE '%ORIGINAL%'"));
        assert!((60..150).contains(&original), "{original} original rows in {table}");
    }
    none("SELECT COUNT(*) FROM history WHERE h_amount <> 1000 OR LENGTH(h_data) NOT BETWEEN 12 AND 24");
}

#[test]
fn progress_ends_at_the_number_of_rows_and_the_report_says_how_large_the_database_is() {
    let database = TestDatabase::empty(Kind::WalFile);
    let last = Mutex::new(None);
    let report = load(&database.database, Scale::tiny(2), 1, &|progress| {
        let mut last = last.lock().unwrap();
        assert!(*last <= Some(progress.rows), "rows went back to {}", progress.rows);
        *last = Some(progress.rows);
    })
    .unwrap();
    assert_eq!(last.into_inner().unwrap(), Some(report.rows));
    let counted: i64 = Table::ALL[..9]
        .iter()
        .map(|table| database.number(&format!("SELECT COUNT(*) FROM {}", table.name())))
        .sum();
    assert_eq!(report.rows, counted as u64);
    assert_eq!(report.database_bytes, database.database.size_bytes().unwrap());
    assert!(report.shared_bytes > 0 && report.bytes_per_warehouse() > 100_000);
    assert!(report.shared_bytes + 2 * report.bytes_per_warehouse() <= report.database_bytes);
}

#[test]
fn what_was_loaded_can_be_read_back() {
    let scale = Scale { orders_per_district: 20, ..Scale::tiny(3) };
    let database = TestDatabase::loaded(Kind::RollbackFile, scale, u64::MAX - 5);
    assert_eq!(database.population(), Population::new(scale, u64::MAX - 5).unwrap());
}

#[test]
fn a_database_is_loaded_once_and_read_only_when_loaded() {
    let database = TestDatabase::empty(Kind::WalFile);
    let error = Population::read(database.session().as_mut()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotLoaded, "{error}");
    load(&database.database, Scale::tiny(1), 1, &|_| {}).unwrap();
    let error = load(&database.database, Scale::tiny(1), 1, &|_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyLoaded, "{error}");
    database.change("DELETE FROM tpcc_load WHERE name = 'items'");
    let error = Population::read(database.session().as_mut()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotLoaded, "{error}");
    assert!(error.to_string().contains("items"), "{error}");
}

#[test]
fn a_scale_that_cannot_be_populated_is_refused_by_the_name_of_the_setting() {
    let database = TestDatabase::empty(Kind::Memory);
    for (scale, name) in [
        (Scale::tiny(0), "warehouses"),
        (Scale { items: 100_001, ..Scale::tiny(1) }, "items"),
        (Scale { orders_per_district: 31, ..Scale::tiny(1) }, "orders_per_district"),
        (Scale { new_orders_per_district: 31, ..Scale::tiny(1) }, "new_orders_per_district"),
    ] {
        let error = load(&database.database, scale, 1, &|_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(name), "{error}");
    }
}
