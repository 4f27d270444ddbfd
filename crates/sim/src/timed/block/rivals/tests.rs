//! A host that makes one request after the other, and says what is asked of devices, in blocks.

use mezzanine_device::model::OperationKind;

use super::super::between::{Ask, Between, Device, Next, Request};
use super::super::setup::{BLOCK_BYTES, BlockCache, BlockSetup};

/// A volume and a cache device of so many blocks.
pub(super) fn setup(cache: BlockCache, blocks: u64, cache_blocks: u64) -> BlockSetup {
    BlockSetup {
        cache,
        volume_bytes: blocks * BLOCK_BYTES,
        cache_bytes: cache_blocks * BLOCK_BYTES,
        ..BlockSetup::default()
    }
}

pub(super) struct Host<B> {
    pub(super) between: B,
    pub(super) now: u64,
}

fn said(round: &[Ask]) -> Vec<String> {
    let one = |ask: &Ask| {
        let kind = if ask.kind == OperationKind::Write { "write" } else { "read" };
        let device = if ask.device == Device::Cache { "cache" } else { "backing" };
        let (first, blocks) = (ask.offset / BLOCK_BYTES, ask.bytes / BLOCK_BYTES);
        let more = if blocks == 1 { String::new() } else { format!("+{blocks}") };
        format!("{kind} {device} {first}{more}")
    };
    round.iter().map(one).collect()
}

impl<B: Between> Host<B> {
    pub(super) fn new(between: B) -> Self {
        Self { between, now: 0 }
    }

    /// Begins a client's request.
    pub(super) fn begin(&mut self, who: u32, is_write: bool, block: u64, blocks: u64) -> Vec<String> {
        let request = Request { is_write, offset: block * BLOCK_BYTES, bytes: blocks * BLOCK_BYTES };
        let mut round = Vec::new();
        self.between.begin(who, request, self.now, &mut round);
        said(&round)
    }

    /// A round of a client's request is complete: the next one.
    pub(super) fn go_on(&mut self, who: u32) -> Vec<String> {
        let mut round = Vec::new();
        self.between.go_on(who, self.now, &mut round);
        said(&round)
    }

    /// A whole request of client 0.
    fn request(&mut self, is_write: bool, block: u64, blocks: u64) -> Vec<String> {
        let mut all = self.begin(0, is_write, block, blocks);
        loop {
            let round = self.go_on(0);
            if round.is_empty() {
                self.between.check();
                return all;
            }
            all.extend(round.iter().map(|asked| format!("then {asked}")));
        }
    }

    pub(super) fn read(&mut self, block: u64, blocks: u64) -> Vec<String> {
        self.request(false, block, blocks)
    }

    pub(super) fn write(&mut self, block: u64, blocks: u64) -> Vec<String> {
        self.request(true, block, blocks)
    }

    /// Begins a job, if there is one.
    pub(super) fn begin_job(&mut self) -> Option<(u32, Vec<String>)> {
        let mut round = Vec::new();
        match self.between.next_job(self.now, &mut round) {
            Next::Job(job) => Some((job, said(&round))),
            Next::NotBefore(_) => None,
        }
    }

    /// A round of a job is complete: the next one.
    pub(super) fn job_goes_on(&mut self, job: u32) -> Vec<String> {
        let mut round = Vec::new();
        self.between.job_goes_on(job, self.now, &mut round);
        said(&round)
    }

    /// All jobs that there are now, one after the other.
    pub(super) fn work(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some((job, mut round)) = self.begin_job() {
            while !round.is_empty() {
                all.append(&mut round);
                round = self.job_goes_on(job);
            }
        }
        self.between.check();
        all
    }
}
