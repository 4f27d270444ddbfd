//! Payment (clause 2.5).

use super::{Effect, Outcome, Output, find_customer};
use crate::database::Transaction;
use crate::error::Result;
use crate::request::CustomerChoice;
use crate::statement::{
    CUSTOMER_DATA, CUSTOMER_DETAILS, CUSTOMER_PAY, CUSTOMER_SET_DATA, DISTRICT_ADDRESS, DISTRICT_PAY,
    HISTORY_INSERT, WAREHOUSE_ADDRESS, WAREHOUSE_PAY,
};

/// The length of `c_data`; what a payment pushes beyond it is lost.
const CUSTOMER_DATA_MAX: usize = 500;

pub(super) fn run(
    transaction: &mut Transaction<'_>,
    (warehouse, district): (u32, u32),
    (customer_warehouse, customer_district, choice): (u32, u32, &CustomerChoice),
    amount: i64,
    now: i64,
    tag: Option<&str>,
) -> Result<Outcome> {
    transaction.execute_one(WAREHOUSE_PAY, &[amount.into(), warehouse.into()])?;
    let w_name = transaction.query_one(WAREHOUSE_ADDRESS, &[warehouse.into()], |row| {
        (1..row.count()).try_for_each(|column| row.text(column).map(drop))?;
        Ok(row.text(0)?.to_owned())
    })?;
    transaction.execute_one(DISTRICT_PAY, &[amount.into(), warehouse.into(), district.into()])?;
    let d_name = transaction.query_one(DISTRICT_ADDRESS, &[warehouse.into(), district.into()], |row| {
        (1..row.count()).try_for_each(|column| row.text(column).map(drop))?;
        Ok(row.text(0)?.to_owned())
    })?;

    let customer = find_customer(transaction, customer_warehouse, customer_district, choice)?;
    let who = [customer_warehouse.into(), customer_district.into(), customer.into()];
    transaction.execute_one(CUSTOMER_PAY, &[amount.into(), amount.into(), who[0], who[1], who[2]])?;
    let (balance, bad_credit) = transaction.query_one(CUSTOMER_DETAILS, &who, |row| {
        (2..row.count()).try_for_each(|column| row.value(column).map(drop))?;
        Ok((row.int(0)?, row.text(1)? == "BC"))
    })?;
    if bad_credit {
        let mut data = format!(
            "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {}.{:02} ",
            amount / 100,
            amount % 100
        );
        transaction.query_one(CUSTOMER_DATA, &who, |row| {
            data.push_str(row.text(0)?);
            Ok(())
        })?;
        // All of it is ASCII, so any place is a boundary.
        data.truncate(CUSTOMER_DATA_MAX);
        transaction.execute_one(CUSTOMER_SET_DATA, &[data.as_str().into(), who[0], who[1], who[2]])?;
    }

    let mut data = format!("{w_name}    {d_name}");
    if let Some(tag) = tag {
        // As long as the text that it replaces, so that the row has the size that it should.
        data = format!("{tag:width$}", width = data.len());
    }
    transaction.execute_one(
        HISTORY_INSERT,
        &[
            customer.into(),
            customer_district.into(),
            customer_warehouse.into(),
            district.into(),
            warehouse.into(),
            now.into(),
            amount.into(),
            data.as_str().into(),
        ],
    )?;
    let effect = Effect::Payment {
        warehouse,
        district,
        customer_warehouse,
        customer_district,
        customer,
        amount,
        data,
    };
    Ok(Outcome { commit: true, effect: Some(effect), output: Output::Payment { customer, balance } })
}
