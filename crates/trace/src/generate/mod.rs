//! Streams of page requests that are shaped like a benchmark's, from a seed.
//!
//! 1. What is generated follows from the [`Generate`] alone, request by request: the same parameters give the
//!    same stream.
//! 2. Memory is bounded by the size of the database, at most some bytes for every thousand pages, not by the
//!    length of the stream.
//!
//! `docs/traces.md` says what each shape assumes. They are references to a database's pages in its memory,
//! hits and misses alike, and no measurement of the benchmarks that they are named after.

mod layout;
mod stream;

mod clients;

mod tpcc;
mod tpce;
mod tpch;
mod zipf;

use std::fmt;
use std::str::FromStr;

use mezzanine_workload::Random;

use crate::request::Request;
use stream::{Source, Stream};

pub use clients::{ClientStep, Clients};

/// What a stream is shaped like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// TPC-C: many small transactions that write, popular customers and items, orders appended.
    Tpcc,
    /// TPC-E: mostly reads, customers that trade more than others, trades appended.
    Tpce,
    /// TPC-H: scans of large tables, and rows found by indexes.
    Tpch,
    /// Each page for itself, the k-th most popular with a probability in proportion to 1 / k^s.
    Zipf,
    /// Each page for itself, all equally popular.
    Uniform,
}

impl Shape {
    /// All shapes.
    pub fn all() -> &'static [Shape] {
        &[Self::Tpcc, Self::Tpce, Self::Tpch, Self::Zipf, Self::Uniform]
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        ["tpcc", "tpce", "tpch", "zipf", "uniform"][self as usize]
    }

    /// How many clients there are if nobody says: the 50 of the FaCE paper's TPC-C runs; for TPC-H four
    /// streams of queries.
    pub fn clients(self) -> u32 {
        match self {
            Self::Tpcc | Self::Tpce => 50,
            Self::Tpch => 4,
            Self::Zipf | Self::Uniform => 1,
        }
    }

    /// Whether requests are those of a benchmark's transactions, which have a mix of their own.
    pub fn is_benchmark(self) -> bool {
        !matches!(self, Self::Zipf | Self::Uniform)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let found = Shape::all().iter().copied().find(|shape| shape.name() == text);
        let names: Vec<&str> = Shape::all().iter().map(|shape| shape.name()).collect();
        found.ok_or_else(|| format!("no shape is called '{text}'; there are {}", names.join(", ")))
    }
}

/// Most clients of a stream.
pub const CLIENTS_MAX: u32 = 10_000;

/// What to generate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generate {
    /// What it is shaped like.
    pub shape: Shape,
    /// Size of the database in pages. A benchmark's tables take as many of them as fit.
    pub pages: u32,
    /// Requests for pages; marks come besides.
    pub requests: u64,
    /// Where the randomness begins.
    pub seed: u64,
    /// Size of a page in bytes, which says how many rows fit one; not used by `zipf` and `uniform`.
    pub page_bytes: u32,
    /// Clients of a benchmark, from 1 to [`CLIENTS_MAX`].
    pub clients: u32,
    /// Exponent of `zipf`, from 0 to 10; YCSB's is 0.99.
    pub exponent: f64,
    /// Share of writes in `zipf` and `uniform`, from 0 to 1.
    pub write_share: f64,
    /// Warehouses of `tpcc`, for which there must be pages enough; what is left over is room for orders to
    /// come. `None` for as many as fit.
    pub warehouses: Option<u32>,
}

impl Generate {
    /// Of a shape, with what is usual for the rest.
    pub fn new(shape: Shape, pages: u32, requests: u64, seed: u64) -> Generate {
        let clients = shape.clients();
        Generate {
            shape,
            pages,
            requests,
            seed,
            page_bytes: 4096,
            clients,
            exponent: 0.99,
            write_share: 0.0,
            warehouses: None,
        }
    }

    /// Pages of a TPC-C database of so many warehouses, with room for orders to come: 114 MB a warehouse with
    /// pages of 4 KiB, as in the FaCE paper.
    pub fn tpcc_pages(warehouses: u32, page_bytes: u32) -> u64 {
        tpcc::pages_of(warehouses, page_bytes)
    }

    /// The stream.
    ///
    /// # Errors
    /// What is wrong with the parameters, and what would be right.
    pub fn generate(&self) -> Result<Generator, String> {
        if self.requests == 0 {
            return Err("a stream needs a page and a request at least".to_owned());
        }
        let (source, relations) = self.source()?;
        let random = Random::stream(self.seed, &[0x57, self.shape as u64]);
        let clients = if self.shape.is_benchmark() { Some(self.clients) } else { None };
        Ok(Generator { stream: Stream::new(source, clients, random), left: self.requests, relations })
    }

    /// The same clients, each asked for its next step when whoever carries the steps out is ready for it.
    /// `requests` is not used.
    ///
    /// # Errors
    /// What is wrong with the parameters, and what would be right.
    pub fn clients(&self) -> Result<Clients, String> {
        Ok(Clients::new(self.source()?.0, self.clients))
    }

    /// What makes the requests, and the names of the relations.
    fn source(&self) -> Result<(Box<dyn Source>, Vec<&'static str>), String> {
        if self.pages == 0 {
            return Err("a stream needs a page and a request at least".to_owned());
        }
        if !(512..=1 << 20).contains(&self.page_bytes) {
            return Err(format!("pages have {} bytes; give 512 to 1,048,576", self.page_bytes));
        }
        if !(1..=CLIENTS_MAX).contains(&self.clients) {
            return Err(format!("there are {} clients; give 1 to {CLIENTS_MAX}", self.clients));
        }
        if !(0.0..=10.0).contains(&self.exponent) {
            return Err(format!("the exponent is {}; give 0 to 10", self.exponent));
        }
        if !(0.0..=1.0).contains(&self.write_share) {
            return Err(format!("the share of writes is {}; give 0 to 1", self.write_share));
        }
        Ok(match self.shape {
            Shape::Tpcc => boxed(tpcc::Tpcc::new(self)?),
            Shape::Tpce => boxed(tpce::Tpce::new(self)?),
            Shape::Tpch => boxed(tpch::Tpch::new(self)?),
            Shape::Zipf => (Box::new(zipf::Pages::zipf(self)), Vec::new()),
            Shape::Uniform => (Box::new(zipf::Pages::uniform(self)), Vec::new()),
        })
    }
}

fn boxed<S: Source + 'static>(
    (source, relations): (S, Vec<&'static str>),
) -> (Box<dyn Source>, Vec<&'static str>) {
    (Box::new(source), relations)
}

/// A stream of requests; see [`Generate`].
pub struct Generator {
    stream: Stream,
    left: u64,
    relations: Vec<&'static str>,
}

impl Generator {
    /// The names of the relations that requests name: number 1 is the first.
    pub fn relations(&self) -> &[&'static str] {
        &self.relations
    }
}

impl Iterator for Generator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.left == 0 {
            return None;
        }
        let request = self.stream.next_request();
        if !request.op.is_mark() {
            self.left -= 1;
        }
        Some(request)
    }
}
