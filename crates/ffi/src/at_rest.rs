//! Files that are changed while the server is down: restored by hand, zeroed by a tool, damaged.
//!
//! A clean page of the tier answers in place of the file that it is a copy of. So when the server is left in
//! order, the marker notes each directory with files of relations, by its inode and a moment of its file
//! system's clock; and a start drops the clean pages of every file that has changed since, or that it does
//! not find. Whatever writes a file, replaces it or gives it another name moves its ctime, and no program
//! sets that back; a directory that takes the place of another one has another inode, or, if it is on another
//! file system or on that one as it was earlier, no change of its own since.
//!
//! - *The moment* is later than any change of the server's own: it is taken after the last of them, and not
//!   before the clock has moved on from there. So a ctime at that moment or later is a change by somebody
//!   else; and what was noted by a clock that has been set back since says nothing. The directory itself is
//!   changed at that moment, for that is how the clock is read, so one that was not is another one: a volume
//!   with a tablespace was put back to an earlier moment, and with it the times of its files.
//! - *At the start, and not at the first use of each file*: there is one process then, and no page has been
//!   asked for. It costs a pass over the directories, one `lstat` for each file. At the first use, every
//!   process would have to know of every file whether it was looked at.
//! - *Nothing of the server's own changes the files in between.* The shutdown's checkpoint, the drain and the
//!   sync of what stage-out has written lie before the note (`Host::close`). This comes before redo, and so
//!   before unlogged relations are reset, and before any job of the tier.
//! - *The pages are gone durably before the note is.* A start that is cut off finds it again. Until then no
//!   page can have come in, so what all files had when it was noted, they have had since, apart from what
//!   others did: a page whose record says that it is newer than disk is none, if there were none.
//! - *Pages that are newer than their files stay*: nobody else has them.
//!
//! After a crash nothing is noted, and the pages are trusted.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{IdRange, PageId, Tier};

use crate::host::Host;
use crate::marker::Marker;
use crate::message::Refusal;
use crate::noted::{Moment, Noted};
use crate::relation_files::{Directory, RelationFiles, parse_name};

/// How long closing waits for a file system's clock to move on. Most count in milliseconds, some in seconds.
/// Where it does not, the files that were changed last are taken for changed.
const TICK_MAX: Duration = Duration::from_millis(2100);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Frames looked at in one go.
const FRAMES: usize = 4096;
/// Blocks whose pages are dropped together, if all of them are to be: few enough to be looked up one by one.
const CHUNK_BLOCKS: u32 = 256;

/// What a start has found of the files.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// What is to be dropped.
    pub(crate) ranges: Vec<IdRange>,
    /// Pages in these ranges.
    pub(crate) pages: u64,
    /// Files that they are of.
    pub(crate) files: u64,
    /// That is all that the tier holds.
    pub(crate) everything: bool,
}

fn changed_at(metadata: &Metadata) -> Moment {
    (metadata.ctime(), metadata.ctime_nsec())
}

/// What the clock of a directory's file system says now, and the directory's inode. It counts as read.
fn look(path: &Path) -> io::Result<(Moment, u64)> {
    let directory = File::open(path)?;
    directory.set_times(FileTimes::new().set_accessed(SystemTime::now()))?;
    let metadata = directory.metadata()?;
    Ok((changed_at(&metadata), metadata.ino()))
}

/// The first of the `blocks` that a page is one of: of a file, or of a chunk.
fn first_page(id: &PageId, blocks: u32) -> PageId {
    let [database, tablespace, relation, fork, block] = id.relation_parts();
    PageId::relation(database, tablespace, relation, fork, block - block % blocks)
}

impl Host {
    /// Notes the directories as they are left, after the last change of the server's own. One that cannot be
    /// looked at is left out: its files count as changed. None of them if files are not looked at.
    pub(crate) fn note_files(&self) -> Vec<Noted> {
        let Some(files) = &self.settings.relation_files else { return Vec::new() };
        let place = |directory: &Directory| self.settings.data_directory.join(&directory.path);
        let looked: Vec<_> = files
            .directories(&self.settings.data_directory)
            .into_iter()
            .filter_map(|directory| look(&place(&directory)).ok().map(|(last, _)| (directory, last)))
            .collect();
        let until = Instant::now() + TICK_MAX;
        let settle = |(directory, last): (Directory, Moment)| loop {
            let (moment, inode) = look(&place(&directory)).ok()?;
            if moment > last || Instant::now() > until {
                return Some(Noted { path: directory.path, inode, moment });
            }
            thread::sleep(LOOK_AGAIN);
        };
        looked.into_iter().filter_map(settle).collect()
    }

    /// The files that have not changed since they were noted, each as its first page.
    fn unchanged_files(&self, files: &RelationFiles, noted: &[Noted]) -> HashSet<PageId> {
        let mut unchanged = HashSet::new();
        for directory in files.directories(&self.settings.data_directory) {
            let Some(noted) = noted.iter().find(|noted| noted.path == directory.path) else { continue };
            let path = self.settings.data_directory.join(&directory.path);
            // Its own last change, which was the note, and what the clock says now.
            let Ok(last) = fs::metadata(&path).map(|metadata| changed_at(&metadata)) else { continue };
            let Ok((now, inode)) = look(&path) else { continue };
            let earliest = if planted::is(Bug::OlderDirectoryTrusted) { now } else { last.min(now) };
            let same = inode == noted.inode || planted::is(Bug::ReplacedDirectoryTrusted);
            let goes_on = earliest >= noted.moment || planted::is(Bug::ClockTrusted);
            let Ok(entries) = fs::read_dir(&path) else { continue };
            if !same || !goes_on {
                continue;
            }
            for entry in entries.flatten() {
                let name = entry.file_name();
                let Some((relation, fork, segment)) = name.to_str().and_then(parse_name) else { continue };
                let Some(first) = segment.checked_mul(files.segment_blocks) else { continue };
                // Of a symbolic link itself, as the server makes none.
                let Ok(metadata) = entry.metadata() else { continue };
                let at = changed_at(&metadata);
                let before = at < noted.moment || at == noted.moment && planted::is(Bug::RestTickTrusted);
                if metadata.is_file() && before {
                    let Directory { tablespace, database, .. } = directory;
                    unchanged.insert(PageId::relation(database, tablespace, relation, fork, first));
                }
            }
        }
        unchanged
    }

    /// What of a tier that was recovered as it was left in order is not to be believed, because its files
    /// have changed since.
    pub(crate) fn changed_at_rest(&self, tier: &Tier, marker: &Marker) -> Changed {
        let mut changed = Changed::default();
        let Some((noted, current)) = marker.at_rest() else { return changed };
        let Some(files) = &self.settings.relation_files else { return changed };
        if planted::is(Bug::ChangedFilesTrusted) {
            return changed;
        }
        let unchanged = self.unchanged_files(files, &noted);
        let of_chunk = if files.segment_blocks % CHUNK_BLOCKS == 0 { CHUNK_BLOCKS } else { 1 };
        let (mut found, mut others) = (HashSet::new(), false);
        // By chunk: its pages that are to be dropped, and whether others are to be kept.
        let mut chunks: BTreeMap<PageId, (Vec<u32>, bool)> = BTreeMap::new();
        let mut cursor = tier.first_page();
        while let Some(pages) = tier.pages(&mut cursor, FRAMES) {
            for page in pages {
                let file = first_page(&page.id, files.segment_blocks);
                if unchanged.contains(&file) {
                    others = true;
                    continue;
                }
                let (dropped, kept) = chunks.entry(first_page(&page.id, of_chunk)).or_default();
                // Where the files were current, only the record says that it is newer than disk.
                if page.flash.dirty && (!current || planted::is(Bug::CurrentPageKept)) {
                    *kept = true;
                    others = true;
                    continue;
                }
                dropped.push(page.id.relation_parts()[4]);
                found.insert(file);
                changed.pages += 1;
            }
        }
        changed.everything = changed.pages > 0 && !others;
        changed.files = found.len() as u64;
        for (first, (dropped, kept)) in chunks {
            let [database, tablespace, relation, fork, block] = first.relation_parts();
            let range =
                |block, blocks| IdRange::fork_blocks(database, tablespace, relation, fork, block, blocks);
            if !kept && !dropped.is_empty() {
                changed.ranges.push(range(block, of_chunk.into()));
            } else {
                changed.ranges.extend(dropped.into_iter().map(|block| range(block, 1)));
            }
        }
        changed
    }

    /// Drops what [`Self::changed_at_rest`] has found, durably, before anybody reads or writes a page.
    pub(crate) fn drop_changed(&self, changed: &Changed) -> Result<(), Refusal> {
        let tier = self.tier();
        for range in &changed.ranges {
            self.work_until(|| tier.invalidate_range(range).is_ok())?;
        }
        self.sync()
    }
}
