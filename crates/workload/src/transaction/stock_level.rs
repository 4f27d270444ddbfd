//! Stock-Level (clause 2.8).

use super::{Outcome, Output};
use crate::database::Transaction;
use crate::error::Result;
use crate::statement::{DISTRICT_NEXT_ORDER_ID, STOCK_BELOW};

/// How many of the district's newest orders are looked at.
const ORDERS: u32 = 20;

pub(super) fn run(
    transaction: &mut Transaction<'_>,
    warehouse: u32,
    district: u32,
    threshold: u32,
) -> Result<Outcome> {
    let here = [warehouse.into(), district.into()];
    let next = transaction.query_one(DISTRICT_NEXT_ORDER_ID, &here, |row| row.id(0))?;
    let parameters = [
        warehouse.into(),
        district.into(),
        next.saturating_sub(ORDERS).into(),
        next.into(),
        warehouse.into(),
        threshold.into(),
    ];
    let low_stock = transaction.query_one(STOCK_BELOW, &parameters, |row| row.int(0))? as u64;
    Ok(Outcome { commit: true, effect: None, output: Output::StockLevel { low_stock } })
}
