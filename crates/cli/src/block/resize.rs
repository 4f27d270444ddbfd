//! `mezz block resize`: a cache becomes larger or smaller, while it is attached and while it is not.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

use clap::Args;
use mezzanine_cached::{Health, resize_at_rest};
use mezzanine_fragment::format::Superblock;
use mezzanine_report::facts;
use serde::{Deserialize, Serialize};

use super::answers::{done, seconds};
use super::control::{Answer, Request};
use super::devices;
use super::page;
use super::registry::find;
use super::served::Attachment;
use super::verbs::{asked, time};
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz block resize /dev/nvme1n1 --size 200GiB             attached or not
  mezz block resize /run/sdb.sock --size 50GiB --within 5min

The size counts the metadata in, as that of `create` does, and is at most what `create --max-size` said. A cache that shrinks goes on with what lies in \
the rest of its slots. What lies behind them leaves within seconds; what is written to all the time may take longer, and then this ends with code 1: the \
size is in force, and the same command again waits further. Do not make the cache device shorter before it has said that nothing is left. A cache of the page engine keeps the size that it was made with.";

/// The options of `block resize`.
#[derive(Debug, Args)]
pub(crate) struct ResizeArgs {
    /// The cache device; of an attached cache also the socket that clients use, or the control socket.
    cache: PathBuf,

    /// Bytes of the cache device that the cache is to use.
    #[arg(long, value_name = "SIZE")]
    size: Size,

    /// How long to wait at most for what an attached cache has behind a smaller size to leave, and for the
    /// device to take the room back (500ms, 30s, 5min).
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    within: Duration,
}

/// What a resize has come to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Resized {
    cache: String,
    cache_bytes_before: u64,
    cache_bytes: u64,
    cache_bytes_max: u64,
    fragments: u64,
    /// Those that still lie behind the size; they leave in the background.
    fragments_left: u64,
    /// Behind the size, and not given back to the device, as there was no time left.
    #[serde(default)]
    bytes_not_given_back: u64,
    /// It was attached meanwhile.
    is_attached: bool,
    seconds: f64,
}

pub(crate) fn run(args: &ResizeArgs, json: bool) -> Result<(), Failure> {
    let resized: Resized = match find(&args.cache) {
        Ok(socket) => {
            let within_seconds = args.within.as_secs_f64();
            asked(&socket, Request::Resize { bytes: args.size.0, within_seconds })?
        }
        Err(_) => at_rest(&args.cache, args.size)?,
    };
    if json {
        output::json(&resized)?;
    } else {
        output::print(&resized.text())?;
    }
    if resized.fragments_left > 0 {
        let reason = format!(
            "it has its new size, and {} fragments behind that have not left yet",
            resized.fragments_left
        );
        return Err(Failure::check(args.cache.display(), reason).next(
            "they leave in the background; the same command again waits for them; until then leave the cache device as long as it is",
        ));
    }
    Ok(())
}

fn at_rest(path: &Path, size: Size) -> Result<Resized, Failure> {
    let begun = Instant::now();
    if page::is_here(path)? {
        return Err(page::refuse_size(path));
    }
    let device = devices::cache(path, true)?;
    let found = devices::superblocks_whatever_its_length(path, &device)?;
    let before = found.newest.size();
    // Also found out below, where it does not say what to do.
    found.newest.resized(size.0).map_err(|error| refused(path.display(), &error))?;
    let resized = resize_at_rest(&device, &found, size.0);
    let superblock = resized.map_err(|error| Failure::refused(path.display(), chain(&error)))?;
    Ok(Resized::of(path, before, &superblock, false, begun))
}

/// A size that the cache cannot have.
pub(super) fn refused(cache: impl std::fmt::Display, error: &mezzanine_fragment::ConfigError) -> Failure {
    Failure::refused(cache, format!("{}: {}", error.parameter, error.reason)).next(&error.advice)
}

impl Resized {
    fn of(cache: &Path, before: u64, superblock: &Superblock, is_attached: bool, begun: Instant) -> Self {
        Self {
            cache: cache.display().to_string(),
            cache_bytes_before: before,
            cache_bytes: superblock.size(),
            cache_bytes_max: superblock.layout.cache_bytes,
            fragments: superblock.slots_limit,
            fragments_left: 0,
            bytes_not_given_back: 0,
            is_attached,
            seconds: begun.elapsed().as_secs_f64(),
        }
    }

    fn text(&self) -> String {
        let (before, now) = (Size(self.cache_bytes_before), Size(self.cache_bytes));
        let mut all = vec![
            (
                "cache",
                format!("{}, {now}, {before} before, at most {}", self.cache, Size(self.cache_bytes_max)),
            ),
            (
                "fragments",
                format!("{} have room, {} more have to leave", self.fragments, self.fragments_left),
            ),
        ];
        if self.bytes_not_given_back > 0 {
            let bytes = Size(self.bytes_not_given_back);
            let room =
                format!("{bytes} were not given back to the device in time; a longer --within does that");
            all.push(("room", room));
        }
        facts(&all)
    }
}

impl Attachment {
    /// Has the cache use so many bytes of its device: durably first, and then from now on.
    pub(super) fn resize(
        &self,
        bytes: u64,
        within_seconds: f64,
        progress: &mut impl FnMut(&str, u64, u64),
    ) -> Result<Answer, Failure> {
        if let Some(pages) = self.engine.pages() {
            return Err(pages.refuse_size());
        }
        let (begun, (cache, within)) = (Instant::now(), (self.cached()?, seconds(within_seconds)?));
        // The superblock and the cache follow the same order of sizes.
        let _one_at_a_time = match self.resizing.try_lock() {
            Ok(lock) => lock,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let failure = Failure::refused("resize", "the cache is being resized already");
                return Err(
                    failure.next("wait until that has ended, or ask it to wait for less long (--within)")
                );
            }
        };
        let (path, superblock, before) = {
            let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(device) = device.as_mut() else {
                return Err(Failure::refused("resize", "the cache is being detached")
                    .next("resize it when that is done"));
            };
            if cache.statistics().health == Health::Lost {
                let reason = "the cache device is lost, and nothing is written there any more";
                return Err(Failure::refused(device.path.display(), reason)
                    .next("detach it, check the device, and resize it then"));
            }
            let before = device.superblock.size();
            device.note_size(bytes)?;
            (device.path.clone(), device.superblock.clone(), before)
        };
        let slots = u32::try_from(superblock.slots_limit).unwrap_or(u32::MAX);
        let mut total = 0;
        let resized = cache.resize(slots, within, |left| {
            total = left.max(total);
            progress("fragments that have to leave", total - left, total);
            !self.ending.is_wanted()
        });
        let resized = resized.map_err(|error| Failure::refused(path.display(), chain(&error)))?;
        let fragments_left = match resized.is_done {
            true => 0,
            // What has left by now has not been looked at again.
            false => resized.fragments_left.max(1),
        };
        let bytes_not_given_back = resized.not_given_back;
        done(&Resized {
            fragments_left,
            bytes_not_given_back,
            ..Resized::of(&path, before, &superblock, true, begun)
        })
    }
}
