//! The oracle of log positions: every block that the log names has at least the version of its newest record.
//!
//! Checksums are blind to a page that is whole but old; this is not. The log is retained, and for each block
//! the end of the newest record that names it is remembered over the crashes of a life. After recovery every
//! such block is read, through the tier, and its position compared. Rules:
//! 1. A hint's record (`FPI_FOR_HINT`) demands nothing. Without a page image (`full_page_writes` is off, or
//!    the page was logged since the last checkpoint) it replays to nothing. With one, it says what the page
//!    already was: if the buffer is on its way to its file while the hint is set, it is dirty already, and
//!    then `MarkBufferDirtyHint` logs the image and leaves the position alone.
//! 2. Where vacuum notes that a page is visible to all (`VISIBLE`), the heap's page (reference 1) may stay
//!    clean, though its position in memory moves. It demands nothing; the map's does.
//! 3. A truncation ends what was demanded of the blocks behind it. The forks of free space and visibility are
//!    cut at places that follow from it; their blocks may be absent afterwards.
//! 4. A relation file that the catalogs no longer name was dropped, and so was what was demanded of it.
//!    Whether it should have been dropped is for the ledger to say.
//! 5. Unlogged relations have no records but for their init forks, whose blocks are demanded like any other.
//! 6. Other databases than the connection's are left out.
//! 7. An index that is not ready (`indisready`) was being built concurrently when the server was killed.
//!    Nobody reads or changes it, and it is never made ready any more. Its pages are logged before they are
//!    written, many at once and past shared buffers; so a checkpoint between the two leaves pages that are
//!    neither in the file nor logged behind the redo pointer. They demand nothing.

use std::collections::HashMap;

use postgres::Client;

use crate::failure::{Checked, Failure, demand};

const FORKS: [&str; 4] = ["main", "fsm", "vm", "init"];

/// A fork of a relation file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Fork {
    /// The database, 0 for what all share.
    database: u32,
    relfilenode: u32,
    fork: i16,
}

/// What is demanded of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Demand {
    /// The end of its newest record, which its page has as its position.
    position: u64,
    /// The file may have been cut before it.
    may_be_absent: bool,
}

/// A relation file was cut.
#[derive(Debug, Clone, Copy)]
struct Truncation {
    at: u64,
    relfilenode: u32,
    blocks: i64,
}

/// What the log of a life demands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Oracle {
    /// Where reading goes on, as text.
    read_to: Option<String>,
    demands: HashMap<Fork, HashMap<i64, Demand>>,
}

impl Oracle {
    /// Begins here: what is before was not written by this life.
    pub(crate) fn begin(&mut self, db: &mut Client) -> Checked {
        self.read_to = Some(db.query_one("SELECT pg_current_wal_flush_lsn()::text", &[])?.try_get(0)?);
        Ok(())
    }

    /// Reads the log written since the last call, and checks every block that it has ever named. Returns how
    /// many.
    pub(crate) fn check(&mut self, db: &mut Client) -> Checked<u64> {
        // What checking itself writes must not move while it is read.
        let end: String = db.query_one("SELECT pg_current_wal_flush_lsn()::text", &[])?.try_get(0)?;
        let begin =
            self.read_to.replace(end.clone()).ok_or_else(|| Failure("the oracle has no beginning".into()))?;
        if begin != end {
            self.read_blocks(db, &begin, &end)?;
            for truncation in read_truncations(db, &begin, &end)? {
                self.truncate(&truncation);
            }
        }
        self.compare(db)
    }

    fn read_blocks(&mut self, db: &mut Client, begin: &str, end: &str) -> Checked {
        let sql = format!(
            "SELECT reldatabase::bigint, relfilenode::bigint, relforknumber, relblocknumber,
                    (max(end_lsn) - '0/0'::pg_lsn)::bigint
             FROM pg_get_wal_block_info('{begin}', '{end}', false)
             WHERE record_type <> 'FPI_FOR_HINT'
               AND NOT (record_type = 'VISIBLE' AND block_id = 1)
               AND reldatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
             GROUP BY 1, 2, 3, 4"
        );
        for row in db.query(&sql, &[])? {
            let fork = Fork {
                database: row.try_get::<_, i64>(0)? as u32,
                relfilenode: row.try_get::<_, i64>(1)? as u32,
                fork: row.try_get(2)?,
            };
            let position = row.try_get::<_, i64>(4)? as u64;
            self.note(fork, row.try_get(3)?, position);
        }
        Ok(())
    }

    fn note(&mut self, fork: Fork, block: i64, position: u64) {
        let demands = self.demands.entry(fork).or_default();
        if demands.get(&block).is_none_or(|before| before.position < position) {
            demands.insert(block, Demand { position, may_be_absent: false });
        }
    }

    fn truncate(&mut self, truncation: &Truncation) {
        for (fork, demands) in &mut self.demands {
            if fork.relfilenode != truncation.relfilenode {
                continue;
            }
            match fork.fork {
                0 => demands
                    .retain(|block, demand| *block < truncation.blocks || demand.position > truncation.at),
                1 | 2 => {
                    let cut = demands.values_mut().filter(|demand| demand.position <= truncation.at);
                    cut.for_each(|demand| demand.may_be_absent = true);
                }
                _ => {}
            }
        }
    }

    /// Compares all pages that are there with what is demanded.
    fn compare(&mut self, db: &mut Client) -> Checked<u64> {
        let relations = read_relations(db)?;
        self.demands.retain(|fork, _| relations.contains_key(&(fork.database, fork.relfilenode)));
        let mut compared = 0;
        for (fork, demands) in &self.demands {
            let (name, oid) = &relations[&(fork.database, fork.relfilenode)];
            let found = read_positions(db, *oid, FORKS[fork.fork as usize], demands)?;
            for (block, demand) in demands {
                judge(*demand, found.get(block).copied()).map_err(|Failure(what)| {
                    Failure(format!("{name}, {}, block {block}: {what}", FORKS[fork.fork as usize]))
                })?;
            }
            compared += demands.len() as u64;
        }
        Ok(compared)
    }
}

/// Compares one page with what is demanded of it.
fn judge(demand: Demand, found: Option<u64>) -> Checked {
    let show = |position: u64| format!("{:X}/{:X}", position >> 32, position as u32);
    match found {
        None if demand.may_be_absent => Ok(()),
        None => Err(Failure(format!("not there, and the log changed it at {}", show(demand.position)))),
        Some(found) if found >= demand.position => Ok(()),
        Some(found) => Err(Failure(format!(
            "stale: it has position {}, and the log changed it at {}",
            show(found),
            show(demand.position)
        ))),
    }
}

/// Truncations in a part of the log, in its order.
fn read_truncations(db: &mut Client, begin: &str, end: &str) -> Checked<Vec<Truncation>> {
    let sql = format!(
        "SELECT (end_lsn - '0/0'::pg_lsn)::bigint, description FROM pg_get_wal_records_info('{begin}', '{end}')
         WHERE resource_manager = 'Storage' AND record_type = 'TRUNCATE'"
    );
    let mut truncations = Vec::new();
    for row in db.query(&sql, &[])? {
        let description: String = row.try_get(1)?;
        let (relfilenode, blocks) = parse_truncation(&description)
            .ok_or_else(|| Failure(format!("a truncation that makes no sense: {description}")))?;
        truncations.push(Truncation { at: row.try_get::<_, i64>(0)? as u64, relfilenode, blocks });
    }
    Ok(truncations)
}

/// Reads "base/5/16384 to 12 blocks flags 7".
fn parse_truncation(description: &str) -> Option<(u32, i64)> {
    let (path, rest) = description.split_once(" to ")?;
    let relfilenode = path.rsplit('/').next()?.parse().ok()?;
    Some((relfilenode, rest.split(' ').next()?.parse().ok()?))
}

/// Names and numbers of relations by database and file.
fn read_relations(db: &mut Client) -> Checked<HashMap<(u32, u32), (String, u32)>> {
    let sql = "SELECT CASE WHEN relisshared THEN 0::oid ELSE (SELECT oid FROM pg_database WHERE datname = current_database()) END,
                      pg_relation_filenode(oid), oid::regclass::text, oid
               FROM pg_class WHERE pg_relation_filenode(oid) IS NOT NULL
               AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = pg_class.oid AND NOT indisready)";
    let mut relations = HashMap::new();
    for row in db.query(sql, &[])? {
        relations.insert((row.try_get(0)?, row.try_get(1)?), (row.try_get(2)?, row.try_get(3)?));
    }
    Ok(relations)
}

/// The positions of those blocks of a fork that are there.
fn read_positions(
    db: &mut Client,
    oid: u32,
    fork: &str,
    demands: &HashMap<i64, Demand>,
) -> Checked<HashMap<i64, u64>> {
    let blocks: Vec<i64> = demands.keys().copied().collect();
    // A fork that does not exist has no size.
    let sql = format!(
        "SELECT b, ((page_header(get_raw_page(oid::regclass::text, '{fork}', b))).lsn - '0/0'::pg_lsn)::bigint
         FROM unnest($1::bigint[]) b, pg_class WHERE oid = $2 AND b < coalesce(pg_relation_size(oid, '{fork}'), 0) / 8192"
    );
    let mut positions = HashMap::new();
    for row in db.query(&sql, &[&blocks, &oid])? {
        positions.insert(row.try_get(0)?, row.try_get::<_, i64>(1)? as u64);
    }
    demand(positions.len() <= demands.len(), || format!("relation {oid} has a block twice"))?;
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: Fork = Fork { database: 5, relfilenode: 16_384, fork: 0 };
    const MAP: Fork = Fork { fork: 2, ..MAIN };

    #[test]
    fn an_old_page_and_a_missing_one_are_noticed() {
        let demand = Demand { position: 100, may_be_absent: false };
        assert!(judge(demand, Some(100)).is_ok());
        assert!(judge(demand, Some(99)).is_err());
        assert!(judge(demand, Some(0)).is_err());
        assert!(judge(demand, None).is_err());
        assert!(judge(Demand { may_be_absent: true, ..demand }, None).is_ok());
        assert!(judge(Demand { may_be_absent: true, ..demand }, Some(99)).is_err());
    }

    #[test]
    fn a_truncation_ends_the_demands_before_it_behind_it() {
        let mut oracle = Oracle::default();
        for (block, position) in [(3, 10), (4, 20), (5, 90)] {
            oracle.note(MAIN, block, position);
        }
        oracle.note(MAP, 0, 20);
        oracle.note(MAIN, 3, 5);
        oracle.truncate(&Truncation { at: 50, relfilenode: MAIN.relfilenode, blocks: 4 });
        let left = &oracle.demands[&MAIN];
        assert_eq!(left.get(&3), Some(&Demand { position: 10, may_be_absent: false }));
        assert_eq!(left.get(&4), None, "cut off");
        assert_eq!(left.get(&5).map(|demand| demand.position), Some(90), "written anew afterwards");
        assert!(oracle.demands[&MAP][&0].may_be_absent);
    }

    #[test]
    fn descriptions_of_truncations_are_read() {
        assert_eq!(parse_truncation("base/5/16384 to 12 blocks flags 7"), Some((16_384, 12)));
        assert_eq!(parse_truncation("pg_tblspc/1/PG_17/5/77 to 0 blocks flags 1"), Some((77, 0)));
        assert_eq!(parse_truncation("something else"), None);
    }
}
