//! Each transaction changes what the specification says it changes, and nothing else of what is looked at
//! here.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

mod support;

use mezzanine_workload::{CustomerChoice, Effect, OrderLine, Outcome, Output, Request, Scale, Transaction};
use support::{Kind, TestDatabase};

const NOW: i64 = 1_800_000_000_000_000;

fn database() -> TestDatabase {
    TestDatabase::loaded(Kind::Memory, Scale::tiny(2), 1)
}

/// Runs a request as a client would, the commit included.
fn execute(database: &TestDatabase, request: &Request) -> Outcome {
    let mut session = database.session();
    let mut transaction = Transaction::begin(session.as_mut(), request.access()).unwrap();
    let outcome = request.run(&mut transaction, NOW, None).unwrap();
    if outcome.commit {
        transaction.commit().unwrap()
    } else {
        transaction.rollback().unwrap()
    }
    outcome
}

fn new_order(lines: &[(u32, u32, u32)]) -> Request {
    let line = |&(item, supply_warehouse, quantity): &(u32, u32, u32)| OrderLine {
        item,
        supply_warehouse,
        quantity,
    };
    Request::NewOrder { warehouse: 1, district: 3, customer: 7, lines: lines.iter().map(line).collect() }
}

#[test]
fn new_order_enters_the_order_and_takes_the_stock() {
    let database = database();
    database.change("UPDATE stock SET s_quantity = 15 WHERE s_w_id = 1 AND s_i_id = 5");
    database.change("UPDATE stock SET s_quantity = 14 WHERE s_w_id = 2 AND s_i_id = 6");
    database.change("UPDATE item SET i_price = 250 WHERE i_id IN (5, 6)");
    database.change("UPDATE customer SET c_discount = 1000 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 7");
    database.change("UPDATE warehouse SET w_tax = 500");
    database.change("UPDATE district SET d_tax = 700");
    let outcome = execute(&database, &new_order(&[(5, 1, 5), (6, 2, 5)]));
    // 2 lines of 5 at 2.50, 10 % off, 12 % tax: 25.00 * 0.9 * 1.12.
    assert_eq!(outcome.output, Output::NewOrder { order: 31, total: 2_520 });
    let effect =
        Effect::NewOrder { warehouse: 1, district: 3, order: 31, customer: 7, entered: NOW, lines: 2 };
    assert_eq!(outcome.effect, Some(effect));
    assert_eq!(database.number("SELECT d_next_o_id FROM district WHERE d_w_id = 1 AND d_id = 3"), 32);
    assert_eq!(database.rows("SELECT * FROM orders WHERE o_id = 31"), [format!("1|3|31|7|{NOW}|NULL|2|0")]);
    assert_eq!(database.rows("SELECT * FROM new_order WHERE no_o_id = 31"), ["1|3|31"]);
    let information = |warehouse, item| {
        database.rows(&format!("SELECT s_dist_03 FROM stock WHERE s_w_id = {warehouse} AND s_i_id = {item}"))
            [0]
        .clone()
    };
    assert_eq!(
        database.rows("SELECT * FROM order_line WHERE ol_o_id = 31 ORDER BY ol_number"),
        [
            format!("1|3|31|1|5|1|NULL|5|1250|{}", information(1, 5)),
            format!("1|3|31|2|6|2|NULL|5|1250|{}", information(2, 6)),
        ]
    );
    // Ten and more must be left, otherwise 91 are ordered.
    let stock = "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt FROM stock";
    assert_eq!(database.rows(&format!("{stock} WHERE s_w_id = 1 AND s_i_id = 5")), ["10|5|1|0"]);
    assert_eq!(database.rows(&format!("{stock} WHERE s_w_id = 2 AND s_i_id = 6")), ["100|5|1|1"]);
    assert_eq!(database.number("SELECT SUM(s_order_cnt) FROM stock"), 2);
    assert_eq!(database.broken_conditions(), []);
}

#[test]
fn new_order_with_an_unused_item_leaves_nothing() {
    let database = database();
    let before = database.rows("SELECT * FROM stock");
    let outcome = execute(&database, &new_order(&[(5, 1, 5), (201, 1, 1)]));
    assert_eq!((outcome.commit, outcome.effect), (false, None));
    assert_eq!(outcome.output, Output::NewOrderRolledBack);
    assert_eq!(database.number("SELECT MAX(d_next_o_id) FROM district"), 31);
    assert_eq!(database.number("SELECT MAX(o_id) FROM orders"), 30);
    assert_eq!(database.rows("SELECT * FROM stock"), before);
}

fn payment(customer: CustomerChoice) -> Request {
    Request::Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse: 2,
        customer_district: 9,
        customer,
        amount: 12_345,
    }
}

#[test]
fn payment_is_booked_at_the_warehouse_the_district_and_the_customer() {
    let database = database();
    database.change("UPDATE customer SET c_credit = 'GC'");
    let outcome = execute(&database, &payment(CustomerChoice::Id(4)));
    assert_eq!(outcome.output, Output::Payment { customer: 4, balance: -1_000 - 12_345 });
    // 30 customers in 10 districts have paid 10.00 each.
    assert_eq!(database.rows("SELECT w_ytd FROM warehouse ORDER BY w_id"), ["312345", "300000"]);
    assert_eq!(database.number("SELECT d_ytd FROM district WHERE d_w_id = 1 AND d_id = 2"), 30_000 + 12_345);
    assert_eq!(
        database.rows(
            "SELECT c_balance, c_ytd_payment, c_payment_cnt FROM customer \
             WHERE c_w_id = 2 AND c_d_id = 9 AND c_id = 4"
        ),
        ["-13345|13345|2"]
    );
    let w_name = &database.rows("SELECT w_name FROM warehouse WHERE w_id = 1")[0];
    let d_name = &database.rows("SELECT d_name FROM district WHERE d_w_id = 1 AND d_id = 2")[0];
    assert_eq!(
        database.rows(&format!("SELECT * FROM history WHERE h_date = {NOW}")),
        [format!("4|9|2|2|1|{NOW}|12345|{w_name}    {d_name}")]
    );
    assert_eq!(database.broken_conditions(), []);
}

#[test]
fn payment_of_a_customer_of_bad_credit_is_written_into_their_data() {
    let database = database();
    database.change("UPDATE customer SET c_credit = 'BC'");
    let which = "FROM customer WHERE c_w_id = 2 AND c_d_id = 9 AND c_id = 4";
    let before = database.rows(&format!("SELECT c_data {which}"))[0].clone();
    execute(&database, &payment(CustomerChoice::Id(4)));
    execute(&database, &payment(CustomerChoice::Id(4)));
    let after = database.rows(&format!("SELECT c_data {which}"))[0].clone();
    let mut expected = format!("4 9 2 2 1 123.45 4 9 2 2 1 123.45 {before}");
    expected.truncate(500);
    assert_eq!(after, expected);
    // Others keep theirs.
    assert_eq!(database.number("SELECT COUNT(*) FROM customer WHERE c_data LIKE '% %'"), 1);
}

#[test]
fn a_customer_by_last_name_is_the_middle_one_by_first_name_rounded_up() {
    let database = database();
    for (customers, middle) in [("1, 2, 3, 4", 2), ("1, 2, 3", 3), ("1", 1)] {
        database.change("UPDATE customer SET c_last = 'OTHER', c_first = 'x'");
        // Their first names do not have the order of their numbers: 4, 2, 3, 1 and 2, 3, 1 and 1.
        for sql in [
            "UPDATE customer SET c_first = 'd' WHERE c_id = 1",
            "UPDATE customer SET c_first = 'b' WHERE c_id = 2",
            "UPDATE customer SET c_first = 'c' WHERE c_id = 3",
            "UPDATE customer SET c_first = 'a' WHERE c_id = 4",
        ] {
            database.change(sql);
        }
        let sql = format!("UPDATE customer SET c_last = 'SAME' WHERE c_id IN ({customers})");
        database.change(Box::leak(sql.into_boxed_str()));
        let request = Request::OrderStatus {
            warehouse: 1,
            district: 1,
            customer: CustomerChoice::LastName("SAME".to_owned()),
        };
        let Output::OrderStatus { customer, .. } = execute(&database, &request).output else { panic!() };
        assert_eq!(customer, middle, "of {customers}");
    }
}

#[test]
fn order_status_shows_the_newest_order() {
    let database = database();
    let request = Request::OrderStatus { warehouse: 1, district: 3, customer: CustomerChoice::Id(7) };
    let loaded = database.number("SELECT o_id FROM orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_c_id = 7");
    let lines = database
        .number(&format!("SELECT o_ol_cnt FROM orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = {loaded}"));
    let shown = |order, lines| Output::OrderStatus { customer: 7, order, lines };
    assert_eq!(execute(&database, &request).output, shown(loaded as u32, lines as u64));
    execute(&database, &new_order(&[(5, 1, 5), (6, 1, 5), (7, 1, 1)]));
    assert_eq!(execute(&database, &request).output, shown(31, 3));
}

#[test]
fn delivery_takes_the_oldest_new_order_of_each_district() {
    let database = database();
    let owed = "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 5 AND ol_o_id = 22";
    let amount = database.number(owed);
    let request = Request::Delivery { warehouse: 2, carrier: 8 };
    let outcome = execute(&database, &request);
    assert_eq!(outcome.output, Output::Delivery { skipped: 0 });
    let orders = (1..=10).map(|district| (district, 22)).collect();
    assert_eq!(outcome.effect, Some(Effect::Delivery { warehouse: 2, carrier: 8, orders }));
    assert_eq!(database.number("SELECT COUNT(*) FROM new_order WHERE no_w_id = 2 AND no_o_id = 22"), 0);
    assert_eq!(database.number("SELECT COUNT(*) FROM new_order"), 170);
    assert_eq!(
        database.rows("SELECT DISTINCT o_carrier_id FROM orders WHERE o_w_id = 2 AND o_id = 22"),
        ["8"]
    );
    assert_eq!(
        database.rows("SELECT DISTINCT ol_delivery_d FROM order_line WHERE ol_w_id = 2 AND ol_o_id = 22"),
        [NOW.to_string()]
    );
    let customer = database.number("SELECT o_c_id FROM orders WHERE o_w_id = 2 AND o_d_id = 5 AND o_id = 22");
    assert_eq!(
        database.rows(&format!(
            "SELECT c_balance, c_delivery_cnt FROM customer WHERE c_w_id = 2 AND c_d_id = 5 AND c_id = {customer}"
        )),
        [format!("{}|1", amount - 1_000)]
    );
    assert_eq!(database.broken_conditions(), []);
    for _ in 1..9 {
        execute(&database, &request);
    }
    // Nothing is left, which is no error but reported.
    let outcome = execute(&database, &request);
    assert_eq!((outcome.output, outcome.effect), (Output::Delivery { skipped: 10 }, None));
    assert_eq!(database.broken_conditions(), []);
}

#[test]
fn stock_level_counts_items_of_the_last_twenty_orders_that_run_low() {
    let database = database();
    database.change("UPDATE stock SET s_quantity = 50");
    database.change("UPDATE order_line SET ol_i_id = 1 + ol_o_id WHERE ol_w_id = 1 AND ol_d_id = 4");
    // Items of order 10, which is one too old, of orders 11 and 30, and of no order; only warehouse 1 counts.
    database.change("UPDATE stock SET s_quantity = 11 WHERE s_i_id IN (11, 12, 31, 150)");
    database.change("UPDATE stock SET s_quantity = 12 WHERE s_w_id = 1 AND s_i_id = 20");
    let level =
        |threshold| execute(&database, &Request::StockLevel { warehouse: 1, district: 4, threshold }).output;
    assert_eq!(level(11), Output::StockLevel { low_stock: 0 });
    assert_eq!(level(12), Output::StockLevel { low_stock: 2 });
    assert_eq!(level(13), Output::StockLevel { low_stock: 3 });
}
