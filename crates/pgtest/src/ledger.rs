//! Checks the ledger against the journal, and accounts against the ledger.

use std::collections::HashMap;

use postgres::{Client, Row};

use crate::failure::{Checked, Failure, demand};
use crate::journal::{Known, Transfer};
use crate::load::{ACCOUNTS, OPENING_BALANCE, filler};

/// A change of one account, as the ledger has it.
#[derive(Debug, Clone, Copy)]
struct Movement {
    account: i32,
    version: i32,
    by: i64,
}

/// An account's state.
#[derive(Debug, Clone, Copy)]
struct Account {
    id: i32,
    version: i32,
    balance: i64,
}

/// What the check found.
pub(crate) struct Found {
    /// Commits that had been in doubt, and whether they are there.
    pub(crate) settled: Vec<(Transfer, bool)>,
    /// The version of each account.
    pub(crate) versions: Vec<(i32, i32)>,
}

/// Reads everything from the tables, then from the indexes alone, and checks both.
pub(crate) fn check(db: &mut Client, known: &HashMap<i32, Known>) -> Checked<Found> {
    db.batch_execute(
        "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_seqscan = on",
    )?;
    let rows = read_ledger(db)?;
    let settled = check_commits(known, &rows)?;
    let movements: Vec<Movement> = rows.iter().flat_map(movements_of).collect();
    let accounts = read_accounts(db)?;
    check_versions(&movements, &accounts)?;
    check_by_indexes(db, rows.len())?;
    db.batch_execute("RESET ALL")?;
    Ok(Found { settled, versions: accounts.iter().map(|account| (account.id, account.version)).collect() })
}

/// All transfers; each has the bytes that were written.
fn read_ledger(db: &mut Client) -> Checked<Vec<Transfer>> {
    let mut transfers = Vec::new();
    for row in db.query("SELECT client, seq, a, b, amount, ver_a, ver_b, filler FROM ledger", &[])? {
        let transfer = Transfer {
            client: row.try_get(0)?,
            seq: row.try_get(1)?,
            from: row.try_get(2)?,
            to: row.try_get(3)?,
            amount: row.try_get(4)?,
            versions: (row.try_get(5)?, row.try_get(6)?),
        };
        let Transfer { client, seq, .. } = transfer;
        demand(row.try_get::<_, &[u8]>(7)? == filler(client, seq), || {
            format!("client {client}: commit {seq} does not hold the bytes that were written")
        })?;
        transfers.push(transfer);
    }
    Ok(transfers)
}

fn movements_of(t: &Transfer) -> [Movement; 2] {
    [
        Movement { account: t.from, version: t.versions.0, by: -t.amount },
        Movement { account: t.to, version: t.versions.1, by: t.amount },
    ]
}

fn read_accounts(db: &mut Client) -> Checked<Vec<Account>> {
    let account = |row: &Row| -> Result<Account, postgres::Error> {
        Ok(Account { id: row.try_get(0)?, version: row.try_get(1)?, balance: row.try_get(2)? })
    };
    let rows = db.query("SELECT id, ver, balance FROM account WHERE id > 0", &[])?;
    Ok(rows.iter().map(account).collect::<Result<_, _>>()?)
}

/// Every acknowledged commit is there as it was; of one in doubt all or nothing; nothing else is.
fn check_commits(known: &HashMap<i32, Known>, rows: &[Transfer]) -> Checked<Vec<(Transfer, bool)>> {
    let mut found: HashMap<(i32, i32), &Transfer> = HashMap::new();
    for row in rows {
        demand(found.insert((row.client, row.seq), row).is_none(), || {
            format!("client {}: commit {} is there twice", row.client, row.seq)
        })?;
    }
    let mut settled = Vec::new();
    for (number, client) in known {
        for expected in &client.acknowledged {
            let row = found.remove(&(*number, expected.seq));
            demand(row == Some(expected), || match row {
                None => {
                    let last = client.acknowledged.last().map_or(0, |last| last.seq);
                    format!(
                        "client {number}: acknowledged commit {} is lost (the last acknowledged: {last})",
                        expected.seq
                    )
                }
                Some(row) => format!("client {number}: {expected:?} was acknowledged, {row:?} is there"),
            })?;
        }
        if let Some(doubt) = &client.in_doubt {
            let row = found.remove(&(*number, doubt.seq));
            demand(row.is_none_or(|row| row == doubt), || {
                format!("client {number}: {doubt:?} was in doubt, {row:?} is there")
            })?;
            settled.push((*doubt, row.is_some()));
        }
    }
    match found.values().next() {
        None => Ok(settled),
        Some(extra) => Err(Failure(format!("a row that nobody committed: {extra:?}"))),
    }
}

/// Versions are exactly 1 to the account's own, and balances what the movements make.
fn check_versions(movements: &[Movement], accounts: &[Account]) -> Checked {
    let mut of_account: HashMap<i32, (Vec<i32>, i64)> = HashMap::new();
    for movement in movements {
        let (versions, balance) = of_account.entry(movement.account).or_default();
        versions.push(movement.version);
        *balance += movement.by;
    }
    for Account { id, version, balance } in accounts {
        let (mut versions, change) = of_account.remove(id).unwrap_or_default();
        versions.sort_unstable();
        demand(versions.iter().copied().eq(1..=*version), || {
            format!("account {id} has version {version}, and the ledger {}", gaps(&versions))
        })?;
        demand(*balance == OPENING_BALANCE + change, || {
            format!("account {id} has {balance}, and the ledger {}", OPENING_BALANCE + change)
        })?;
    }
    demand(of_account.is_empty(), || {
        format!("accounts in the ledger that are not there: {:?}", of_account.keys())
    })?;
    let sum: i64 = accounts.iter().map(|account| account.balance).sum();
    demand(accounts.len() == ACCOUNTS as usize && sum == OPENING_BALANCE * i64::from(ACCOUNTS), || {
        format!("{} accounts with {sum} in all", accounts.len())
    })
}

/// Sorted versions in few words.
fn gaps(versions: &[i32]) -> String {
    let odd = versions.windows(2).find(|pair| pair[1] != pair[0] + 1);
    let ends = (versions.first(), versions.last());
    format!("{} of them, {ends:?}, first break {odd:?}", versions.len())
}

/// The same from indexes alone.
fn check_by_indexes(db: &mut Client, rows: usize) -> Checked {
    db.batch_execute("SET enable_seqscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = on")?;
    let mut movements = Vec::new();
    for (side, sign) in [("a", -1), ("b", 1)] {
        let sql = format!("SELECT {side}, ver_{side}, amount FROM ledger WHERE {side} > 0");
        demand_index_only(db, &sql)?;
        for row in db.query(&sql, &[])? {
            let by: i64 = row.try_get(2)?;
            movements.push(Movement { account: row.try_get(0)?, version: row.try_get(1)?, by: by * sign });
        }
    }
    demand_index_only(db, "SELECT id, ver, balance FROM account WHERE id > 0")?;
    check_versions(&movements, &read_accounts(db)?)
        .map_err(|Failure(what)| Failure(format!("by the indexes: {what}")))?;
    let sql = "SELECT client, seq FROM ledger WHERE client > 0";
    demand_index_only(db, sql)?;
    let keys = db.query(sql, &[])?.len();
    demand(keys == rows, || format!("the ledger has {rows} rows, and its unique index {keys}"))
}

/// A query that reads the table would check what was checked before.
fn demand_index_only(db: &mut Client, sql: &str) -> Checked {
    let rows = db.query(&format!("EXPLAIN (COSTS OFF) {sql}"), &[])?;
    let plan: String = rows.first().map_or(Ok(String::new()), |row| row.try_get(0))?;
    demand(plan.starts_with("Index Only Scan using "), || {
        format!("the plan for \"{sql}\" does not read an index alone: {plan}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(client: i32, seq: i32, versions: (i32, i32)) -> Transfer {
        Transfer { client, seq, from: 1, to: 2, amount: 5, versions }
    }

    /// Two clients that know three commits and doubt a fourth.
    fn known() -> HashMap<i32, Known> {
        let one = Known {
            acknowledged: vec![transfer(1, 1, (1, 1)), transfer(1, 2, (3, 3))],
            in_doubt: Some(transfer(1, 3, (4, 4))),
        };
        let two = Known { acknowledged: vec![transfer(2, 1, (2, 2))], in_doubt: None };
        HashMap::from([(1, one), (2, two)])
    }

    fn rows() -> Vec<Transfer> {
        known().values().flat_map(|client| client.acknowledged.clone()).collect()
    }

    fn accounts(version: i32, change: i64) -> Vec<Account> {
        let opened = |id| Account { id, version: 0, balance: OPENING_BALANCE };
        let mut accounts: Vec<Account> = (1..=ACCOUNTS).map(opened).collect();
        accounts[0] = Account { id: 1, version, balance: OPENING_BALANCE - change };
        accounts[1] = Account { id: 2, version, balance: OPENING_BALANCE + change };
        accounts
    }

    #[test]
    fn what_is_acknowledged_or_in_doubt_is_accepted() {
        assert!(
            check_commits(&known(), &rows())
                .is_ok_and(|settled| settled == [(transfer(1, 3, (4, 4)), false)])
        );
        let more: Vec<Transfer> = rows().into_iter().chain([transfer(1, 3, (4, 4))]).collect();
        assert!(check_commits(&known(), &more).is_ok_and(|settled| settled[0].1));
    }

    #[test]
    fn a_commit_that_is_lost_changed_doubled_or_invented_is_noticed() {
        let lost = rows().into_iter().skip(1).collect::<Vec<_>>();
        let mut changed = rows();
        changed[0].amount += 1;
        let doubled: Vec<Transfer> = rows().into_iter().chain(rows().into_iter().take(1)).collect();
        let invented: Vec<Transfer> = rows().into_iter().chain([transfer(2, 2, (4, 4))]).collect();
        let in_doubt_changed: Vec<Transfer> = rows().into_iter().chain([transfer(1, 3, (4, 5))]).collect();
        for wrong in [lost, changed, doubled, invented, in_doubt_changed] {
            assert!(check_commits(&known(), &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_account_that_does_not_match_the_ledger_is_noticed() {
        let movements: Vec<Movement> = rows().iter().flat_map(movements_of).collect();
        assert!(check_versions(&movements, &accounts(3, 15)).is_ok());
        // A stale page of accounts, one with a lost update of the balance, one page zeroed.
        assert!(check_versions(&movements, &accounts(2, 10)).is_err());
        assert!(check_versions(&movements, &accounts(3, 10)).is_err());
        assert!(check_versions(&movements, &accounts(3, 15)[2..]).is_err());
        // A stale page of the ledger.
        assert!(check_versions(&movements[2..], &accounts(3, 15)).is_err());
    }
}
