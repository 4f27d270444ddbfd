//! Comparing a database with the acknowledgement log of the run that a crash ended.

use std::collections::HashMap;
use std::fmt;

use super::log::{AcknowledgementLog, DistrictStart, Standing};
use super::{CommitId, payment_tag};
use crate::database::{Access, Session, Transaction};
use crate::error::Result;
use crate::statement::Statement;
use crate::transaction::Effect;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViolationKind {
    /// An acknowledged commit is not in the database.
    Missing,
    /// The database holds what no transaction of the log can have left.
    Extra,
    /// A transaction is in the database in part.
    Torn,
}

/// A difference between the database and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgementViolation {
    /// What is wrong.
    pub kind: ViolationKind,
    /// With which transaction or row.
    pub what: String,
}

impl fmt::Display for AcknowledgementViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ViolationKind::Missing => "acknowledged but missing",
            ViolationKind::Extra => "present but never committed",
            ViolationKind::Torn => "present in part",
        };
        write!(f, "{kind}: {}", self.what)
    }
}

/// The outcome of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgementReport {
    /// Acknowledged commits that were looked for.
    pub acknowledged: usize,
    /// Commits of which the log does not know, at most one per client.
    pub in_doubt: usize,
    /// How many of these are in the database.
    pub in_doubt_present: usize,
    /// Every difference.
    pub violations: Vec<AcknowledgementViolation>,
}

impl AcknowledgementReport {
    /// Whether every acknowledged commit is present and nothing else but what was in doubt.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }
}

const ORDERS_SINCE: Statement = Statement {
    name: "ORDERS_SINCE",
    sql: "SELECT o_id, o_c_id, o_entry_d, o_ol_cnt, (SELECT COUNT(*) FROM order_line \
        WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id) \
        FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id >= ?",
};
const DELIVERED_SINCE: Statement = Statement {
    name: "DELIVERED_SINCE",
    sql: "SELECT o_id, o_carrier_id FROM orders \
        WHERE o_w_id = ? AND o_d_id = ? AND o_id >= ? AND o_carrier_id IS NOT NULL",
};
const HISTORY_ALL: Statement = Statement {
    name: "HISTORY_ALL",
    sql: "SELECT h_data, h_w_id, h_d_id, h_c_w_id, h_c_d_id, h_c_id, h_amount FROM history",
};

/// Looks in the database for everything that the log says, and for what it does not say. Nothing else may
/// have written to the database since the log was begun.
///
/// # Errors
/// Only when the database fails; a difference is a result.
pub fn verify_acknowledged(
    session: &mut dyn Session,
    log: &AcknowledgementLog,
) -> Result<AcknowledgementReport> {
    let mut check = Check::new(log);
    let mut transaction = Transaction::begin(session, Access::ReadOnly)?;
    for (&district, &start) in &log.districts {
        check.orders(&mut transaction, district, start)?;
        check.deliveries(&mut transaction, district, start)?;
    }
    check.payments(&mut transaction)?;
    transaction.commit()?;
    Ok(check.finish())
}

/// What of a commit has been found. A New-Order and a Payment are one piece, a Delivery one per order.
#[derive(Clone, Copy, Default)]
struct Found {
    pieces: usize,
}

struct Check<'l> {
    log: &'l AcknowledgementLog,
    found: Vec<Found>,
    /// Commits by the order that they enter; several only when those before the last did not happen.
    entered: HashMap<(u32, u32, u32), Vec<usize>>,
    /// Commits by the order that they deliver.
    delivered: HashMap<(u32, u32, u32), Vec<usize>>,
    paid: HashMap<&'l str, usize>,
    violations: Vec<AcknowledgementViolation>,
}

impl<'l> Check<'l> {
    fn new(log: &'l AcknowledgementLog) -> Self {
        let mut check = Self {
            log,
            found: vec![Found::default(); log.commits.len()],
            entered: HashMap::new(),
            delivered: HashMap::new(),
            paid: HashMap::new(),
            violations: Vec::new(),
        };
        // What was withdrawn is left out, so that finding it is finding an extra.
        let commits = log.commits.iter().enumerate();
        for (index, (_, effect, _)) in commits.filter(|(_, (.., standing))| *standing != Standing::Withdrawn)
        {
            match effect {
                Effect::NewOrder { warehouse, district, order, .. } => {
                    check.entered.entry((*warehouse, *district, *order)).or_default().push(index);
                }
                Effect::Payment { data, .. } => {
                    check.paid.insert(data, index);
                }
                Effect::Delivery { warehouse, orders, .. } => {
                    for &(district, order) in orders {
                        check.delivered.entry((*warehouse, district, order)).or_default().push(index);
                    }
                }
            }
        }
        check
    }

    fn violation(&mut self, kind: ViolationKind, what: String) {
        self.violations.push(AcknowledgementViolation { kind, what });
    }

    /// Of several commits that could have left this piece, the acknowledged one has.
    fn claim(&mut self, candidates: &[usize]) -> bool {
        let acknowledged =
            candidates.iter().find(|&&index| self.log.commits[index].2 == Standing::Acknowledged);
        match acknowledged.or(candidates.first()) {
            Some(&index) => {
                self.found[index].pieces += 1;
                true
            }
            None => false,
        }
    }

    fn orders(
        &mut self,
        transaction: &mut Transaction<'_>,
        (warehouse, district): (u32, u32),
        start: DistrictStart,
    ) -> Result<()> {
        let parameters = [warehouse.into(), district.into(), start.next_order.into()];
        transaction.query(ORDERS_SINCE, &parameters, &mut |row| {
            let found = (row.id(0)?, row.id(1)?, row.int(2)?, row.id(3)?);
            let (order, customer_found, entered_found, count_found) = found;
            let name = || {
                format!(
                    "order {order} of district {district} of warehouse {warehouse} (customer {customer_found}, \
                     {count_found} lines)"
                )
            };
            let mut candidates =
                self.entered.get(&(warehouse, district, order)).cloned().unwrap_or_default();
            candidates.retain(|&index| {
                matches!(&self.log.commits[index].1, Effect::NewOrder { customer, entered, lines, .. }
                    if (*customer, *entered, *lines) == (customer_found, entered_found, count_found))
            });
            if !self.claim(&candidates) {
                self.violation(ViolationKind::Extra, name());
            }
            let lines = row.id(4)?;
            if lines != count_found {
                self.violation(ViolationKind::Torn, format!("{}: it has {lines} lines", name()));
            }
            Ok(())
        })?;
        Ok(())
    }

    fn deliveries(
        &mut self,
        transaction: &mut Transaction<'_>,
        (warehouse, district): (u32, u32),
        start: DistrictStart,
    ) -> Result<()> {
        let parameters = [warehouse.into(), district.into(), start.first_undelivered.into()];
        transaction.query(DELIVERED_SINCE, &parameters, &mut |row| {
            let (order, carrier_found) = (row.id(0)?, row.id(1)?);
            let mut candidates =
                self.delivered.get(&(warehouse, district, order)).cloned().unwrap_or_default();
            candidates.retain(|&index| {
                matches!(&self.log.commits[index].1,
                    Effect::Delivery { carrier, .. } if *carrier == carrier_found)
            });
            if !self.claim(&candidates) {
                let what = format!(
                    "delivery of order {order} of district {district} of warehouse {warehouse} by carrier \
                     {carrier_found}"
                );
                self.violation(ViolationKind::Extra, what);
            }
            Ok(())
        })?;
        Ok(())
    }

    fn payments(&mut self, transaction: &mut Transaction<'_>) -> Result<()> {
        let prefix = format!("{:x}.", self.log.run_id);
        transaction.query(HISTORY_ALL, &[], &mut |row| {
            let tag = row.text(0)?.trim_end();
            if !is_tag(tag, &prefix) {
                return Ok(());
            }
            let found = (row.id(1)?, row.id(2)?, row.id(3)?, row.id(4)?, row.id(5)?, row.int(6)?);
            let candidate = self.paid.get(tag).copied().filter(|&index| {
                matches!(&self.log.commits[index].1,
                    Effect::Payment {
                        warehouse, district, customer_warehouse, customer_district, customer, amount, ..
                    } if (*warehouse, *district, *customer_warehouse, *customer_district, *customer, *amount)
                        == found)
            });
            match candidate {
                Some(index) => self.found[index].pieces += 1,
                None => self.violation(ViolationKind::Extra, format!("payment {tag}: {found:?}")),
            }
            Ok(())
        })?;
        Ok(())
    }

    fn finish(mut self) -> AcknowledgementReport {
        let log = self.log;
        let mut in_doubt_present = 0;
        for (index, (id, effect, standing)) in log.commits.iter().enumerate() {
            let whole = match effect {
                Effect::Delivery { orders, .. } => orders.len(),
                _ => 1,
            };
            let pieces = self.found[index].pieces;
            let what = || describe(log.run_id, *id, effect);
            match standing {
                Standing::Withdrawn => {}
                _ if pieces > whole => self.violation(ViolationKind::Extra, format!("twice: {}", what())),
                _ if pieces > 0 && pieces < whole => {
                    self.violation(ViolationKind::Torn, format!("{pieces} of {whole} orders of {}", what()))
                }
                Standing::Acknowledged if pieces == 0 => self.violation(ViolationKind::Missing, what()),
                Standing::InDoubt if pieces == whole => in_doubt_present += 1,
                _ => {}
            }
        }
        AcknowledgementReport {
            acknowledged: log.acknowledged(),
            in_doubt: log.in_doubt(),
            in_doubt_present,
            violations: self.violations,
        }
    }
}

/// Loaded history rows hold random letters, full stops among them, so the whole form is checked: three
/// hexadecimal numbers with the run's in front. That a random text of twelve letters and more has it is out
/// of the question.
fn is_tag(text: &str, prefix: &str) -> bool {
    let hexadecimal = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    text.strip_prefix(prefix)
        .and_then(|rest| rest.split_once('.'))
        .is_some_and(|(client, sequence)| hexadecimal(client) && hexadecimal(sequence))
}

fn describe(run_id: u32, id: CommitId, effect: &Effect) -> String {
    format!("{effect:?} of client {}, sequence {}, tag {}", id.client, id.sequence, payment_tag(run_id, id))
}
