//! Every statement of the transactions finds its rows by a key or an index, as the specification's access
//! pattern asks: a benchmark that scans would measure something else.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

mod support;

use mezzanine_workload::{Scale, TRANSACTION_STATEMENTS};
use support::{Kind, TestDatabase};

fn plan(database: &TestDatabase, sql: &str) -> Vec<String> {
    // The last of the four columns says what is done.
    let rows = database.rows(&format!("EXPLAIN QUERY PLAN {sql}"));
    rows.iter().map(|row| row.splitn(4, '|').nth(3).unwrap().to_owned()).collect()
}

#[test]
fn no_statement_scans_a_table() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    for statement in TRANSACTION_STATEMENTS {
        let steps = plan(&database, statement.sql);
        assert!(!steps.iter().any(|step| step.starts_with("SCAN")), "{}: {steps:?}", statement.name);
        assert!(
            steps.iter().any(|step| step.starts_with("SEARCH")) || statement.sql.starts_with("INSERT"),
            "{}: {steps:?}",
            statement.name
        );
    }
}

#[test]
fn a_row_is_found_by_its_whole_key() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    for statement in TRANSACTION_STATEMENTS {
        let Some((_, condition)) = statement.sql.split_once(" WHERE ") else { continue };
        // These look for ranges and have their plans below.
        if ["CUSTOMERS_BY_NAME", "ORDER_NEWEST_ID", "STOCK_BELOW"].contains(&statement.name) {
            continue;
        }
        let columns = condition.matches(" = ?").count();
        let steps = plan(&database, statement.sql);
        assert_eq!(steps.len(), 1, "{}: {steps:?}", statement.name);
        let used = steps[0].matches("=?").count();
        assert_eq!(used, columns, "{}: {steps:?}", statement.name);
    }
}

#[test]
fn the_plans_are_the_expected_ones() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let plan_of = |name: &str| {
        let statement = TRANSACTION_STATEMENTS.iter().find(|statement| statement.name == name).unwrap();
        plan(&database, statement.sql).join("; ")
    };
    // Warehouse first: a warehouse's rows lie together.
    assert_eq!(
        plan_of("CUSTOMER_PAY"),
        "SEARCH customer USING INDEX sqlite_autoindex_customer_1 (c_w_id=? AND c_d_id=? AND c_id=?)"
    );
    assert_eq!(
        plan_of("STOCK_TAKE"),
        "SEARCH stock USING INDEX sqlite_autoindex_stock_1 (s_w_id=? AND s_i_id=?)"
    );
    assert_eq!(
        plan_of("ORDER_LINES"),
        "SEARCH order_line USING PRIMARY KEY (ol_w_id=? AND ol_d_id=? AND ol_o_id=?)"
    );
    // No sorting: the index has the first names in order.
    assert_eq!(
        plan_of("CUSTOMERS_BY_NAME"),
        "SEARCH customer USING INDEX customer_name (c_w_id=? AND c_d_id=? AND c_last=?)"
    );
    assert_eq!(
        plan_of("ORDER_NEWEST_ID"),
        "SEARCH orders USING COVERING INDEX orders_customer (o_w_id=? AND o_d_id=? AND o_c_id=?)"
    );
    // From the lines to the stock, each by its whole key.
    let below = plan_of("STOCK_BELOW");
    let lines = below
        .find("SEARCH order_line USING PRIMARY KEY (ol_w_id=? AND ol_d_id=? AND ol_o_id>? AND ol_o_id<?)");
    let stock = below.find("SEARCH stock USING INDEX sqlite_autoindex_stock_1 (s_w_id=? AND s_i_id=?)");
    assert!(lines.is_some() && lines < stock, "{below}");
}

#[test]
fn a_statement_that_scans_would_be_noticed() {
    let database = TestDatabase::loaded(Kind::Memory, Scale::tiny(1), 1);
    let steps = plan(&database, "SELECT c_id FROM customer WHERE c_phone = ?");
    assert!(steps.iter().any(|step| step.starts_with("SCAN")), "{steps:?}");
}
