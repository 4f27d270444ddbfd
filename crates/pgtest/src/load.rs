//! Clients that transfer between accounts until the server is gone.
//!
//! Each transfer changes two accounts, counts their versions, adds a row to the ledger, and writes into the
//! journal before the commit is sent and after it was acknowledged. Versions only grow: a client that is
//! given an older one than was acknowledged before it asked has been given a stale page.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use postgres::{Client, Statement};

use crate::failure::{Checked, Failure, demand, words};
use crate::histories::trouble;
use crate::journal::{Journal, Transfer};
use crate::log::LEFT_IN_COMMIT;
use crate::random::Random;

/// Accounts are 1 to this.
pub(crate) const ACCOUNTS: i32 = 3_000;
/// What each account has at first.
pub(crate) const OPENING_BALANCE: i64 = 1_000;

/// Tables of the ledger. Every index has what is needed to read the table's numbers from it alone.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE account (id int NOT NULL, ver int NOT NULL, balance bigint NOT NULL, filler text) WITH (fillfactor = 80);
    INSERT INTO account SELECT i, 0, 1000, repeat(md5(i::text), 16) FROM generate_series(1, 3000) i;
    ALTER TABLE account ADD PRIMARY KEY (id) INCLUDE (ver, balance);
    CREATE TABLE ledger (client int, seq int, a int, b int, amount bigint, ver_a int, ver_b int, filler bytea STORAGE EXTERNAL);
    CREATE UNIQUE INDEX ledger_key ON ledger (client, seq);
    CREATE INDEX ledger_a ON ledger (a, ver_a, amount);
    CREATE INDEX ledger_b ON ledger (b, ver_b, amount);";

/// Opening and number of accounts stand in the schema as literals.
const _: () = assert!(ACCOUNTS == 3_000 && OPENING_BALANCE == 1_000);

/// What every row of the ledger carries, so that another row's page is noticed. Every tenth is stored out of
/// line.
pub(crate) fn filler(client: i32, seq: i32) -> Vec<u8> {
    let mut random = Random::new(client as u64, seq as u64);
    let len = match random.below(10) {
        0 => 2_500 + random.below(20_000),
        _ => 60 + random.below(700),
    };
    (0..len).map(|_| random.next() as u8).collect()
}

/// What the clients of one life share.
pub(crate) struct Shared {
    pub(crate) journal: Journal,
    /// The newest version of each account that was acknowledged to somebody.
    pub(crate) versions: Vec<AtomicI32>,
    /// Clients leave off when this is set.
    pub(crate) leave: AtomicBool,
    /// Files are away or cannot grow, or were so a moment ago: statements may fail of that.
    pub(crate) trouble: AtomicBool,
}

impl Shared {
    /// At the beginning of a life.
    pub(crate) fn new(journal: Journal) -> Self {
        let versions = (0..=ACCOUNTS).map(|_| AtomicI32::new(0)).collect();
        Self { journal, versions, leave: AtomicBool::new(false), trouble: AtomicBool::new(false) }
    }
}

impl Shared {
    /// What an error means for a client.
    pub(crate) fn meaning(&self, error: &postgres::Error) -> Meaning {
        match meaning(error) {
            Meaning::Wrong if self.trouble.load(Ordering::Relaxed) && trouble::may_cause(error) => {
                Meaning::Again
            }
            meaning => meaning,
        }
    }
}

/// How an error of the server is taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The server is going away, or gone.
    Gone,
    /// Another transaction was in the way: try again.
    Again,
    /// This should not happen.
    Wrong,
}

/// Whether a process that finds its postmaster dead says this in place of that, as in any PostgreSQL. One
/// that leaves while it waits for a buffer still holds its pins, and what then tidies up after its CREATE
/// DATABASE meets them; for the other see [`LEFT_IN_COMMIT`]. The log says whether the server was being
/// killed.
fn leaves(severity: &str, message: &str) -> bool {
    match severity {
        "FATAL" => message == "buffer is pinned in InvalidateBuffer",
        "PANIC" => message.contains(LEFT_IN_COMMIT),
        _ => false,
    }
}

/// What an error means for a client of a server without trouble.
fn meaning(error: &postgres::Error) -> Meaning {
    if error.as_db_error().is_some_and(|said| leaves(said.severity(), said.message())) {
        return Meaning::Gone;
    }
    match error.code().map(|code| code.code()) {
        None => Meaning::Gone,
        Some(code) if code.starts_with("57P") || code.starts_with("08") => Meaning::Gone,
        // Serialisation, deadlock, lock timeout.
        Some(code) if code.starts_with("40") || code == "55P03" => Meaning::Again,
        Some(_) => Meaning::Wrong,
    }
}

/// A connection with what is prepared in it.
struct Session {
    db: Client,
    update: Statement,
    insert: Statement,
}

impl Session {
    fn new(mut db: Client) -> Result<Self, postgres::Error> {
        let update = "UPDATE account SET ver = ver + 1, balance = balance + $2 WHERE id = $1 RETURNING ver";
        let insert = "INSERT INTO ledger VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        Ok(Self { update: db.prepare(update)?, insert: db.prepare(insert)?, db })
    }
}

/// One client of a life, until the server is gone. Returns how many commits were acknowledged to it.
pub(crate) fn run(
    db: Client,
    client: i32,
    mut seq: i32,
    mut random: Random,
    shared: &Shared,
) -> Checked<u64> {
    let mut acknowledged = 0;
    let mut session = match Session::new(db) {
        Ok(session) => session,
        Err(error) => match shared.meaning(&error) {
            Meaning::Wrong => return Err(error.into()),
            Meaning::Gone | Meaning::Again => return Ok(0),
        },
    };
    while !shared.leave.load(Ordering::Relaxed) {
        match transfer(&mut session, client, seq + 1, &mut random, shared) {
            Ok(true) => {
                seq += 1;
                acknowledged += 1;
            }
            Ok(false) => {}
            Err(Stop::Gone) => break,
            Err(Stop::Failed(failure)) => return Err(failure),
        }
    }
    Ok(acknowledged)
}

enum Stop {
    Gone,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The account of one client's transfers is often one of a few, so that its page is changed again soon.
fn account(random: &mut Random) -> i32 {
    let among = if random.below(4) == 0 { 40 } else { ACCOUNTS as u64 };
    1 + random.below(among) as i32
}

/// One transfer. False if another transaction was in the way.
fn transfer(
    session: &mut Session,
    client: i32,
    seq: i32,
    random: &mut Random,
    shared: &Shared,
) -> Result<bool, Stop> {
    let from = account(random);
    let to = 1 + (from - 1 + 1 + random.below(ACCOUNTS as u64 - 1) as i32) % ACCOUNTS;
    let amount = random.below(50) as i64;
    let known = [from, to].map(|id| shared.versions[id as usize].load(Ordering::Acquire));
    let mut t = Transfer { client, seq, from, to, amount, versions: (0, 0) };
    if let Err(error) = change(session, &mut t) {
        return refused(session, error, "a transfer", shared);
    }
    for ((id, version), known) in [(from, t.versions.0), (to, t.versions.1)].into_iter().zip(known) {
        demand(version > known, || {
            format!("account {id} went back: a client made version {version} after {known} was acknowledged")
        })?;
    }
    shared.journal.doubt(&t)?;
    match session.db.batch_execute("COMMIT") {
        Ok(()) => shared.journal.done(&t)?,
        Err(error) if shared.meaning(&error) == Meaning::Gone => return Err(Stop::Gone),
        Err(error) => {
            shared.journal.refused(&t)?;
            return refused(session, error, "a commit", shared);
        }
    }
    for (id, version) in [(from, t.versions.0), (to, t.versions.1)] {
        shared.versions[id as usize].fetch_max(version, Ordering::AcqRel);
    }
    Ok(true)
}

/// Everything of a transfer but its commit.
fn change(session: &mut Session, t: &mut Transfer) -> Result<(), postgres::Error> {
    let Session { db, update, insert } = session;
    db.batch_execute("BEGIN")?;
    let mut update =
        |id: i32, by: i64| -> Result<i32, postgres::Error> { db.query_one(update, &[&id, &by])?.try_get(0) };
    // Always the lower account first: no two clients wait for each other.
    if t.from < t.to {
        t.versions.0 = update(t.from, -t.amount)?;
        t.versions.1 = update(t.to, t.amount)?;
    } else {
        t.versions.1 = update(t.to, t.amount)?;
        t.versions.0 = update(t.from, -t.amount)?;
    }
    let bytes = filler(t.client, t.seq);
    db.execute(
        insert,
        &[&t.client, &t.seq, &t.from, &t.to, &t.amount, &t.versions.0, &t.versions.1, &bytes],
    )?;
    Ok(())
}

fn refused(session: &mut Session, error: postgres::Error, what: &str, shared: &Shared) -> Result<bool, Stop> {
    match shared.meaning(&error) {
        Meaning::Gone => Err(Stop::Gone),
        Meaning::Wrong => Err(Stop::Failed(Failure(format!("{what} failed: {}", words(&error))))),
        Meaning::Again => match session.db.batch_execute("ROLLBACK") {
            Ok(()) => Ok(false),
            Err(_) => Err(Stop::Gone),
        },
    }
}
