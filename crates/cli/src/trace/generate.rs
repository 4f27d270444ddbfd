//! `mezz trace generate`.

use std::path::PathBuf;

use clap::Args;
use mezzanine_report::facts;
use mezzanine_trace::{CLIENTS_MAX, Format, Generate, Header, Naming, Op, Shape};
use serde::Serialize;

use super::{REQUESTS_A_LOOK, count_text, create, kinds, page_bytes, page_size, refused};
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

pub(super) const EXAMPLES: &str = "Examples:
  mezz trace generate --shape tpcc --pages 451166 --requests 10000000 tpcc.mezztrace
  mezz trace generate --shape zipf --exponent 0.8 --write-share 0.3 --pages 1000000 --requests 5000000 --seed 7 zipf.mezztrace
  mezz trace generate --shape tpch --clients 1 --pages 200000 --requests 4000000 --zstd tpch.mezztrace.zst

The same options and seed give the same bytes. The trace has the format mezzanine; `mezz trace convert` makes others of it.

tpcc, tpce and tpch are shaped like the benchmarks of these names: which pages of which tables and indexes their transactions refer to, \
in a database of so many pages. They are references, whether the page is in memory or not, and no measurements; docs/traces.md says \
what they assume. zipf and uniform ask for each page by itself.";

/// The options of `trace generate`.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The trace to write.
    output: PathBuf,

    /// tpcc, tpce, tpch, zipf or uniform.
    #[arg(long)]
    shape: Shape,

    /// Size of the database in pages.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pages: u32,

    /// Requests for pages; marks of commits come besides.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,

    /// Where the randomness begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Size of a page: how many rows of a benchmark's tables fit one.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = page_size)]
    page_size: Size,

    /// Clients of a benchmark, whose transactions alternate (default: 50; streams of queries of tpch: 4).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(CLIENTS_MAX)))]
    clients: Option<u32>,

    /// Exponent of zipf (default: 0.99).
    #[arg(long)]
    exponent: Option<f64>,

    /// Share of writes of zipf and uniform, from 0 to 1 (default: 0).
    #[arg(long, value_name = "SHARE")]
    write_share: Option<f64>,

    /// Compress the trace by zstd.
    #[arg(long)]
    zstd: bool,

    /// Replace what has the name of the trace.
    #[arg(long)]
    overwrite: bool,
}

#[derive(Serialize)]
struct Generated {
    file: String,
    shape: &'static str,
    pages: u32,
    seed: u64,
    page_bytes: u32,
    /// Null for shapes without clients.
    clients: Option<u32>,
    /// Null for other shapes than zipf.
    exponent: Option<f64>,
    /// Null for shapes that have a mix of their own.
    write_share: Option<f64>,
    requests: u64,
    reads: u64,
    writes: u64,
    commits: u64,
    file_bytes: u64,
}

impl GenerateArgs {
    /// What to generate; refuses options that the shape has no use for.
    fn parameters(&self) -> Result<Generate, Failure> {
        let is_benchmark = self.shape.is_benchmark();
        let useless = |option: &str, why: &str| {
            Err(Failure::usage(format!("{option} with --shape {}", self.shape), why)
                .next(format!("leave {option} out")))
        };
        if self.clients.is_some() && !is_benchmark {
            return useless("--clients", "only benchmarks have clients");
        }
        if self.exponent.is_some() && self.shape != Shape::Zipf {
            return useless("--exponent", "only zipf has an exponent");
        }
        if self.write_share.is_some() && is_benchmark {
            return useless("--write-share", "benchmarks write as much as their transactions do");
        }
        let usual = Generate::new(self.shape, self.pages, self.requests, self.seed);
        Ok(Generate {
            page_bytes: page_bytes(self.page_size),
            clients: self.clients.unwrap_or(usual.clients),
            exponent: self.exponent.unwrap_or(usual.exponent),
            write_share: self.write_share.unwrap_or(usual.write_share),
            ..usual
        })
    }
}

pub(super) fn run(args: &GenerateArgs, json: bool) -> Result<(), Failure> {
    let parameters = args.parameters()?;
    let generator =
        parameters.generate().map_err(|reason| Failure::usage(format!("--shape {}", args.shape), reason))?;
    let header = Header {
        page_bytes: parameters.page_bytes,
        naming: Naming::Numbers,
        timed: false,
        origin_unix_us: 0,
    };
    let mut writer = create(&args.output, Format::Mezzanine, args.zstd, header, args.overwrite)?;
    for name in generator.relations() {
        writer.relation(name).map_err(refused)?;
    }
    let bar = output::progress(args.requests, &format!("generating {}", args.output.display()));
    let mut counts = [0; Op::ALL.len()];
    for (index, request) in generator.enumerate() {
        if index as u64 % REQUESTS_A_LOOK == 0 {
            bar.set_position(index as u64);
        }
        counts[request.op.index()] += 1;
        writer.write(&request).map_err(refused)?;
    }
    let written = writer.finish().map_err(refused)?;
    bar.finish_and_clear();
    let is_benchmark = args.shape.is_benchmark();
    let generated = Generated {
        file: args.output.display().to_string(),
        shape: args.shape.name(),
        pages: args.pages,
        seed: args.seed,
        page_bytes: parameters.page_bytes,
        clients: is_benchmark.then_some(parameters.clients),
        exponent: (args.shape == Shape::Zipf).then_some(parameters.exponent),
        write_share: (!is_benchmark).then_some(parameters.write_share),
        requests: args.requests,
        reads: counts[Op::Read.index()],
        writes: counts[Op::Write.index()],
        commits: counts[Op::Commit.index()],
        file_bytes: written.file_bytes,
    };
    if json { output::json(&generated) } else { output::print(&text(&generated, counts)) }
}

fn text(generated: &Generated, counts: [u64; Op::ALL.len()]) -> String {
    let mut pairs = vec![
        ("trace", generated.file.clone()),
        (
            "shape",
            format!(
                "{}, {} pages, seed {}",
                generated.shape,
                count_text(generated.pages.into()),
                generated.seed
            ),
        ),
        ("size of the file", Size(generated.file_bytes).to_string()),
        ("requests", count_text(generated.requests)),
    ];
    pairs.extend(kinds(counts));
    facts(&pairs)
}
