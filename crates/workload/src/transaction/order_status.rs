//! Order-Status (clause 2.6).

use super::{Outcome, Output, find_customer};
use crate::database::Transaction;
use crate::error::Result;
use crate::request::CustomerChoice;
use crate::statement::{CUSTOMER_STATUS, ORDER_LINES, ORDER_NEWEST_ID, ORDER_SELECT};

pub(super) fn run(
    transaction: &mut Transaction<'_>,
    warehouse: u32,
    district: u32,
    choice: &CustomerChoice,
) -> Result<Outcome> {
    let customer = find_customer(transaction, warehouse, district, choice)?;
    let who = [warehouse.into(), district.into(), customer.into()];
    transaction.query_one(CUSTOMER_STATUS, &who, |row| {
        (1..row.count()).try_for_each(|column| row.text(column).map(drop))?;
        row.int(0)
    })?;
    let newest = transaction.query_one(ORDER_NEWEST_ID, &who, |row| row.optional_int(0))?;
    let Some(order) = newest.map(|order| order as u32) else {
        // With fewer orders than customers, which no standard population has, some never ordered.
        return Ok(Outcome {
            commit: true,
            effect: None,
            output: Output::OrderStatus { customer, order: 0, lines: 0 },
        });
    };
    let what = [warehouse.into(), district.into(), order.into()];
    transaction.query_one(ORDER_SELECT, &what, |row| {
        row.int(0)?;
        row.optional_int(1)
    })?;
    let lines = transaction.query(ORDER_LINES, &what, &mut |row| {
        (0..4).try_for_each(|column| row.int(column).map(drop))?;
        row.optional_int(4).map(drop)
    })?;
    Ok(Outcome { commit: true, effect: None, output: Output::OrderStatus { customer, order, lines } })
}
