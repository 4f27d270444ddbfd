//! `mezz trace convert`.

use std::path::PathBuf;

use clap::Args;
use mezzanine_report::facts;
use mezzanine_trace::Format;
use serde::Serialize;

use super::{REQUESTS_A_LOOK, count_text, create, open_wanted, page_size, refused, unreadable};
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

pub(super) const EXAMPLES: &str = "Examples:
  mezz trace convert P1.lis p1.mezztrace --from lis --to mezzanine
  mezz trace convert w65.vscsi.zst w65.oracle --from vscsi --to oracle-general --page-size 8KiB
  mezz trace convert tpcc.mezztrace tpcc.txt.zst --from mezzanine --to plain --zstd
  mezz trace convert app.mezztrace.4711.unfinished app.mezztrace --from mezzanine --to mezzanine --unfinished

Requests that are larger than a page become several. What the new format has no place for is left out and counted: evictions and \
marks of commits and checkpoints are only in mezzanine, writes are told from reads only in mezzanine and vscsi, and plain and lis have no \
time. oracle-general says when each page is asked for next, which takes memory for each distinct page.";

/// The options of `trace convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The trace, plain or compressed by zstd.
    input: PathBuf,

    /// The trace to write.
    output: PathBuf,

    /// Format of the first: plain, lis, oracle-general, vscsi or mezzanine.
    #[arg(long, value_name = "FORMAT")]
    from: Format,

    /// Format of the second.
    #[arg(long, value_name = "FORMAT")]
    to: Format,

    /// Requests that are larger become several. Not used by formats that count in pages; mezzanine says
    /// itself.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = page_size)]
    page_size: Size,

    /// Read a trace of the format mezzanine that was not finished as far as its blocks are whole.
    #[arg(long)]
    unfinished: bool,

    /// Compress the new trace by zstd.
    #[arg(long)]
    zstd: bool,

    /// Replace what has the name of the new trace.
    #[arg(long)]
    overwrite: bool,
}

#[derive(Serialize)]
struct Converted {
    input: String,
    output: String,
    from: &'static str,
    to: &'static str,
    page_bytes: u32,
    /// Requests and marks that the new trace has.
    written: u64,
    /// Evictions and marks that the new format has no place for.
    left_out: u64,
    file_bytes: u64,
}

pub(super) fn run(args: &ConvertArgs, json: bool) -> Result<(), Failure> {
    let mut reader = open_wanted(&args.input, args.from, args.page_size, args.unfinished)?;
    let mut writer = create(&args.output, args.to, args.zstd, reader.header(), args.overwrite)?;
    let what = format!("converting {}", args.input.display());
    let spinner = output::spinner(&what);
    let mut done = 0u64;
    while let Some(request) = reader.next() {
        let request = request.map_err(unreadable)?;
        if done % REQUESTS_A_LOOK == 0 {
            spinner.set_message(format!("{what}: {} requests", count_text(done)));
        }
        done += 1;
        writer.follow_relations(&reader).map_err(refused)?;
        writer.write(&request).map_err(refused)?;
    }
    let written = writer.finish().map_err(refused)?;
    spinner.finish_and_clear();
    let converted = Converted {
        input: args.input.display().to_string(),
        output: args.output.display().to_string(),
        from: args.from.name(),
        to: args.to.name(),
        page_bytes: reader.page_bytes(),
        written: written.requests,
        left_out: written.left_out,
        file_bytes: written.file_bytes,
    };
    if json { output::json(&converted) } else { output::print(&text(&converted)) }
}

fn text(converted: &Converted) -> String {
    let mut pairs = vec![
        ("trace", converted.output.clone()),
        ("format", converted.to.to_owned()),
        ("size of the file", Size(converted.file_bytes).to_string()),
        ("written", count_text(converted.written)),
    ];
    if converted.left_out > 0 {
        let left_out = count_text(converted.left_out);
        pairs.push((
            "left out",
            format!("{left_out} evictions and marks, for which {} has no place", converted.to),
        ));
    }
    facts(&pairs)
}
