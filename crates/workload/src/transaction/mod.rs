//! The five transactions.
//!
//! Each runs its statements inside a transaction that the caller has begun, and says whether to commit. The
//! caller commits, so that it can write down what is about to be committed before it is.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use crate::database::{Access, Transaction, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::request::{CustomerChoice, Request, TransactionType};
use crate::statement::CUSTOMERS_BY_NAME;

/// What a transaction shows on the terminal, as far as anybody would check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// An order was entered.
    NewOrder {
        /// Its number.
        order: u32,
        /// What the customer is to pay, in cents, taxes and discount included.
        total: i64,
    },
    /// The last item of the order does not exist, so the whole order is rolled back (clause 2.4.1.4).
    NewOrderRolledBack,
    /// A payment was booked.
    Payment {
        /// The customer who paid.
        customer: u32,
        /// Their balance after it, in cents.
        balance: i64,
    },
    /// The newest order of a customer.
    OrderStatus {
        /// The customer.
        customer: u32,
        /// Their newest order; 0 when there is none.
        order: u32,
        /// How many lines it has.
        lines: u64,
    },
    /// Orders were delivered.
    Delivery {
        /// Districts that had nothing to deliver.
        skipped: u32,
    },
    /// Stock was counted.
    StockLevel {
        /// Recently sold items of which there are fewer than the threshold.
        low_stock: u64,
    },
}

/// What a committed transaction leaves in the database, as far as needed to look for it after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// An order and its lines.
    NewOrder {
        /// `o_w_id`
        warehouse: u32,
        /// `o_d_id`
        district: u32,
        /// `o_id`
        order: u32,
        /// `o_c_id`
        customer: u32,
        /// `o_entry_d`, microseconds since 1970
        entered: i64,
        /// `o_ol_cnt`
        lines: u32,
    },
    /// A row of the history.
    Payment {
        /// `h_w_id`
        warehouse: u32,
        /// `h_d_id`
        district: u32,
        /// `h_c_w_id`
        customer_warehouse: u32,
        /// `h_c_d_id`
        customer_district: u32,
        /// `h_c_id`
        customer: u32,
        /// `h_amount`, cents
        amount: i64,
        /// `h_data`
        data: String,
    },
    /// Delivered orders.
    Delivery {
        /// `o_w_id`
        warehouse: u32,
        /// `o_carrier_id`
        carrier: u32,
        /// `(o_d_id, o_id)` of each
        orders: Vec<(u32, u32)>,
    },
}

/// How a transaction ended, before the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether to commit; otherwise roll back.
    pub commit: bool,
    /// What is to be found in the database once it is committed. `None` when it only read, or rolls back.
    pub effect: Option<Effect>,
    /// What the terminal shows.
    pub output: Output,
}

impl Request {
    /// The access that the transaction needs.
    pub fn access(&self) -> Access {
        match self.transaction_type() {
            TransactionType::OrderStatus | TransactionType::StockLevel => Access::ReadOnly,
            _ => Access::ReadWrite,
        }
    }

    /// Runs the statements in `transaction`, which was begun with [`access`](Self::access). `now` is in
    /// microseconds since 1970. `tag`, if given, replaces a Payment's `h_data`, so that its row can be
    /// told from all others.
    pub fn run(&self, transaction: &mut Transaction<'_>, now: i64, tag: Option<&str>) -> Result<Outcome> {
        match self {
            Request::NewOrder { warehouse, district, customer, lines } => {
                new_order::run(transaction, *warehouse, *district, *customer, lines, now)
            }
            Request::Payment {
                warehouse,
                district,
                customer_warehouse,
                customer_district,
                customer,
                amount,
            } => {
                let payer = (*customer_warehouse, *customer_district, customer);
                payment::run(transaction, (*warehouse, *district), payer, *amount, now, tag)
            }
            Request::OrderStatus { warehouse, district, customer } => {
                order_status::run(transaction, *warehouse, *district, customer)
            }
            Request::Delivery { warehouse, carrier } => delivery::run(transaction, *warehouse, *carrier, now),
            Request::StockLevel { warehouse, district, threshold } => {
                stock_level::run(transaction, *warehouse, *district, *threshold)
            }
        }
    }
}

/// The customer's number. Of those with a last name it is the one in the middle by first name, rounded up
/// (clause 2.5.2.2, case 2).
fn find_customer(
    transaction: &mut Transaction<'_>,
    warehouse: u32,
    district: u32,
    choice: &CustomerChoice,
) -> Result<u32> {
    let name = match choice {
        CustomerChoice::Id(customer) => return Ok(*customer),
        CustomerChoice::LastName(name) => name,
    };
    let mut found = Vec::new();
    let parameters = [warehouse.into(), district.into(), Value::Text(name)];
    transaction.query(CUSTOMERS_BY_NAME, &parameters, &mut |row| {
        found.push(row.id(0)?);
        Ok(())
    })?;
    if found.is_empty() {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("district {district} of warehouse {warehouse} has no customer named {name}"),
        ));
    }
    Ok(found[found.len().div_ceil(2) - 1])
}
