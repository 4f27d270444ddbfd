//! The twelve consistency conditions of clause 3.3.2.
//!
//! Each is a query for what breaks it, so a sound database answers with no rows. All twelve hold after
//! loading and after any number of transactions. Condition 11 is the one that the specification states for
//! the initial population only (orders minus new orders is 2,100 in every district); here the customers'
//! delivery counts are added to the right-hand side, which is zero at load, so that it holds at any time.

use std::fmt;

use crate::database::{Access, Session, Transaction, Value};
use crate::error::Result;
use crate::population::Population;
use crate::statement::Statement;

/// Violations kept in a result; more are only counted.
const ROWS_KEPT_MAX: usize = 20;

/// A condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// 1 to 12: clause 3.3.2.*number*.
    pub number: u32,
    /// What must hold.
    pub rule: &'static str,
    query: Statement,
    columns: &'static [&'static str],
    takes_delivered_at_load: bool,
}

/// A condition that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Which.
    pub condition: Condition,
    /// How many rows break it.
    pub violations: u64,
    /// The first of them.
    pub rows: Vec<ViolatingRow>,
}

impl Checked {
    /// Whether the condition holds.
    pub fn holds(&self) -> bool {
        self.violations == 0
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "condition {} ({}): ", self.condition.number, self.condition.rule)?;
        if self.holds() {
            return f.write_str("holds");
        }
        write!(f, "{} violations", self.violations)?;
        for row in &self.rows {
            write!(f, "\n  {row}")?;
        }
        Ok(())
    }
}

/// A row that breaks a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViolatingRow {
    /// Columns by name; `None` is NULL.
    pub values: Vec<(&'static str, Option<i64>)>,
}

impl fmt::Display for ViolatingRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.values.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            match value {
                Some(value) => write!(f, "{separator}{name} = {value}")?,
                None => write!(f, "{separator}{name} = NULL")?,
            }
        }
        Ok(())
    }
}

/// Checks all conditions on one snapshot.
///
/// # Errors
/// Only when the database fails; a violation is a result.
pub fn check_consistency(session: &mut dyn Session) -> Result<Vec<Checked>> {
    let population = Population::read(session)?;
    let mut transaction = Transaction::begin(session, Access::ReadOnly)?;
    let checked = CONDITIONS
        .iter()
        .map(|condition| condition.check(&mut transaction, &population))
        .collect::<Result<_>>()?;
    transaction.commit()?;
    Ok(checked)
}

impl Condition {
    /// Checks this condition.
    pub fn check(&self, transaction: &mut Transaction<'_>, population: &Population) -> Result<Checked> {
        let delivered_at_load = Value::from(population.scale.first_new_order() - 1);
        let parameters = if self.takes_delivered_at_load { vec![delivered_at_load] } else { Vec::new() };
        let mut rows = Vec::new();
        let violations = transaction.query(self.query, &parameters, &mut |row| {
            if rows.len() < ROWS_KEPT_MAX {
                let values = self
                    .columns
                    .iter()
                    .enumerate()
                    .map(|(column, &name)| Ok((name, row.optional_int(column)?)))
                    .collect::<Result<_>>()?;
                rows.push(ViolatingRow { values });
            }
            Ok(())
        })?;
        Ok(Checked { condition: *self, violations, rows })
    }
}

/// The conditions in their order.
pub const CONDITIONS: [Condition; 12] = [
    Condition {
        number: 1,
        rule: "w_ytd = sum(d_ytd)",
        query: Statement {
            name: "CONDITION_1",
            sql: "SELECT w_id, w_ytd, d_sum FROM (SELECT w_id, w_ytd, \
                (SELECT COALESCE(SUM(d_ytd), 0) FROM district WHERE d_w_id = w_id) AS d_sum FROM warehouse) AS t \
                WHERE w_ytd <> d_sum",
        },
        columns: &["w_id", "w_ytd", "sum(d_ytd)"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 2,
        rule: "d_next_o_id - 1 = max(o_id) = max(no_o_id)",
        query: Statement {
            name: "CONDITION_2",
            sql: "SELECT d_w_id, d_id, d_next_o_id, o_max, no_max FROM (SELECT d_w_id, d_id, d_next_o_id, \
                (SELECT MAX(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS o_max, \
                (SELECT MAX(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS no_max \
                FROM district) AS t WHERE o_max IS NULL OR d_next_o_id - 1 <> o_max \
                OR (no_max IS NOT NULL AND no_max <> o_max)",
        },
        columns: &["d_w_id", "d_id", "d_next_o_id", "max(o_id)", "max(no_o_id)"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 3,
        rule: "max(no_o_id) - min(no_o_id) + 1 = number of new orders of the district",
        query: Statement {
            name: "CONDITION_3",
            sql: "SELECT no_w_id, no_d_id, MIN(no_o_id), MAX(no_o_id), COUNT(*) FROM new_order \
                GROUP BY no_w_id, no_d_id HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)",
        },
        columns: &["no_w_id", "no_d_id", "min(no_o_id)", "max(no_o_id)", "count(*)"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 4,
        rule: "sum(o_ol_cnt) = number of order lines of the district",
        query: Statement {
            name: "CONDITION_4",
            sql: "SELECT d_w_id, d_id, o_sum, ol_count FROM (SELECT d_w_id, d_id, \
                (SELECT COALESCE(SUM(o_ol_cnt), 0) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS o_sum, \
                (SELECT COUNT(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id) AS ol_count \
                FROM district) AS t WHERE o_sum <> ol_count",
        },
        columns: &["d_w_id", "d_id", "sum(o_ol_cnt)", "count(order_line)"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 5,
        rule: "o_carrier_id is NULL exactly for the orders that have a new order",
        query: Statement {
            name: "CONDITION_5",
            sql: "SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id FROM orders LEFT JOIN new_order \
                ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
                WHERE (o_carrier_id IS NULL AND no_o_id IS NULL) \
                OR (o_carrier_id IS NOT NULL AND no_o_id IS NOT NULL) \
                UNION ALL SELECT no_w_id, no_d_id, o_id, o_carrier_id, no_o_id FROM new_order LEFT JOIN orders \
                ON o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id WHERE o_id IS NULL",
        },
        columns: &["w_id", "d_id", "o_id", "o_carrier_id", "no_o_id"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 6,
        rule: "o_ol_cnt = number of lines of the order",
        query: Statement {
            name: "CONDITION_6",
            sql: "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, ol_count FROM (SELECT o_w_id, o_d_id, o_id, o_ol_cnt, \
                (SELECT COUNT(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id) \
                AS ol_count FROM orders) AS t WHERE o_ol_cnt <> ol_count",
        },
        columns: &["o_w_id", "o_d_id", "o_id", "o_ol_cnt", "count(order_line)"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 7,
        rule: "ol_delivery_d is NULL exactly for the lines of orders whose o_carrier_id is NULL",
        query: Statement {
            name: "CONDITION_7",
            sql: "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_id, o_carrier_id \
                FROM order_line LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
                WHERE o_id IS NULL OR (ol_delivery_d IS NULL AND o_carrier_id IS NOT NULL) \
                OR (ol_delivery_d IS NOT NULL AND o_carrier_id IS NULL)",
        },
        columns: &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number", "ol_delivery_d", "o_id", "o_carrier_id"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 8,
        rule: "w_ytd = sum(h_amount)",
        query: Statement {
            name: "CONDITION_8",
            sql: "SELECT w_id, w_ytd, h_sum FROM warehouse LEFT JOIN \
                (SELECT h_w_id, SUM(h_amount) AS h_sum FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id \
                WHERE w_ytd <> COALESCE(h_sum, 0)",
        },
        columns: &["w_id", "w_ytd", "sum(h_amount)"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 9,
        rule: "d_ytd = sum(h_amount)",
        query: Statement {
            name: "CONDITION_9",
            sql: "SELECT d_w_id, d_id, d_ytd, h_sum FROM district LEFT JOIN \
                (SELECT h_w_id, h_d_id, SUM(h_amount) AS h_sum FROM history GROUP BY h_w_id, h_d_id) AS h \
                ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd <> COALESCE(h_sum, 0)",
        },
        columns: &["d_w_id", "d_id", "d_ytd", "sum(h_amount)"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 10,
        rule: "c_balance = sum(ol_amount) of delivered lines - sum(h_amount)",
        query: Statement {
            name: "CONDITION_10",
            sql: "SELECT c_w_id, c_d_id, c_id, c_balance, ol_sum, h_sum FROM customer LEFT JOIN \
                (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS ol_sum FROM orders JOIN order_line \
                ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL \
                GROUP BY o_w_id, o_d_id, o_c_id) AS ol ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
                LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS h_sum FROM history \
                GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h \
                ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
                WHERE c_balance <> COALESCE(ol_sum, 0) - COALESCE(h_sum, 0)",
        },
        columns: &["c_w_id", "c_d_id", "c_id", "c_balance", "sum(ol_amount)", "sum(h_amount)"],
        takes_delivered_at_load: false,
    },
    Condition {
        number: 11,
        rule: "orders - new orders = delivered at load + sum(c_delivery_cnt)",
        query: Statement {
            name: "CONDITION_11",
            sql: "SELECT d_w_id, d_id, o_count, no_count, delivered FROM (SELECT d_w_id, d_id, \
                (SELECT COUNT(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS o_count, \
                (SELECT COUNT(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS no_count, \
                (SELECT COALESCE(SUM(c_delivery_cnt), 0) FROM customer WHERE c_w_id = d_w_id AND c_d_id = d_id) \
                AS delivered FROM district) AS t WHERE o_count - no_count <> ? + delivered",
        },
        columns: &["d_w_id", "d_id", "count(orders)", "count(new_order)", "sum(c_delivery_cnt)"],
        takes_delivered_at_load: true,
    },
    Condition {
        number: 12,
        rule: "c_balance + c_ytd_payment = sum(ol_amount) of delivered lines",
        query: Statement {
            name: "CONDITION_12",
            sql: "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, ol_sum FROM customer LEFT JOIN \
                (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS ol_sum FROM orders JOIN order_line \
                ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL \
                GROUP BY o_w_id, o_d_id, o_c_id) AS ol ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
                WHERE c_balance + c_ytd_payment <> COALESCE(ol_sum, 0)",
        },
        columns: &["c_w_id", "c_d_id", "c_id", "c_balance", "c_ytd_payment", "sum(ol_amount)"],
        takes_delivered_at_load: false,
    },
];
