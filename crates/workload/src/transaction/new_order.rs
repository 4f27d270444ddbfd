//! New-Order (clause 2.4).

use super::{Effect, Outcome, Output};
use crate::database::Transaction;
use crate::error::Result;
use crate::request::OrderLine;
use crate::statement::{
    CUSTOMER_DISCOUNT, DISTRICT_TAKE_ORDER_ID, DISTRICT_TAX_AND_ORDER_ID, ITEM_SELECT, NEW_ORDER_INSERT,
    ORDER_INSERT, ORDER_LINE_INSERT, STOCK_TAKE, WAREHOUSE_TAX, stock_select,
};

/// Rates are in ten-thousandths.
const RATE_ONE: i64 = 10_000;

pub(super) fn run(
    transaction: &mut Transaction<'_>,
    warehouse: u32,
    district: u32,
    customer: u32,
    lines: &[OrderLine],
    now: i64,
) -> Result<Outcome> {
    let w_tax = transaction.query_one(WAREHOUSE_TAX, &[warehouse.into()], |row| row.int(0))?;
    let here = [warehouse.into(), district.into()];
    transaction.execute_one(DISTRICT_TAKE_ORDER_ID, &here)?;
    let (d_tax, order) =
        transaction.query_one(DISTRICT_TAX_AND_ORDER_ID, &here, |row| Ok((row.int(0)?, row.id(1)?)))?;
    let parameters = [warehouse.into(), district.into(), customer.into()];
    let discount = transaction.query_one(CUSTOMER_DISCOUNT, &parameters, |row| {
        row.text(1)?;
        row.text(2)?;
        row.int(0)
    })?;

    let all_local = lines.iter().all(|line| line.supply_warehouse == warehouse);
    let count = lines.len() as u32;
    transaction.execute_one(
        ORDER_INSERT,
        &[
            warehouse.into(),
            district.into(),
            order.into(),
            customer.into(),
            now.into(),
            count.into(),
            u32::from(all_local).into(),
        ],
    )?;
    transaction.execute_one(NEW_ORDER_INSERT, &[warehouse.into(), district.into(), order.into()])?;

    let mut sum = 0;
    for (number, line) in (1..).zip(lines) {
        match enter_line(transaction, warehouse, district, order, number, line)? {
            Some(amount) => sum += amount,
            None => {
                return Ok(Outcome { commit: false, effect: None, output: Output::NewOrderRolledBack });
            }
        }
    }
    let total = sum * (RATE_ONE - discount) / RATE_ONE * (RATE_ONE + w_tax + d_tax) / RATE_ONE;
    let effect = Effect::NewOrder { warehouse, district, order, customer, entered: now, lines: count };
    Ok(Outcome { commit: true, effect: Some(effect), output: Output::NewOrder { order, total } })
}

/// Takes one line's quantity from the stock and writes the line. Returns its amount in cents, or `None` when
/// there is no such item.
fn enter_line(
    transaction: &mut Transaction<'_>,
    warehouse: u32,
    district: u32,
    order: u32,
    number: u32,
    line: &OrderLine,
) -> Result<Option<i64>> {
    let item = transaction.query_optional(ITEM_SELECT, &[line.item.into()], |row| {
        row.text(1)?;
        Ok((row.int(0)?, row.text(2)?.contains("ORIGINAL")))
    })?;
    let Some((price, item_is_original)) = item else {
        return Ok(None);
    };
    let (supply, quantity) = (line.supply_warehouse, line.quantity);
    let remote = u32::from(supply != warehouse);
    transaction.execute_one(
        STOCK_TAKE,
        &[
            quantity.into(),
            quantity.into(),
            quantity.into(),
            quantity.into(),
            remote.into(),
            supply.into(),
            line.item.into(),
        ],
    )?;
    let (info, brand) =
        transaction.query_one(stock_select(district), &[supply.into(), line.item.into()], |row| {
            row.int(0)?;
            let is_original = item_is_original && row.text(1)?.contains("ORIGINAL");
            Ok((row.text(2)?.to_owned(), if is_original { 'B' } else { 'G' }))
        })?;
    // The brand is shown on the terminal and stored nowhere.
    std::hint::black_box(brand);
    let amount = i64::from(quantity) * price;
    transaction.execute_one(
        ORDER_LINE_INSERT,
        &[
            warehouse.into(),
            district.into(),
            order.into(),
            number.into(),
            line.item.into(),
            supply.into(),
            quantity.into(),
            amount.into(),
            info.as_str().into(),
        ],
    )?;
    Ok(Some(amount))
}
