//! Delivery (clause 2.7), carried out at once and as one transaction.

use super::{Effect, Outcome, Output};
use crate::database::Transaction;
use crate::error::{Error, ErrorKind, Result};
use crate::scale::DISTRICTS_PER_WAREHOUSE;
use crate::statement::{
    CUSTOMER_DELIVER, NEW_ORDER_DELETE, NEW_ORDER_OLDEST, ORDER_AMOUNT, ORDER_CUSTOMER, ORDER_LINES_DELIVER,
    ORDER_SET_CARRIER,
};

pub(super) fn run(
    transaction: &mut Transaction<'_>,
    warehouse: u32,
    carrier: u32,
    now: i64,
) -> Result<Outcome> {
    let mut orders = Vec::with_capacity(DISTRICTS_PER_WAREHOUSE as usize);
    for district in 1..=DISTRICTS_PER_WAREHOUSE {
        let here = [warehouse.into(), district.into()];
        let oldest = transaction.query_one(NEW_ORDER_OLDEST, &here, |row| row.optional_int(0))?;
        if let Some(order) = oldest {
            deliver(transaction, warehouse, district, order, carrier, now)?;
            orders.push((district, order as u32));
        }
    }
    let skipped = DISTRICTS_PER_WAREHOUSE - orders.len() as u32;
    let effect = (!orders.is_empty()).then_some(Effect::Delivery { warehouse, carrier, orders });
    Ok(Outcome { commit: true, effect, output: Output::Delivery { skipped } })
}

fn deliver(
    transaction: &mut Transaction<'_>,
    warehouse: u32,
    district: u32,
    order: i64,
    carrier: u32,
    now: i64,
) -> Result<()> {
    let which = [warehouse.into(), district.into(), order.into()];
    if transaction.execute(NEW_ORDER_DELETE, &which)? == 0 {
        // Where a read does not lock, another Delivery can have taken the order in between.
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("order {order} of district {district} of warehouse {warehouse} was delivered meanwhile"),
        ));
    }
    transaction.execute_one(ORDER_SET_CARRIER, &[carrier.into(), which[0], which[1], which[2]])?;
    let customer = transaction.query_one(ORDER_CUSTOMER, &which, |row| row.id(0))?;
    transaction.execute(ORDER_LINES_DELIVER, &[now.into(), which[0], which[1], which[2]])?;
    let amount = transaction.query_one(ORDER_AMOUNT, &which, |row| row.int(0))?;
    transaction
        .execute_one(CUSTOMER_DELIVER, &[amount.into(), warehouse.into(), district.into(), customer.into()])
}
