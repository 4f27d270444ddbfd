//! Batches: one submission to each of the two devices at most.

use std::time::Instant;

use mezzanine_device::{DeviceError, Request};
use mezzanine_fragment::{FlushToken, WriteToken};

use crate::host::Shared;
use crate::latency::Served;
use crate::marks::Waited;
use crate::read::{Wanted, divide};
use crate::statistics::{add, count};

/// What becomes of a batch.
struct Batch {
    results: Vec<Result<(), DeviceError>>,
    /// By request: what it was served from, once that is known; none: it was refused.
    served: Vec<Option<Served>>,
    /// Writes and discards that have begun in the engine.
    tokens: Vec<(usize, WriteToken)>,
    /// The same of flushes.
    flushes: Vec<(usize, FlushToken)>,
}

/// Bytes that a request moves.
fn bytes_of(request: &Request<'_>) -> usize {
    match request {
        Request::Read { buf, .. } => buf.len(),
        Request::Write { buf, .. } | Request::WriteThrough { buf, .. } => buf.len(),
        _ => 0,
    }
}

impl Shared {
    /// Requests of a batch are not ordered among themselves (`Device`, promise 3), so what changes something
    /// begins in the engine before anything is read, and ends when the backing device has answered.
    pub(crate) fn batch(&self, volume: usize, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let since = Instant::now();
        let bytes: Vec<usize> = batch.iter().map(bytes_of).collect();
        let mut done = Batch {
            results: batch.iter().map(|_| Ok(())).collect(),
            served: vec![None; batch.len()],
            tokens: Vec::new(),
            flushes: Vec::new(),
        };
        let (mut wanted, mut backing) = (Vec::new(), Vec::new());
        for (number, request) in batch.iter_mut().enumerate() {
            match self.begin(volume, number, request, &mut done, &mut wanted) {
                Ok(None) => {}
                Ok(Some(request)) => backing.push((number, request)),
                Err(error) => done.results[number] = Err(error),
            }
        }
        // Nobody was told before of the marks that they need, so that they are those of one commit.
        self.offer_work();
        let (reading, reads) = (Instant::now(), !wanted.is_empty());
        let all_left = self.read_cached(wanted);
        if reads && all_left.is_empty() {
            self.cache_was_read(reading);
        }
        for left in all_left {
            let served = &mut done.served[left.request];
            *served = if *served == Some(Served::Cache) { Some(Served::Both) } else { *served };
            backing.push((left.request, Request::Read { offset: left.offset, buf: left.buf }));
        }
        // One wait for all: the mark that is durable last.
        let mark = done.tokens.iter().map(|(_, token)| token.waits_for()).max().unwrap_or(0);
        let (before, waited) = (self.cache.marks_durable(), self.wait_for_mark(mark));
        if waited != Waited::No {
            let waiting = done.tokens.iter().filter(|(_, token)| token.waits_for() > before);
            add(&self.volumes[volume].writes_waited, waiting.count() as u64);
        }
        if waited == Waited::InVain {
            self.refuse_unmarked(volume, &mut backing, &mut done);
        }
        self.run_backing(volume, backing, &mut done);
        for (number, token) in done.tokens.drain(..) {
            self.end(Some(token), &done.results[number]);
        }
        for ((served, result), bytes) in done.served.iter().zip(&done.results).zip(bytes) {
            match (served, result) {
                (Some(served), Ok(())) => self.has_served(volume, *served, bytes, since),
                (_, Err(_)) => count(&self.volumes[volume].failed),
                (None, Ok(())) => {}
            }
        }
        done.results
    }

    /// Begins a request: what the backing device is to do at once is given back, and what is read goes to
    /// `wanted`.
    fn begin<'r>(
        &self,
        volume: usize,
        number: usize,
        request: &'r mut Request<'_>,
        done: &mut Batch,
        wanted: &mut Vec<Wanted<'r>>,
    ) -> Result<Option<Request<'r>>, DeviceError> {
        let mut begun = |token: Option<WriteToken>, served| {
            done.served[number] = Some(served);
            done.tokens.extend(token.map(|token| (number, token)));
        };
        let request = match request {
            Request::Read { offset, buf } => {
                let mut pieces = Vec::new();
                self.plan(volume, *offset, buf.len() as u64, &mut pieces)?;
                let any_cached =
                    pieces.iter().any(|piece| piece.source != mezzanine_fragment::Source::Backing);
                begun(None, if any_cached { Served::Cache } else { Served::Backing });
                if !any_cached {
                    return Ok(Some(Request::Read { offset: *offset, buf }));
                }
                divide(number, &pieces, buf, wanted);
                return Ok(None);
            }
            Request::Write { offset, buf, stream } => {
                begun(self.write_begin(volume, *offset, buf)?, Served::Write);
                Request::write_in(*stream, buf, *offset)
            }
            Request::WriteThrough { offset, buf } => {
                begun(self.write_begin(volume, *offset, buf)?, Served::Write);
                count(&self.counters.writes_durable);
                Request::WriteThrough { offset: *offset, buf }
            }
            Request::Discard { offset, len } => {
                begun(self.discard_begin(volume, *offset, *len)?, Served::Discard);
                Request::Discard { offset: *offset, len: *len }
            }
            Request::Flush => {
                begun(None, Served::Flush);
                done.flushes.extend(self.flush_begin(volume).map(|token| (number, token)));
                Request::Flush
            }
            Request::Append { .. } | Request::Reset { .. } | Request::Finish { .. } => {
                return Err(request.unsupported(self.backing(volume).describe()));
            }
        };
        Ok(Some(request))
    }

    /// Takes out what must not be sent, since its mark is not durable and nobody waits for it any more.
    fn refuse_unmarked(&self, volume: usize, backing: &mut Vec<(usize, Request<'_>)>, done: &mut Batch) {
        for (number, _) in done.tokens.iter().filter(|(_, token)| !self.may_be_sent(token.waits_for())) {
            let Some(at) = backing.iter().position(|(of, _)| of == number) else { continue };
            let (_, request) = backing.swap_remove(at);
            let range = request.range().unwrap_or_default();
            done.results[*number] = Err(self.unmarked(volume, request.operation(), range));
        }
    }

    fn run_backing(&self, volume: usize, backing: Vec<(usize, Request<'_>)>, done: &mut Batch) {
        if backing.is_empty() {
            return;
        }
        let (numbers, mut requests): (Vec<_>, Vec<_>) = backing.into_iter().unzip();
        let results = self.backing(volume).run(&mut requests);
        for ((number, request), result) in numbers.into_iter().zip(&requests).zip(results) {
            match request {
                Request::Flush => {
                    let token = done.flushes.iter().position(|(of, _)| *of == number);
                    let token = token.map(|at| done.flushes.swap_remove(at).1);
                    self.flushed(token, &result);
                }
                Request::Read { offset, buf } => self.was_read(volume, *offset, buf.len(), &result),
                _ => {}
            }
            // Of a read in pieces the first failure counts.
            if done.results[number].is_ok() {
                done.results[number] = result;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use mezzanine_device::{Device, MemoryDevice};
    use mezzanine_fragment::Stage;
    use mezzanine_fragment::format::Superblock;

    use crate::{BlockCache, ReadMap, Settings, Voucher};

    struct Paper;

    impl Voucher for Paper {
        fn revoke(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const FRAGMENT: u64 = 128 << 10;

    fn wait(what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{what} does not come");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// A cache of one slot, which is full and settled, and whose threads sleep for an hour.
    fn asleep() -> BlockCache {
        let layout = Superblock::new([1; 16], 64 << 20, FRAGMENT).unwrap().layout;
        let bytes = layout.data_offset + FRAGMENT;
        let disk = Arc::new(MemoryDevice::new(2 * FRAGMENT));
        let superblock = Superblock::new([1; 16], bytes, FRAGMENT).unwrap();
        let superblock = superblock.with_volume([2; 16], "disk", disk.len(), [0; 64]).unwrap();
        let mut config = superblock.opened().config();
        config.throttle.stages = [(1, 1), (1, 1), (0, 3_600_000)].map(|(free_percent, period_ms)| Stage {
            workers: 8,
            miss_percent: 0,
            free_percent,
            period_ms,
        });
        config.map.as_mut().unwrap().settle_ms = 12;
        let flash = Arc::new(MemoryDevice::new(bytes));
        let map = ReadMap::read(config.geometry().unwrap(), &*flash).unwrap();
        let (disks, paper) = (vec![Some(disk as Arc<dyn Device>)], Some(Box::new(Paper) as _));
        let cache = BlockCache::recover(map, flash, disks, Settings::default(), paper).unwrap();
        cache.volume(0).unwrap().read_at(&mut [0; 4096], 0).unwrap();
        wait("a settled fragment", || {
            let found = cache.statistics().engine;
            found.settled > 0 && found.unstable == 0
        });
        let threads = cache.engine().geometry().config().population_workers + 2 + 1;
        wait("sleep", || cache.shared().parking.idle_and_told().0 == threads as usize);
        cache
    }

    #[test]
    fn nobody_is_told_of_a_mark_before_all_of_a_batch_have_begun() {
        let cache = asleep();
        let shared = cache.shared();
        let told = || shared.parking.idle_and_told().1;
        let (before, work) = (told(), shared.cache.work());
        let token = shared.write_begin(0, 0, &[7; 4096]).unwrap();
        assert!(token.as_ref().unwrap().waits_for() > shared.cache.marks_durable());
        assert!(shared.cache.work() > work && told() == before, "there is work, and nobody has heard of it");
        shared.offer_work();
        assert!(told() > work);
        wait("the mark", || shared.may_be_sent(token.as_ref().unwrap().waits_for()));
        shared.end(token, &Ok(()));
    }
}
