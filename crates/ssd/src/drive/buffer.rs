//! The write buffer: a ring of frames that are filled by writes and emptied into flash, the oldest first.
//!
//! A frame is waiting until a plane takes it, on its way while that plane programs it, and free again when it
//! and all before it are in flash; the map names flash from then on. A unit that is written again while its
//! frame waits takes that frame over: only the newest version goes to flash. Not where a power cut is to keep
//! the order of writes: there every version has a frame of its own.
//!
//! Planes take frames when they are free, a page's worth at a time, of one stream; a frame without a partner
//! waits for one until a flush.
//!
//! Invariant *B1*: `released <= started <= filled <= released + frames`; frames before `started` are on their
//! way.

use crate::ftl::{Frame, Ftl, Location};
use crate::geometry::UNITS_PER_PAGE_MAX;
use crate::state::Words;

use super::Ssd;

/// Frames that are looked at for a partner of the same stream.
const PARTNERS_LOOKED_AT: u64 = 64;

impl Ssd {
    /// Puts a unit into the buffer at `now` or as soon as there is a frame. Returns when it is there.
    pub(super) fn fill(
        &self,
        words: &mut Words,
        ftl: &mut Ftl<'_>,
        now: u64,
        logical: u32,
        stream: u32,
    ) -> u64 {
        ftl.counters.units_written += 1;
        let frames = ftl.frames.len() as u64;
        let waits = |frame: &u32| !self.keeps_order && ftl.frames[*frame as usize].done_at == 0;
        if let Some(frame) = ftl.location(logical).frame().filter(waits) {
            ftl.counters.units_coalesced += 1;
            let there = &mut ftl.frames[frame as usize];
            there.stream = stream;
            // The version before may still wait for the frame itself.
            let at = now.max(there.filled_at);
            if let Some(record) = &mut ftl.record {
                record.rewritten(frame, at);
            }
            return at;
        }
        let mut at = now;
        if words.filled - words.released >= frames {
            self.start_waiting(words, ftl, now);
            at = self.wait_for_frame(words, ftl, now);
            if at > now {
                ftl.counters.write_stalls += 1;
                ftl.counters.write_stall_ns += at - now;
            }
        }
        // What was in it before is in flash by then: another write may have waited for that already.
        let at = at.max(ftl.frames.of_turn(words.filled).done_at);
        let frame = self.fill_frame(words, ftl, at, logical, stream);
        if let Some(record) = &mut ftl.record {
            record.filled(frame, logical, at);
        }
        at
    }

    /// Puts a unit into the next frame, which is free.
    #[inline]
    pub(crate) fn fill_frame(
        &self,
        words: &mut Words,
        ftl: &mut Ftl<'_>,
        at: u64,
        logical: u32,
        stream: u32,
    ) -> u32 {
        let frame = ftl.frames.number(words.filled);
        let before = std::mem::replace(&mut ftl.map[logical as usize], Location::Buffer(frame).word());
        ftl.frames[frame as usize] =
            Frame { filled_at: at, done_at: 0, logical: logical + 1, stream, target: 0, before };
        words.filled += 1;
        words.waiting += 1;
        frame
    }

    /// Gives frames to planes that are free by `now`, as long as whole pages wait.
    #[inline]
    pub(super) fn start_waiting(&self, words: &mut Words, ftl: &mut Ftl<'_>, now: u64) {
        let per_page = u64::from(ftl.array.geometry.units_per_page());
        while words.waiting >= per_page && ftl.is_any_free(now) {
            if !self.start_page(words, ftl, now, false) {
                break;
            }
        }
    }

    /// Waits until a frame is free. Returns when that is.
    pub(super) fn wait_for_frame(&self, words: &mut Words, ftl: &mut Ftl<'_>, now: u64) -> u64 {
        let frames = ftl.frames.len() as u64;
        self.release(words, ftl, now);
        let mut at = now;
        while words.filled - words.released >= frames {
            let oldest = ftl.frames.of_turn(words.released).done_at;
            if oldest == 0 {
                self.start_page(words, ftl, at, true);
                continue;
            }
            at = at.max(oldest);
            self.release(words, ftl, at);
        }
        at
    }

    /// Programs all that waits, partners or not. Returns when everything is in flash.
    pub(super) fn program_all(&self, words: &mut Words, ftl: &mut Ftl<'_>, now: u64) -> u64 {
        while words.waiting > 0 {
            self.start_page(words, ftl, now, true);
        }
        let on_their_way = words.released..words.filled;
        let last = on_their_way.map(|turn| ftl.frames.of_turn(turn).done_at).max();
        // A command that waited for frames has freed them as of a time to come.
        let done = last.unwrap_or(0).max(now).max(words.free_from);
        self.release(words, ftl, done);
        done
    }

    /// The number of the oldest frame that waits. Frames that were given up are passed.
    #[inline]
    fn next_waiting(&self, words: &mut Words, ftl: &mut Ftl<'_>) -> u32 {
        let mut number = ftl.frames.number(words.started);
        while words.started < words.filled && ftl.frames[number as usize].done_at != 0 {
            words.started += 1;
            number = ftl.frames.after(number);
        }
        number
    }

    /// Programs a page of the oldest frame that waits and of those of its stream that follow. Unless it
    /// `must`, it does nothing, and returns false, if there is no partner for the whole page or no plane is
    /// free by `now`.
    fn start_page(&self, words: &mut Words, ftl: &mut Ftl<'_>, now: u64, must: bool) -> bool {
        let per_page = ftl.array.geometry.units_per_page() as usize;
        let mut chosen = [0; UNITS_PER_PAGE_MAX as usize];
        let (mut count, mut filled_at) = (0, 0);
        let mut number = self.next_waiting(words, ftl);
        let stream = ftl.frames[number as usize].stream;
        for _ in 0..(words.filled - words.started).min(PARTNERS_LOOKED_AT) {
            let frame = &ftl.frames[number as usize];
            if frame.done_at == 0 && frame.stream == stream {
                chosen[count] = number;
                filled_at = frame.filled_at.max(filled_at);
                count += 1;
                if count == per_page {
                    break;
                }
            }
            number = ftl.frames.after(number);
        }
        if count < per_page && !must {
            return false;
        }
        let stream = stream as usize;
        let mut plane = None;
        if !must {
            let first_free = ftl.first_free(stream);
            if ftl.free_at(first_free) > now {
                return false;
            }
            plane = Some(first_free);
        }
        // A plane that has been free for a while has begun when the last of them came.
        let not_before = if must { filled_at.max(now) } else { filled_at };
        let mut not_before = not_before.max(*ftl.settled_at);
        if ftl.owes_journal() {
            not_before = ftl.keep_journal(self.map_pages, self.logical_units, not_before);
            // What the journal gave up is needed until then (T4).
            not_before = not_before.max(*ftl.settled_at);
            plane = None;
        }
        let plane = plane.unwrap_or_else(|| ftl.first_free(stream));
        let page = ftl.begin_page(plane, stream, not_before);
        for (unit, number) in (page.unit..).zip(&chosen[..count]) {
            let frame = &mut ftl.frames[*number as usize];
            frame.target = Location::Flash(unit).word();
            frame.done_at = page.done_at.max(1);
            let Frame { logical: owner, before, .. } = *frame;
            ftl.array.put(unit, owner);
            // It is released soon.
            ftl.prefetch(owner - 1, before);
            if let Some(record) = &mut ftl.record {
                record.started(*number, unit, page.begins_at, page.done_at);
            }
        }
        ftl.end_page(plane, stream, &page, count as u32);
        words.waiting -= count as u64;
        ftl.pay(plane, per_page as u32);
        ftl.counters.units_programmed += count as u64;
        ftl.journal.dirty += count as u64;
        true
    }

    /// Frees the frames that are in flash by `now`, the oldest first.
    #[inline]
    pub(super) fn release(&self, words: &mut Words, ftl: &mut Ftl<'_>, now: u64) {
        let number = ftl.frames.number(words.released);
        if words.released < words.filled && ftl.frames[number as usize].is_in_flash(now) {
            self.release_from(words, ftl, number, now);
        }
    }

    /// Frees the frames that are in flash by `now` from the oldest on, which is one of them.
    fn release_from(&self, words: &mut Words, ftl: &mut Ftl<'_>, oldest: u32, now: u64) {
        let mut number = oldest;
        while words.released < words.filled && ftl.frames[number as usize].is_in_flash(now) {
            let frame = ftl.frames[number as usize];
            if let Some(logical) = frame.logical.checked_sub(1) {
                let own = Location::Buffer(number).word();
                // Whatever has named this frame names its place in flash from now on: the map, or the frame
                // of a newer version.
                let mut word = &mut ftl.map[logical as usize];
                while *word != own {
                    let Location::Buffer(newer) = Location::of(*word) else {
                        unreachable!("B1: a frame that was not given up is named by the map or a newer frame")
                    };
                    word = &mut ftl.frames[newer as usize].before;
                }
                *word = frame.target;
                ftl.give_up(frame.before);
                let free_from = words.free_from.max(frame.done_at);
                if let Some(record) = &mut ftl.record {
                    // In order: a map without a journal has it when all before it is in flash.
                    let ready_at =
                        if self.keeps_order && record.keeps_map() { free_from } else { frame.done_at };
                    record.named(logical, frame.target, ready_at);
                }
            }
            if let Some(record) = &mut ftl.record {
                record.released(number);
            }
            // Frames are released one after the other: those of one that is next soon are fetched.
            ftl.prefetch_lists(ftl.frames.ahead_of(number).before);
            // It is free when all before it are.
            words.free_from = words.free_from.max(frame.done_at);
            ftl.frames[number as usize].done_at = words.free_from;
            words.released += 1;
            number = ftl.frames.after(number);
        }
        *ftl.settled_at = now.max(*ftl.settled_at);
        words.started = words.started.max(words.released);
    }

    /// Gives a unit up wherever it is.
    pub(super) fn forget(&self, words: &mut Words, ftl: &mut Ftl<'_>, logical: u32, now: u64) {
        let mut at = std::mem::take(&mut ftl.map[logical as usize]);
        if at == 0 {
            return;
        }
        let mut targets = Vec::new();
        while let Location::Buffer(number) = Location::of(at) {
            let frame = &mut ftl.frames[number as usize];
            if ftl.record.is_some() {
                targets.push((frame.target, frame.done_at));
            }
            at = std::mem::take(&mut frame.before);
            frame.logical = 0;
            let target = std::mem::take(&mut frame.target);
            if frame.done_at == 0 {
                // It never goes to flash.
                frame.done_at = now.max(frame.filled_at).max(1);
                words.waiting -= 1;
            }
            ftl.give_up(target);
        }
        // What it had may be erased from then on.
        *ftl.settled_at = now.max(*ftl.settled_at);
        ftl.journal.dirty += 1;
        if let Some(record) = &mut ftl.record {
            // What gets into flash before then is there until then.
            let is_left_out = self.keeps_order && record.keeps_map();
            let is_named = |target: u32| target != 0 && !is_left_out;
            targets.retain(|(target, _)| is_named(*target));
            for (target, done_at) in targets.into_iter().rev() {
                record.named(logical, target, done_at);
            }
            record.discarded(logical, now);
        }
        ftl.give_up(at);
    }
}
