//! What each block of a table holds, so that one that is lost does not hide the others.

use std::collections::BTreeMap;

use postgres::{Client, Row};

use crate::failure::{Checked, Failure, words};

/// Bytes of a block: the server is built with PostgreSQL's default.
const BLOCK: i64 = 8192;

/// By table and block: a digest of the rows that are seen there, or `None` if the block is lost.
pub(super) type Blocks = BTreeMap<(String, i64), Option<String>>;

/// Reads the tables of the load, and what they store out of line, block by block. An error that `excused`
/// accepts costs the block that it came up in.
pub(super) fn read(db: &mut Client, excused: &dyn Fn(&postgres::Error) -> bool) -> Checked<Blocks> {
    db.batch_execute(
        "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_tidscan = on",
    )?;
    let sql = "SELECT c.oid::regclass::text, pg_relation_size(c.oid), c.relkind = 't'
               FROM pg_class c WHERE c.relkind IN ('r', 't') AND c.relpersistence = 'p' AND c.oid >= 16384 ORDER BY 1";
    let tables: Vec<Row> = match db.query(sql, &[]) {
        Ok(rows) => rows,
        Err(error) if excused(&error) => return Ok(Blocks::new()),
        Err(error) => return Err(error.into()),
    };
    let mut blocks = Blocks::new();
    for table in &tables {
        let (name, bytes, out_of_line): (String, i64, bool) =
            (table.try_get(0)?, table.try_get(1)?, table.try_get(2)?);
        let columns = match name.as_str() {
            _ if out_of_line => "chunk_id, chunk_seq, md5(chunk_data)",
            // Without what is stored out of line.
            "ledger" => "client, seq, a, b, amount, ver_a, ver_b",
            _ => "x",
        };
        let mut statement = None;
        for block in 0..bytes / BLOCK {
            let sql = format!(
                "SELECT coalesce(md5(string_agg(({columns})::text, '|' ORDER BY ctid)), '') FROM {name} x
                 WHERE ctid >= ('(' || $1::bigint || ',0)')::tid AND ctid < ('(' || $1::bigint + 1 || ',0)')::tid"
            );
            let digest = match &statement {
                Some(statement) => db.query_one(statement, &[&block]),
                None => db.prepare(&sql).and_then(|it| db.query_one(statement.insert(it), &[&block])),
            };
            let digest = match digest {
                Ok(row) => Some(row.try_get(0)?),
                Err(error) if excused(&error) => None,
                Err(error) => return Err(Failure(format!("block {block} of {name}: {}", words(&error)))),
            };
            blocks.insert((name.clone(), block), digest);
        }
    }
    db.batch_execute("RESET ALL")?;
    Ok(blocks)
}

/// The first block that was read and held something else than it should. Returns how many were lost.
pub(super) fn compare(read: &Blocks, should: &Blocks) -> Checked<u64> {
    for (place, digest) in read.iter().filter(|(_, digest)| digest.is_some()) {
        if should.get(place) != Some(digest) {
            return Err(Failure(format!(
                "block {} of {} is not lost, and does not hold what it should",
                place.1, place.0
            )));
        }
    }
    Ok(read.values().filter(|digest| digest.is_none()).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_block_is_counted_and_a_wrong_one_noticed() {
        let of = |digests: [Option<&str>; 2]| -> Blocks {
            (0..).zip(digests).map(|(n, it)| (("t".to_owned(), n), it.map(str::to_owned))).collect()
        };
        let should = of([Some("a"), Some("b")]);
        assert!(compare(&of([Some("a"), None]), &should).is_ok_and(|lost| lost == 1));
        assert!(compare(&of([Some("b"), None]), &should).is_err());
    }
}
