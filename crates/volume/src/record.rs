//! Recording what goes through a volume as a trace.
//!
//! A volume sees what a database's own pool does not have, and what leaves it: reads of pages, and writes of
//! them. So that is what a trace of a volume has, with a mark for each sync that made something durable. What
//! fails is not recorded, and what the tier does by itself is not either. While nothing is recorded this
//! costs one look at a flag.

use std::path::Path;
use std::sync::Arc;

use mezzanine_engine::PageId;
use mezzanine_ground::interleave::sync::RwLock;
use mezzanine_ground::interleave::sync::atomic::{AtomicBool, Ordering};
use mezzanine_trace::{Event, Naming, Op, Recorder, TraceError, TraceErrorKind, Written};

use crate::backing::FileInner;
use crate::core::{Local, exclusive, shared};
use crate::error::{VolumeError, VolumeErrorKind};

/// The pages of a volume without a tier, which has no size of its own for them.
const PAGE_BYTES_WITHOUT_TIER: u32 = 4096;

/// The trace that is being recorded, if any.
#[derive(Default)]
pub(crate) struct Recording {
    /// Whether there is one, to be looked at first.
    on: AtomicBool,
    recorder: RwLock<Option<Arc<Recorder>>>,
}

impl Recording {
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    fn recorder(&self) -> Option<Arc<Recorder>> {
        if self.is_on() { shared(&self.recorder).clone() } else { None }
    }

    /// Records that something was done to all pages of a range, which is not empty.
    pub(crate) fn pages(&self, op: Op, file: &FileInner, client: Option<u32>, offset: u64, len: u64) {
        let Some(recorder) = self.recorder() else { return };
        for block in offset / file.page_size..=(offset + len - 1) / file.page_size {
            let page = PageId::volume(u64::from(file.number), block);
            recorder.record(Event { op, page, client, transaction: None });
        }
    }

    /// Records a mark.
    pub(crate) fn mark(&self, op: Op, client: Option<u32>) {
        let Some(recorder) = self.recorder() else { return };
        recorder.record(Event { op, page: PageId::volume(0, 0), client, transaction: None });
    }

    /// Names a file that was attached.
    pub(crate) fn name(&self, file: &FileInner) {
        if let Some(recorder) = self.recorder() {
            name(&recorder, file);
        }
    }
}

fn name(recorder: &Recorder, file: &FileInner) {
    recorder.name(&PageId::volume(u64::from(file.number), 0), &file.name);
}

impl Local {
    /// See [`crate::Volume::record`].
    pub(crate) fn record(&self, path: &Path) -> Result<(), VolumeError> {
        const OPERATION: &str = "record to";
        let mut present = exclusive(&self.recording.recorder);
        if let Some(recorder) = &*present {
            let reason = format!("the volume is recorded to {} already", recorder.path().display());
            return Err(VolumeError::new(
                VolumeErrorKind::Busy,
                OPERATION,
                path.display().to_string(),
                reason,
            ));
        }
        let page_bytes = self.host().map_or(PAGE_BYTES_WITHOUT_TIER, |host| host.page_size() as u32);
        let recorder = Recorder::create(path, page_bytes, Naming::Volume)
            .map_err(|error| from_trace(OPERATION, path, error))?;
        // Files that are attached from here on see `on` or are in the map: it is set before the map is looked
        // at.
        self.recording.on.store(true, Ordering::SeqCst);
        for file in self.all_files() {
            name(&recorder, &file);
        }
        *present = Some(Arc::new(recorder));
        Ok(())
    }

    /// See [`crate::Volume::stop_recording`].
    pub(crate) fn stop_recording(&self) -> Result<Option<Written>, VolumeError> {
        let Some(recorder) = exclusive(&self.recording.recorder).take() else { return Ok(None) };
        self.recording.on.store(false, Ordering::SeqCst);
        let written = recorder.finish();
        written.map(Some).map_err(|error| from_trace("complete the trace", recorder.path(), error))
    }

    /// Where the volume is recorded to.
    pub(crate) fn recorded_to(&self) -> Option<std::path::PathBuf> {
        self.recording.recorder().map(|recorder| recorder.path().to_owned())
    }
}

fn from_trace(operation: &'static str, path: &Path, error: TraceError) -> VolumeError {
    let kind = match error.kind() {
        TraceErrorKind::Empty => VolumeErrorKind::NothingRecorded,
        TraceErrorKind::Invalid => VolumeErrorKind::InvalidConfig,
        _ => VolumeErrorKind::Io,
    };
    VolumeError::new(kind, operation, path.display().to_string(), error.to_string()).because(error)
}
