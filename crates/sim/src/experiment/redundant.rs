//! What a database writes to flash with double writes and without, and with large and small pages ("Durable
//! Write Cache in Flash Memory SSD for Relational and NoSQL Databases", abstract and sections 1, 2.1 and 6).
//!
//! The shape of TPC-C goes through a buffer pool, of which dirty pages leave in batches, over the shipped
//! `durassd`. With double writes each batch is written twice, as InnoDB does: to an area of its own and then
//! to its places, with a flush after each. Sizes are those of the paper's TPC-C (section 4.3.2), divided by
//! [`SCALE`]; its log lies on another drive.

use mezzanine_device::model::{self, Operation, OperationKind, Timing};
use mezzanine_ssd::Ssd;
use mezzanine_ssd::three_tier::{Request, TopTier};
use mezzanine_trace::{Generate, Op, Shape};

use super::answers::Answers;
use super::published::Source;
use super::verdict::{Ours, Part};

/// Warehouses and bytes of the buffer are so many times fewer than published: 1,000 and 2 GB.
const SCALE: u32 = 100;
const WAREHOUSES: u32 = 1000 / SCALE;
const POOL_BYTES: u32 = 2_000_000_000 / SCALE;
/// Blocks of a plane of the drive, on which the database takes about the share that 100 GB are of 480 GB.
const BLOCKS_PER_PLANE: u32 = 32;
/// Bytes of a batch of pages, and of the area that double writes go to first: InnoDB's has room for two.
const BATCH_BYTES: u32 = 1 << 20;
/// Transactions before counting begins, and while it goes on.
const TRANSACTIONS: [u64; 2] = [20_000, 80_000];

/// How the database writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Writes {
    page_bytes: u32,
    /// Each page twice.
    double: bool,
    /// Whether a flush follows a batch.
    barriers: bool,
}

/// The default of MySQL, and what the paper finds best with its drive: ON/ON of 16 KB and OFF/OFF of 4 KB.
const LARGE_DOUBLE: Writes = Writes { page_bytes: 16_384, double: true, barriers: true };
const SMALL_SINGLE: Writes = Writes { page_bytes: 4096, double: false, barriers: false };

/// A drive with a database on it.
struct Database {
    drive: Ssd,
    state: Box<[u64]>,
    now: u64,
    writes: Writes,
    /// Pages that are on their way out of the pool.
    batch: Vec<u32>,
    /// Where the area of the double writes begins, and which half of it is next.
    area: u64,
    half: u64,
}

impl Database {
    fn new(writes: Writes, pages: u64) -> Self {
        let durassd = model::find("durassd").expect("the paper's drive is a shipped model");
        let durassd = Ssd::of_model(&durassd).expect("shipped models are valid").expect("from the inside");
        let smaller = durassd.config().with_blocks_per_plane(BLOCKS_PER_PLANE);
        let drive = smaller.and_then(Ssd::new).expect("fewer blocks do as well");
        let area = pages * u64::from(writes.page_bytes);
        assert!(
            area + 2 * u64::from(BATCH_BYTES) <= drive.capacity(),
            "the database is larger than the drive"
        );
        Self { state: drive.idle(), drive, now: 0, writes, batch: Vec::new(), area, half: 0 }
    }

    fn submit(&mut self, operation: Operation) {
        let submitted = self.drive.submit(&mut self.state, self.now, operation);
        let done = submitted.expect("room for an operation").ticket.completion();
        self.now = done.map_or(self.now, |done| done.max(self.now));
    }

    fn write(&mut self, address: u64) {
        let bytes = u64::from(self.writes.page_bytes);
        self.submit(self.drive.operation(OperationKind::Write, address, bytes));
    }

    fn barrier(&mut self) {
        if self.writes.barriers {
            self.submit(Operation::FLUSH);
        }
    }

    /// A dirty page leaves the pool.
    fn evict(&mut self, page: u32) {
        self.batch.push(page);
        if self.batch.len() as u32 * self.writes.page_bytes < BATCH_BYTES {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        let bytes = u64::from(self.writes.page_bytes);
        if self.writes.double {
            let first = self.area + self.half * u64::from(BATCH_BYTES);
            self.half = 1 - self.half;
            for place in 0..batch.len() as u64 {
                self.write(first + place * bytes);
            }
            self.barrier();
        }
        for page in batch {
            self.write(u64::from(page) * bytes);
        }
        self.barrier();
    }

    /// Mapping units programmed, for whatever reason.
    fn programmed(&self) -> u64 {
        let counters = self.drive.counters(&self.state);
        counters.units_programmed + counters.units_moved + counters.units_of_map + counters.units_padded
    }
}

/// Bytes written to flash for a transaction.
fn per_transaction(writes: Writes, transactions: [u64; 2]) -> f64 {
    let pages = Generate::tpcc_pages(WAREHOUSES, writes.page_bytes);
    let stream = Generate {
        page_bytes: writes.page_bytes,
        warehouses: Some(WAREHOUSES),
        ..Generate::new(Shape::Tpcc, pages as u32, u64::MAX, 1)
    };
    let stream = stream.generate().expect("the database can be generated");
    let mut pool = TopTier::new(POOL_BYTES / writes.page_bytes).expect("the pool can be");
    let mut database = Database::new(writes, pages);
    let (mut committed, mut before) = (0, 0);
    for request in stream {
        if request.op == Op::Commit {
            committed += 1;
            if committed == transactions[0] {
                before = database.programmed();
            } else if committed == transactions[0] + transactions[1] {
                break;
            }
        }
        if matches!(request.op, Op::Read | Op::Write) {
            pool.refer(request.page as u32, request.op == Op::Write, |made: Request| {
                if made.is_write() {
                    database.evict(made.page());
                }
            });
        }
    }
    let units = database.programmed() - before;
    (units * u64::from(database.drive.config().geometry.unit_bytes)) as f64 / transactions[1] as f64
}

pub(super) fn headline(_: &Source, answers: &mut Answers) {
    let of = |writes| per_transaction(writes, TRANSACTIONS);
    let (default, best) = (of(LARGE_DOUBLE), of(SMALL_SINGLE));
    let single = of(Writes { double: false, ..LARGE_DOUBLE });
    let small = of(Writes { page_bytes: SMALL_SINGLE.page_bytes, ..LARGE_DOUBLE });
    answers.set("written", Ours::Value(best / default));
    answers.set("life", Ours::Value(single / default));
    let part = |what: &str, bytes: f64| Part {
        said: format!("{what}: {:.1} kB a transaction instead of {:.1}", bytes / 1e3, default / 1e3),
        holds: bytes < default,
    };
    let parts = [part("16 KB and no double writes", single), part("double writes and 4 KB", small)];
    answers.set("parts", Ours::Shape(parts.to_vec()));
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: [u64; 2] = [1_000, 4_000];

    #[test]
    fn double_writes_write_twice_and_small_pages_write_less() {
        let default = per_transaction(LARGE_DOUBLE, FEW);
        let single = per_transaction(Writes { double: false, ..LARGE_DOUBLE }, FEW);
        assert!((1.9..2.1).contains(&(default / single)), "{default} bytes and {single} without");
        let small = per_transaction(Writes { page_bytes: 4096, ..LARGE_DOUBLE }, FEW);
        assert!(small < 0.6 * default, "{small} bytes with small pages, {default} with large ones");
    }
}
