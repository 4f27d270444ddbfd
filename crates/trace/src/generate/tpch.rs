//! TPC-H: scans of tables, and rows of others found by their indexes in the course of them (TPC Benchmark H,
//! clause 2.4).
//!
//! Each client runs all 22 queries in an order of its own, again and again, and after each round refreshes a
//! thousandth of the orders (clauses 2.5 to 2.7). A query is the scans that a plan without parallel or bitmap
//! steps makes of it, one after the other; while the last of them goes on, rows of other tables are looked
//! up, one for so many pages of the scan. What does not fit memory is not spilt.

use mezzanine_workload::Random;

use super::Generate;
use super::layout::{Heap, Space, Tree, largest};
use super::stream::{Source, Steps};

/// Pages of a scan that are taken at a time.
const SCAN_PIECE: u64 = 32;

/// Tables in the order of [`Tables`]: rows for scale factor 1 and their length (clause 4.2.5).
const TABLES: [(&str, &str, u64, u32); 6] = [
    ("supplier", "supplier_key", 10_000, 159),
    ("part", "part_key", 200_000, 155),
    ("partsupp", "partsupp_key", 800_000, 144),
    ("customer", "customer_key", 150_000, 179),
    ("orders", "orders_key", 1_500_000, 104),
    ("lineitem", "lineitem_key", 6_001_215, 112),
];

const SUPPLIER: usize = 0;
const PART: usize = 1;
const PARTSUPP: usize = 2;
const CUSTOMER: usize = 3;
const ORDERS: usize = 4;
const LINEITEM: usize = 5;

/// Tables that a query scans, in turn, and tables in which it looks rows up during the last scan, with so
/// many for a thousand pages of it.
struct Query {
    scans: &'static [usize],
    probes: &'static [(usize, u64)],
}

const fn query(scans: &'static [usize], probes: &'static [(usize, u64)]) -> Query {
    Query { scans, probes }
}

/// Queries 1 to 22. How many rows are looked up follows from the share of rows that the query's conditions
/// leave, roughly: a page of orders has 30 rows, of lineitem 29.
const QUERIES: [Query; 22] = [
    query(&[LINEITEM], &[]),
    query(&[PART], &[(PARTSUPP, 400), (SUPPLIER, 400)]),
    query(&[CUSTOMER, ORDERS], &[(LINEITEM, 3_000)]),
    query(&[ORDERS], &[(LINEITEM, 1_200)]),
    query(&[CUSTOMER, SUPPLIER, ORDERS], &[(LINEITEM, 900)]),
    query(&[LINEITEM], &[]),
    query(&[SUPPLIER, LINEITEM], &[(ORDERS, 700), (CUSTOMER, 700)]),
    query(&[PART], &[(LINEITEM, 5_000), (ORDERS, 5_000)]),
    query(&[PART, LINEITEM], &[(PARTSUPP, 1_500), (ORDERS, 1_500)]),
    query(&[CUSTOMER, ORDERS], &[(LINEITEM, 1_100)]),
    query(&[SUPPLIER, PARTSUPP], &[]),
    query(&[LINEITEM], &[(ORDERS, 150)]),
    query(&[CUSTOMER, ORDERS], &[]),
    query(&[LINEITEM], &[(PART, 350)]),
    query(&[LINEITEM], &[(SUPPLIER, 1)]),
    query(&[PART, PARTSUPP], &[]),
    query(&[PART], &[(LINEITEM, 700)]),
    query(&[LINEITEM], &[(ORDERS, 1), (CUSTOMER, 1)]),
    query(&[LINEITEM], &[(PART, 600)]),
    query(&[PART], &[(PARTSUPP, 1_000), (LINEITEM, 3_000), (SUPPLIER, 50)]),
    query(&[SUPPLIER, LINEITEM], &[(ORDERS, 600), (LINEITEM, 600)]),
    query(&[CUSTOMER], &[(ORDERS, 2_500)]),
];

struct Table {
    heap: Heap,
    key: Tree,
    rows: u64,
}

/// The tables at so many thousandths of scale factor 1.
fn tables(thousandths: u64, page_bytes: u32) -> (Vec<Table>, Space) {
    let mut space = Space::new(page_bytes);
    let tables = TABLES.iter().map(|(name, key, rows, row_bytes)| {
        let rows = (rows * thousandths / 1_000).max(1);
        Table { heap: space.heap(name, rows, *row_bytes), key: space.index(key, rows), rows }
    });
    (tables.collect(), space)
}

/// Where a client is.
struct Client {
    /// The order of its queries, and the next of them; behind the last come refreshes.
    order: [u8; QUERIES.len()],
    next: usize,
    at: Option<At>,
}

/// A place in a query: which of its scans, which page of that; or how many orders are still to be refreshed.
enum At {
    Scan { query: usize, scan: usize, page: u64 },
    Refresh { left: u64 },
}

pub(super) struct Tpch {
    tables: Vec<Table>,
    clients: Vec<Client>,
    /// Orders so far; new ones are appended, and take the place of the oldest.
    orders: u64,
    random: Random,
}

impl Tpch {
    /// The source and the names of its relations.
    pub(super) fn new(generate: &Generate) -> Result<(Tpch, Vec<&'static str>), String> {
        let (pages, page_bytes) = (u64::from(generate.pages), generate.page_bytes);
        let fits = |thousandths| tables(thousandths, page_bytes).1.pages() <= pages;
        let Some(thousandths) = largest(1, 1 << 30, fits) else {
            let least = tables(1, page_bytes).1.pages();
            return Err(format!("TPC-H does not fit {pages} pages; give {least} or more"));
        };
        let (tables, space) = tables(thousandths, page_bytes);
        let mut random = Random::stream(generate.seed, &[0x08]);
        let clients = (0..generate.clients).map(|_| {
            let mut order: [u8; QUERIES.len()] = std::array::from_fn(|index| index as u8);
            random.shuffle(&mut order);
            Client { order, next: 0, at: None }
        });
        let clients = clients.collect();
        let orders = tables[ORDERS].rows;
        Ok((Tpch { tables, clients, orders, random }, space.names().to_vec()))
    }

    /// Looks up a row of a table by its key.
    fn probe(&mut self, table: usize, steps: &mut Steps) {
        let table = &self.tables[table];
        let row = u64::from(self.random.uniform(0, table.rows.min(u64::from(u32::MAX)) as u32 - 1));
        table.key.read(table.key.leaf_of(row, table.rows), steps);
        table.heap.read(row, steps);
    }

    /// A piece of a scan with the rows that are looked up meanwhile; returns where the query goes on, if it
    /// does.
    fn scan(&mut self, query: usize, scan: usize, page: u64, steps: &mut Steps) -> Option<At> {
        let Query { scans, probes } = &QUERIES[query];
        let heap = self.tables[scans[scan]].heap;
        let is_last = scan + 1 == scans.len();
        let end = heap.pages().min(page + SCAN_PIECE);
        for page in page..end {
            steps.read(heap.relation(), heap.first() + page);
            for (table, in_a_thousand) in probes.iter().filter(|_| is_last) {
                let whole = in_a_thousand / 1_000;
                let more = u64::from(self.random.uniform(0, 999)) < in_a_thousand % 1_000;
                for _ in 0..whole + u64::from(more) {
                    self.probe(*table, steps);
                }
            }
        }
        if end < heap.pages() {
            Some(At::Scan { query, scan, page: end })
        } else if is_last {
            None
        } else {
            Some(At::Scan { query, scan: scan + 1, page: 0 })
        }
    }

    /// An order comes and one goes, each with four lines.
    fn refresh(&mut self, steps: &mut Steps) {
        let order = self.orders;
        self.orders += 1;
        for (table, each) in [(ORDERS, 1), (LINEITEM, 4)] {
            let Table { heap, key, rows } = &self.tables[table];
            let oldest = u64::from(self.random.uniform(0, (*rows).min(u64::from(u32::MAX)) as u32 - 1));
            for row in [order * each, oldest] {
                key.write(key.leaf_of(row % rows, *rows), steps);
                for line in 0..each {
                    heap.write((row + line) % rows, steps);
                }
            }
        }
    }
}

impl Source for Tpch {
    /// As long as a piece of a scan, so that several clients' scans alternate.
    fn turn_max(&self) -> u32 {
        SCAN_PIECE as u32
    }

    fn refill(&mut self, client: u32, steps: &mut Steps) {
        let orders = self.tables[ORDERS].rows;
        let Client { order, next, at } = &mut self.clients[client as usize];
        let at = at.take().unwrap_or_else(|| match order.get(*next) {
            Some(query) => {
                *next += 1;
                At::Scan { query: usize::from(*query), scan: 0, page: 0 }
            }
            None => {
                *next = 0;
                At::Refresh { left: orders.div_ceil(1_000) }
            }
        });
        let goes_on = match at {
            At::Scan { query, scan, page } => self.scan(query, scan, page, steps),
            At::Refresh { left } => {
                self.refresh(steps);
                (left > 1).then_some(At::Refresh { left: left - 1 })
            }
        };
        if goes_on.is_none() {
            steps.commit();
        }
        self.clients[client as usize].at = goes_on;
    }
}
