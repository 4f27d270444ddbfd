//! The server's own checkers: amcheck on heaps and B-trees.

use postgres::Client;

use crate::failure::{Checked, Failure, While as _};

/// Checks that every heap row is in its indexes, and that heaps are sound; with `all`, of the system's
/// relations too.
pub(crate) fn check(db: &mut Client, all: bool) -> Checked {
    let which =
        if all { "true" } else { "relnamespace IN ('public'::regnamespace, 'pg_toast'::regnamespace)" };
    let own = "relpersistence = 'p' AND (relnamespace <> 'pg_toast'::regnamespace OR oid >= 16384)";
    let sql = format!(
        "SELECT oid FROM pg_class c WHERE {which} AND {own} AND relkind = 'i' AND relam = 403
         AND (SELECT indisvalid AND indisready FROM pg_index WHERE indexrelid = c.oid)"
    );
    for index in oids(db, &sql)? {
        db.execute("SELECT bt_index_check($1::oid::regclass, true)", &[&index])
            .during(|| format!("amcheck of index {index}"))?;
    }
    let sql = format!("SELECT oid FROM pg_class WHERE {which} AND {own} AND relkind IN ('r', 't', 'm')");
    for table in oids(db, &sql)? {
        let sql = "SELECT $1::oid::regclass::text, blkno, offnum, msg FROM verify_heapam($1::oid::regclass, check_toast => true)";
        if let Some(row) = db.query(sql, &[&table]).during(|| format!("amcheck of table {table}"))?.first() {
            let (name, block, message): (String, i64, String) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(3)?);
            return Err(Failure(format!("amcheck of {name}, block {block}: {message}")));
        }
    }
    Ok(())
}

fn oids(db: &mut Client, sql: &str) -> Checked<Vec<u32>> {
    let rows = db.query(sql, &[])?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}
