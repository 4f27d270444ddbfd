//! The traces of single tiers and processes, which become one.
//!
//! Every tier of every process writes a trace of its own into a directory beside the result. They are merged
//! in the order of time, by the clock of the machine that all of them began by. Files are the same if their
//! paths are, whatever number a tier gives them; clients are numbered anew if there are several parts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use mezzanine_engine::PageId;
use mezzanine_trace::{Compression, Format, Header, Op, Reader, Request, TraceErrorKind, Writer, open};

use super::RecordArgs;
use crate::failure::Failure;
use crate::output;
use crate::trace::refused;

/// The directory of the parts. It stays if something fails: what was recorded is in it.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn create(output: &Path) -> Result<Directory, Failure> {
        let mut name = output.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.parts", std::process::id()));
        let path = std::path::absolute(output.with_file_name(name))
            .map_err(|e| Failure::refused(output.display(), e))?;
        let refused = |e| Failure::refused(path.display(), format!("cannot be made: {e}"));
        std::fs::create_dir(&path).map_err(refused)?;
        Ok(Directory(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The parts, in the order of their names; those without a byte of a trace are left out. Removes the
    /// directory if there is none.
    pub(super) fn parts(&self) -> Result<Vec<PathBuf>, Failure> {
        let refused = |e: std::io::Error| Failure::refused(self.0.display(), e);
        let mut parts = Vec::new();
        for entry in std::fs::read_dir(&self.0).map_err(refused)? {
            let path = entry.map_err(refused)?.path();
            match opened(&path) {
                Ok(mut reader) => match reader.next() {
                    Some(Ok(_)) => parts.push(path),
                    // A tier that nobody asked for anything.
                    None => {}
                    Some(Err(error)) if error.kind() == TraceErrorKind::Empty => {}
                    Some(Err(error)) => return Err(crate::trace::refused(error)),
                },
                Err(error) if error.kind() == TraceErrorKind::Empty => {}
                Err(error) => return Err(crate::trace::refused(error)),
            }
        }
        parts.sort();
        if parts.is_empty() {
            self.remove();
        }
        Ok(parts)
    }

    /// Removes the parts: the result has all that is in them, or there is nothing in them.
    pub(super) fn remove(&self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            output::note(&format!("{}: cannot be removed: {error}", self.0.display()));
        }
    }
}

fn opened(path: &Path) -> Result<Reader, mezzanine_trace::TraceError> {
    Ok(open(path, Format::Mezzanine, 1)?.without_end())
}

/// What the parts became.
pub(super) struct Merged {
    pub(super) parts: u64,
    pub(super) unfinished: u64,
    pub(super) page_bytes: u32,
    pub(super) kinds: [u64; Op::ALL.len()],
    pub(super) file_bytes: u64,
}

/// A part that is being read.
struct Part {
    reader: Reader,
    /// Its next request, with its time since the origin of the result.
    next: Option<Request>,
    /// What has to be added to its times.
    later_ns: u64,
    clients: HashMap<u32, u32>,
    /// Numbers of pages in the result, less the number of the block: by the part's relation.
    files: HashMap<u32, u64>,
}

impl Part {
    fn advance(&mut self) -> Result<(), Failure> {
        self.next = match self.reader.next() {
            None => None,
            Some(request) => {
                let request = request.map_err(refused)?;
                let time_ns = request.time_ns.unwrap_or(0).saturating_add(self.later_ns);
                Some(Request { time_ns: Some(time_ns), ..request })
            }
        };
        Ok(())
    }
}

/// Writes one trace of all parts.
pub(super) fn merge(paths: &[PathBuf], args: &RecordArgs) -> Result<Merged, Failure> {
    let mut readers = Vec::new();
    for path in paths {
        readers.push(opened(path).map_err(refused)?);
    }
    let page_bytes = readers[0].page_bytes();
    if let Some(other) = readers.iter().find(|reader| reader.page_bytes() != page_bytes) {
        let other = other.page_bytes();
        let reason = format!(
            "tiers with pages of {page_bytes} and of {other} bytes were recorded, and a trace has one size"
        );
        let parts = paths[0].parent().unwrap_or(Path::new("")).display().to_string();
        return Err(Failure::refused(args.output.display(), reason)
            .next(format!("take the traces of the single tiers from {parts}")));
    }
    let origin = readers.iter().map(|reader| reader.header().origin_unix_us).min().unwrap_or(0);
    let header = Header { origin_unix_us: origin, ..readers[0].header() };
    let compression = if args.zstd { Compression::Zstd } else { Compression::None };
    let mut writer = Writer::create(&args.output, Format::Mezzanine, compression, header).map_err(refused)?;
    let mut parts = Vec::new();
    for reader in readers {
        let later_ns = (reader.header().origin_unix_us - origin).saturating_mul(1000);
        let mut part = Part { reader, next: None, later_ns, clients: HashMap::new(), files: HashMap::new() };
        part.advance()?;
        parts.push(part);
    }
    let kinds = write(&mut parts, &mut writer)?;
    let written = writer.finish().map_err(refused)?;
    Ok(Merged {
        parts: parts.len() as u64,
        unfinished: parts.iter().filter(|part| part.reader.was_unfinished()).count() as u64,
        page_bytes,
        kinds,
        file_bytes: written.file_bytes,
    })
}

fn write(parts: &mut [Part], writer: &mut Writer) -> Result<[u64; Op::ALL.len()], Failure> {
    let mut kinds = [0; Op::ALL.len()];
    let mut names = Names::default();
    let mut clients = 0;
    let is_one = parts.len() == 1;
    let earliest = |parts: &[Part]| {
        let times = parts.iter().enumerate();
        times.filter_map(|(index, part)| Some((part.next?.time_ns, index))).min().map(|(_, index)| index)
    };
    while let Some(index) = earliest(parts) {
        let part = &mut parts[index];
        let Some(mut request) = part.next else { break };
        kinds[request.op.index()] += 1;
        if let Some(relation) = request.relation {
            let first = match part.files.get(&relation) {
                Some(first) => *first,
                None => {
                    let first = names.first_page(&part.reader, relation, writer)?;
                    part.files.insert(relation, first);
                    first
                }
            };
            let block = part.reader.page_id(request.page).map_or(0, |id| id.block());
            request.page = first + block;
            request.relation = None;
        }
        if let (Some(client), false) = (request.client, is_one) {
            request.client = Some(*part.clients.entry(client).or_insert_with(|| {
                clients += 1;
                clients - 1
            }));
        }
        writer.write(&request).map_err(refused)?;
        part.advance()?;
    }
    Ok(kinds)
}

/// The files of the result: by name, those that have one, and their numbers.
#[derive(Default)]
struct Names {
    by_name: HashMap<String, u64>,
    taken: std::collections::HashSet<u64>,
}

impl Names {
    /// The number of page 0 of a file in the result, which is defined there if it is new.
    fn first_page(&mut self, reader: &Reader, relation: u32, writer: &mut Writer) -> Result<u64, Failure> {
        let found = &reader.relations()[relation as usize - 1];
        let wanted = reader.first_page_id(relation).map_or(0, |id| id.file());
        let name = found.name().to_owned();
        let number = match self.by_name.get(&name).filter(|_| !name.is_empty()) {
            Some(number) => *number,
            None => {
                // Numbers of different tiers may be the same.
                let free = (wanted..).find(|number| !self.taken.contains(number)).unwrap_or(wanted);
                self.taken.insert(free);
                self.by_name.insert(name.clone(), free);
                free
            }
        };
        let id = PageId::volume(number, 0);
        writer.name(&id, &name).map_err(refused)?;
        writer.page(&id).map_err(refused)
    }
}
