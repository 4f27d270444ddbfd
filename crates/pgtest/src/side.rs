//! Tables beside the ledger, and upkeep: what truncates, drops, rewrites and empties files while clients
//! work.
//!
//! One connection does all of it, so it knows what each table must hold; where a statement's outcome is in
//! doubt, either of two contents. A row is made of its generation and number alone, and generations are never
//! used twice: a page that returns from before a truncation or a drop shows as rows of another generation.
//!
//! With `full_page_writes` off and `wal_consistency_checking` on, files are neither dropped nor cut: an
//! unmodified server cannot replay that. It compares a block of a file that is gone by then, made up of
//! zeros, with the image in the log, and gives up with "invalid page pd_lower 0".

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use postgres::Client;

use crate::failure::{Checked, Failure, demand, words};
use crate::load::{Meaning, Shared};
use crate::random::Random;

const TABLES: usize = 3;

/// A table that exists from the start, is emptied by a crash, and is otherwise never truncated.
pub(crate) const SCHEMA: &str = "
    CREATE UNLOGGED TABLE fleeting (n int PRIMARY KEY, filler text);
    CREATE INDEX fleeting_filler ON fleeting (filler);";

/// Rows of one generation: those numbered 1 to `rows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    generation: i64,
    rows: i64,
}

/// What a table holds; `None` if there is no such table.
type Content = Option<Vec<Part>>;

/// What the tables beside the ledger hold at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    tables: [Content; TABLES],
    /// A change whose outcome is in doubt: the table, and what it would hold.
    in_doubt: Option<(usize, Content)>,
    generation: i64,
}

/// What is known of the tables beside the ledger. It may be asked while they are being changed.
#[derive(Debug, Default)]
pub(crate) struct Side {
    known: Mutex<Contents>,
    /// Files are neither dropped nor cut.
    keeps_files: bool,
}

/// A change of a table: its SQL and what the table holds after it.
struct Change {
    sql: String,
    content: Content,
}

fn insert(table: usize, part: Part) -> String {
    let Part { generation, rows } = part;
    format!(
        "INSERT INTO side{table} SELECT {generation}, n, repeat(md5('{generation}:' || n), 8) FROM generate_series(1, {rows}) n;"
    )
}

fn create(table: usize, kind: &str) -> String {
    format!("CREATE {kind} TABLE side{table} (generation bigint, n int, filler text);")
}

impl Side {
    /// At the beginning of a life.
    pub(crate) fn new(keeps_files: bool) -> Self {
        Self { keeps_files, ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known at this moment.
    pub(crate) fn contents(&self) -> Contents {
        self.lock().clone()
    }

    /// The tables went back to a moment at which this was known.
    pub(crate) fn go_back(&self, contents: &Contents) {
        *self.lock() = contents.clone();
    }

    fn new_part(&self, random: &mut Random) -> Part {
        let mut known = self.lock();
        known.generation += 1;
        Part { generation: known.generation, rows: 20 + random.below(400) as i64 }
    }

    /// Draws a change of a table.
    fn draw(&self, table: usize, random: &mut Random) -> Change {
        let part = self.new_part(random);
        let fill = insert(table, part);
        let Some(content) = self.lock().tables[table].clone() else {
            return Change { sql: create(table, "") + &fill, content: Some(vec![part]) };
        };
        let kind = if self.keeps_files { 4 + random.below(2) } else { random.below(6) };
        match kind {
            0 => Change { sql: format!("TRUNCATE side{table}; {fill}"), content: Some(vec![part]) },
            1 => Change {
                sql: format!("DROP TABLE side{table}; {}{fill}", create(table, "")),
                content: Some(vec![part]),
            },
            // The whole table goes through the log when it becomes permanent.
            2 => Change {
                sql: format!(
                    "DROP TABLE side{table}; {}{fill} ALTER TABLE side{table} SET LOGGED;",
                    create(table, "UNLOGGED")
                ),
                content: Some(vec![part]),
            },
            3 => Change { sql: format!("DROP TABLE side{table};"), content: None },
            // What is left lies at the beginning of each generation, so that vacuum cuts off the file's end.
            4 => {
                let keep = random.below(40) as i64;
                let cut = |part: &Part| Part { rows: part.rows.min(keep), ..*part };
                let content = content.iter().map(cut).filter(|part| part.rows > 0).collect();
                Change { sql: format!("DELETE FROM side{table} WHERE n > {keep};"), content: Some(content) }
            }
            _ => Change { sql: fill, content: Some(content.into_iter().chain([part]).collect()) },
        }
    }

    /// Makes one change in one transaction. False if the server is gone.
    fn change(&self, db: &mut Client, random: &mut Random, shared: &Shared) -> Checked<bool> {
        let table = random.below(TABLES as u64) as usize;
        let Change { sql, content } = self.draw(table, random);
        self.lock().in_doubt = Some((table, content.clone()));
        match db.batch_execute(&format!("BEGIN; {sql} COMMIT")) {
            Ok(()) => {
                let mut known = self.lock();
                known.tables[table] = content;
                known.in_doubt = None;
                Ok(true)
            }
            Err(error) if shared.meaning(&error) == Meaning::Gone => Ok(false),
            Err(error) if shared.meaning(&error) == Meaning::Again => {
                self.lock().in_doubt = None;
                Ok(db.batch_execute("ROLLBACK").is_ok())
            }
            Err(error) => Err(Failure(format!("{sql} failed: {}", words(&error)))),
        }
    }

    /// Works until the server is gone.
    pub(crate) fn run(&self, mut db: Client, mut random: Random, shared: &Shared) -> Checked {
        if db.batch_execute("SET lock_timeout = '1s'").is_err() {
            return Ok(());
        }
        while !shared.leave.load(Ordering::Relaxed) {
            let going = match random.below(5) {
                0 | 1 => self.change(&mut db, &mut random, shared)?,
                _ => self.upkeep(&mut db, &mut random, shared)?,
            };
            if !going {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(random.below(15)));
        }
        Ok(())
    }

    /// One statement that leaves all contents as they are. False if the server is gone.
    fn upkeep(&self, db: &mut Client, random: &mut Random, shared: &Shared) -> Checked<bool> {
        let number = random.below(TABLES as u64) as usize;
        let side = self.lock().tables[number].as_ref().map(|_| format!("side{number}"));
        let rewrite = if self.keeps_files { None } else { rewriting(side.as_deref(), random) };
        let statement = rewrite.unwrap_or_else(|| keeping(side.as_deref(), self.keeps_files, random));
        match db.batch_execute(&statement) {
            Ok(()) => Ok(true),
            Err(error) if shared.meaning(&error) == Meaning::Gone => Ok(false),
            Err(error) if shared.meaning(&error) == Meaning::Again || is_expected(&error) => Ok(true),
            Err(error) => Err(Failure(format!("{statement} failed: {}", words(&error)))),
        }
    }

    /// Checks that each table holds what it should, and settles what was in doubt.
    pub(crate) fn check(&self, db: &mut Client) -> Checked {
        let mut known = self.lock();
        for table in 0..TABLES {
            let found = content(db, table)?;
            let doubt =
                known.in_doubt.clone().filter(|(number, _)| *number == table).map(|(_, content)| content);
            demand(found == known.tables[table] || Some(&found) == doubt.as_ref(), || {
                let or = doubt.map_or(String::new(), |content| format!(", or in doubt {content:?}"));
                format!("table side{table} holds {found:?} instead of {:?}{or}", known.tables[table])
            })?;
            known.tables[table] = found;
        }
        known.in_doubt = None;
        Ok(())
    }
}

/// Upkeep that makes new files and drops old ones, in half of the cases.
fn rewriting(side: Option<&str>, random: &mut Random) -> Option<String> {
    let fixed = match random.below(20) {
        0 => "VACUUM FULL account",
        1 => "REINDEX INDEX ledger_a",
        2 => "REINDEX INDEX CONCURRENTLY ledger_b",
        3 => "REINDEX TABLE account",
        4 => "DROP INDEX IF EXISTS ledger_more",
        5 if random.below(2) == 0 => "DROP DATABASE IF EXISTS beside WITH (FORCE)",
        6 => return side.map(|side| format!("DROP INDEX IF EXISTS {side}_n")),
        7 => return side.map(|side| format!("VACUUM FULL {side}")),
        8 => return side.map(|side| format!("REINDEX TABLE {side}")),
        _ => return None,
    };
    Some(fixed.to_owned())
}

/// Upkeep that changes files where they are.
fn keeping(side: Option<&str>, uncut: bool, random: &mut Random) -> String {
    let vacuum = if uncut { "VACUUM (TRUNCATE false)" } else { "VACUUM" };
    match (random.below(16), side) {
        (0..=2, _) => format!("{vacuum} ledger"),
        (3 | 4, _) => format!("{vacuum} account"),
        (5, _) => "VACUUM (FREEZE, TRUNCATE false) ledger".into(),
        (6, _) => "CREATE INDEX IF NOT EXISTS ledger_more ON ledger (amount, client, seq)".into(),
        (7, _) => "CHECKPOINT".into(),
        (8 | 9, _) => {
            let first = random.below(1_000_000);
            format!(
                "INSERT INTO fleeting SELECT {first} + n, md5(n::text) FROM generate_series(1, 300) n ON CONFLICT DO NOTHING"
            )
        }
        (10, _) if random.below(3) == 0 => {
            let strategy = random.of(&["file_copy", "wal_log"]);
            format!("CREATE DATABASE beside TEMPLATE template0 STRATEGY {strategy}")
        }
        (11, _) => format!("{vacuum} pg_catalog.pg_attribute"),
        (12, Some(side)) => format!("CREATE INDEX IF NOT EXISTS {side}_n ON {side} (n, generation)"),
        (_, Some(side)) => format!("{vacuum} {side}"),
        (_, None) => format!("{vacuum} pg_catalog.pg_class"),
    }
}

/// Errors that have nothing to do with what is tested: a database or an index that is there already, or half
/// made.
fn is_expected(error: &postgres::Error) -> bool {
    error.code().is_some_and(|code| ["42P04", "42P07", "55006", "3D000"].contains(&code.code()))
}

/// What a table holds, with every byte of its rows compared.
fn content(db: &mut Client, table: usize) -> Checked<Content> {
    let name = format!("side{table}");
    if db.query_one("SELECT to_regclass($1) IS NULL", &[&name])?.try_get(0)? {
        return Ok(None);
    }
    let sql = format!(
        "SELECT generation, count(*), max(n)::bigint, count(DISTINCT n),
                bool_and(filler = repeat(md5(generation || ':' || n), 8))
         FROM {name} GROUP BY generation ORDER BY generation"
    );
    let mut parts = Vec::new();
    for row in db.query(&sql, &[])? {
        let (generation, count, max, distinct): (i64, i64, i64, i64) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        demand(count == max && count == distinct && row.try_get(4)?, || {
            format!("{name}: rows of generation {generation} are missing, twice there or changed")
        })?;
        parts.push(Part { generation, rows: count });
    }
    Ok(Some(parts))
}

/// After a crash an unlogged table is empty, by its file and by its indexes, and can be used.
pub(crate) fn check_unlogged(db: &mut Client, crashed: bool) -> Checked {
    let through = |db: &mut Client, settings: &str| -> Checked<i64> {
        db.batch_execute(settings)?;
        Ok(db.query_one("SELECT count(*) FROM fleeting WHERE n IS NOT NULL", &[])?.try_get(0)?)
    };
    let rows =
        through(db, "SET enable_seqscan = on; SET enable_indexonlyscan = off; SET enable_bitmapscan = off")?;
    let listed = through(db, "SET enable_seqscan = off; SET enable_indexonlyscan = on")?;
    db.batch_execute("RESET ALL")?;
    demand(rows == listed && (!crashed || rows == 0), || {
        format!("the unlogged table has {rows} rows, its index {listed}, after a crash: {crashed}")
    })
}

/// The other database, if there is one, can be connected to and read.
pub(crate) fn is_beside(db: &mut Client) -> Checked<bool> {
    let sql = "SELECT count(*) > 0 FROM pg_database WHERE datname = 'beside' AND datconnlimit <> -2";
    Ok(db.query_one(sql, &[])?.try_get(0)?)
}

/// The other database's catalogs are whole.
pub(crate) fn check_beside(db: &mut Client) -> Checked {
    let sql = "SELECT (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_attribute), (SELECT sum(length(prosrc)) FROM pg_proc)";
    let (relations, columns): (i64, i64) = {
        let row = db.query_one(sql, &[])?;
        (row.try_get(0)?, row.try_get(1)?)
    };
    demand(relations > 300 && columns > 2_000, || {
        format!("the database that was created beside has {relations} relations and {columns} columns")
    })
}

/// The directories of all databases that there are.
pub(crate) fn databases(db: &mut Client) -> Checked<Vec<String>> {
    let rows = db.query("SELECT oid::text FROM pg_database", &[])?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}
