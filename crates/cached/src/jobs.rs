//! The engine's jobs, on threads of their own.

use mezzanine_device::{DeviceError, Request};
use mezzanine_fragment::{DeviceError as Refused, Job, Next};

use crate::host::Shared;

/// Counts its thread as ended, whatever has ended it.
struct Ends<'s>(&'s Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.parking.has_ended();
    }
}

impl Shared {
    /// A thread's whole life.
    pub(crate) fn work_until_stopped(&self) {
        let _ends = Ends(self);
        while !self.parking.is_stopped() {
            // Before it is asked: what comes in between has raised it.
            let work = self.cache.work();
            let now = self.now();
            // From a device that is not used again nothing is to be read, so nothing is written to it.
            let next =
                if self.health.is_lost() { Next::NotBefore(u64::MAX) } else { self.cache.next_job(now) };
            match next {
                Next::Job(mut job) => {
                    self.parking.found_one();
                    let done = self.carry_out(&mut job);
                    self.cache.done(job, done);
                    self.turns.answered();
                    if self.cache.health() == mezzanine_fragment::Health::MapFailed {
                        // Nothing could leave any more, and nothing is lost but time.
                        self.give_up("the cache device has refused a block of the map, or a flush");
                    }
                    self.marks.look();
                    self.offer_work();
                }
                Next::NotBefore(until) if until <= now => std::thread::yield_now(),
                Next::NotBefore(until) => {
                    self.parking.sleep(until, || self.now(), || self.cache.work() == work);
                }
            }
        }
    }

    fn carry_out(&self, job: &mut Job<'_>) -> Result<(), Refused> {
        match job {
            Job::ReadFragment(read) => {
                let (volume, offset) = (read.volume(), read.offset());
                let buffer = read.buffer();
                if !self.pace.wait(buffer.len() as u64) {
                    return Err(Refused);
                }
                self.backing(volume).read_at(buffer, offset).map_err(|_| Refused)
            }
            Job::WriteFragment(write) => {
                let written = self.flash.write_at(write.data(), write.offset());
                self.written(written)
            }
            Job::WriteMap(write) => {
                let written = self.flash.write_at(write.data(), write.offset());
                self.written(written)
            }
            Job::FlushCache(_) => {
                let flushed = self.flash.flush();
                self.written(flushed)
            }
            // One that is not served has nothing to be flushed.
            Job::FlushBacking(flush) => match &self.backing[flush.volume()] {
                Some(device) => device.flush().map_err(|_| Refused),
                None => Ok(()),
            },
            Job::WriteBlocks(write) => {
                let mut writes: Vec<_> =
                    write.writes().map(|(offset, buf)| Request::write(buf, offset)).collect();
                let written = match writes.len() {
                    1 => writes.pop().map_or(Ok(()), |write| self.flash.run_one(write)),
                    _ => self.flash.run(&mut writes).into_iter().collect(),
                };
                self.written(written)
            }
        }
    }

    fn written(&self, result: Result<(), DeviceError>) -> Result<(), Refused> {
        result.map_err(|error| {
            self.health.refused(&error, false, self.now());
            Refused
        })
    }
}
