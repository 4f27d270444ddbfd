//! How blocks of slots, and heads, come to flash: one job at a time, and a flush that somebody waits for.

use std::sync::atomic::Ordering::Relaxed;

use super::super::InPlace;
use super::{Slots, Stage};
use crate::format::{SLOT_BLOCK_BYTES, SlotHead};
use crate::layout::HOST_METADATA_BYTES;
use crate::placement::FlashWrite;
use crate::planted::{self, Bug};

impl<'r> Slots<'r> {
    /// Whether there is a reason to write what is listed now.
    fn is_urgent(&self, pressing: bool) -> bool {
        let control = self.control;
        let (listed, taken) = (control.listed.get(), control.taken.get());
        let many = u64::from(self.geometry.batch / 2).max(1);
        listed > taken && (pressing || control.wanted.get() > taken || listed - taken >= many)
    }

    /// Copies listed blocks to the job's buffer, as many as it holds.
    fn take(&self, epoch: u32, uuid: &[u8; 16], host_metadata: &[u8; HOST_METADATA_BYTES]) {
        let control = self.control;
        let first = control.taken.get();
        let end = control.listed.get().min(first + u64::from(self.geometry.batch));
        for number in first..end {
            let mut bytes = [0; SLOT_BLOCK_BYTES];
            match self.listed_block(number) {
                block if block == self.head() => {
                    // While the last head may be torn the other copy is the one that counts.
                    let durable = control.head_change.get() <= control.durable.get();
                    control.head_copy.set(control.head_copy.get() ^ u64::from(durable));
                    control.head_change.set(number + 1);
                    let head = SlotHead {
                        epoch,
                        number: control.head_number.bump(1) + 1,
                        host_metadata: *host_metadata,
                    };
                    let head = head.encode(uuid);
                    bytes[..head.len()].copy_from_slice(&head);
                }
                block => {
                    self.region.copy_out(self.layout.image + block as usize * SLOT_BLOCK_BYTES, &mut bytes);
                }
            }
            self.region.copy_in(self.layout.buffer + (number - first) as usize * SLOT_BLOCK_BYTES, &bytes);
        }
        control.taken.set(end);
    }

    fn listed_block(&self, number: u64) -> u32 {
        self.list[(number % self.list.len() as u64) as usize].load(Relaxed)
    }

    /// What the job that has blocks in hand writes.
    pub(crate) fn writes(&self) -> Vec<FlashWrite> {
        let control = self.control;
        let first = control.written.get();
        let write = |number| {
            let offset = match self.listed_block(number) {
                block if block == self.head() => self.geometry.head_offset(control.head_copy.get()),
                block => self.geometry.block_offset(block),
            };
            let at = self.layout.buffer + (number - first) as usize * SLOT_BLOCK_BYTES;
            FlashWrite { offset, memory: at, bytes: SLOT_BLOCK_BYTES }
        };
        (first..control.taken.get()).map(write).collect()
    }

    /// Whether a flush is worth its cost for slots that were written. Under the control lock.
    pub(crate) fn want_flush(&self, pressing: bool) -> bool {
        let control = self.control;
        let durable = control.durable.get();
        let (written, goal) = (control.written.get(), control.goal.get());
        written > durable && (pressing || goal > durable && written >= goal)
    }

    /// A flush of flash begins. Under the control lock.
    pub(crate) fn flush_begins(&self) {
        self.control.covered.set(self.control.written.get());
    }

    /// It is done. Under the control lock.
    pub(crate) fn flushed(&self) {
        self.control.durable.set(self.control.covered.get());
        self.set_goal();
    }

    /// The number of the last change so far, which is wanted durable now. Under the lock of the homes.
    pub(crate) fn want_listed(&self) -> u64 {
        self.want(self.control.listed.get());
        self.control.listed.get()
    }

    /// Changes of slots that are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.control.durable.get()
    }
}

impl InPlace<'_> {
    /// The head, which has the host's bytes, is to be written; false without a slot directory. Under the
    /// control lock.
    pub(crate) fn head_listed(&self) -> bool {
        let Some(slots) = self.homes().slots else { return false };
        let _guard = self.homes().lock(self.owner);
        slots.list(slots.head());
        true
    }

    /// Takes the next write of slots, if there is one and it is time. Under the control lock.
    pub(crate) fn take_listed(&self, owner: u32, pressing: bool) -> bool {
        let Some(slots) = self.homes().slots else { return false };
        let host_metadata = self.current_host_metadata();
        let control = slots.control;
        let _guard = self.homes().lock(self.owner);
        match control.job.get() {
            Stage::Idle if slots.is_urgent(pressing) => {
                slots.take(self.control().epoch.get() as u32, &self.uuid, &host_metadata);
            }
            Stage::ToWrite => {}
            Stage::Idle | Stage::Writing => return false,
        }
        control.job.set(Stage::Writing);
        planted::inside("slots: taken");
        control.job_owner.set(owner.into());
        true
    }

    /// The job's blocks are on the device. Under the control lock.
    pub(crate) fn listed_written(&self) {
        let Some(slots) = self.homes().slots else { return };
        let _guard = self.homes().lock(self.owner);
        let control = slots.control;
        assert_eq!(control.job.get(), Stage::Writing, "a job completed twice");
        let blocks = control.taken.get() - control.written.get();
        self.control().counters.metadata_bytes_written.count(blocks * SLOT_BLOCK_BYTES as u64);
        control.written.set(control.taken.get());
        control.job.set(Stage::Idle);
    }

    /// Hands the blocks of an owner that has died out again. Under the control lock.
    pub(crate) fn abandon_slots(&self, dead: u64) {
        let Some(slots) = self.homes().slots else { return };
        if slots.control.job.get() == Stage::Writing && slots.control.job_owner.get() == dead {
            slots.control.job.set(Stage::ToWrite);
            if planted::is(Bug::DeadWriteCounts) {
                slots.control.written.set(slots.control.taken.get());
                slots.control.job.set(Stage::Idle);
            }
        }
    }
}
