//! Bytes rot in the flash of a server that is down.
//!
//! What each kind of place may cost (docs/reliability.md, "What an error may cost"):
//!
//! - a superblock of the two, a dead or a clean frame: nothing;
//! - a dirty frame, `durable`: that page, an error that names it; the start, if redo without full page images
//!   needs the page;
//! - a dirty frame, `drained`: the server restarts from its log, and the tier is made anew;
//! - a metadata segment: nothing, or what the tier holds; in `durable` the start, which says that the tier
//!   cannot be recovered.
//!
//! Whatever starts has everything else, and with the flash as it was before the server has all of it.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::blocks;
use super::flash::{self, PageName, Places};
use super::moment::{Aside, Exchanged, Model};
use super::outcome::{DAMAGED, Holds, Outcome};
use crate::cycle::Life;
use crate::failure::{Checked, Failure, While as _, demand};
use crate::random::Random;

/// What rots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Dirty,
    Clean,
    Dead,
    Superblock,
    Segment,
}

impl Place {
    /// Dirty frames twice: they are what is asked about.
    const DRAWN: [Self; 6] =
        [Self::Dirty, Self::Dirty, Self::Clean, Self::Dead, Self::Superblock, Self::Segment];

    fn is_among(self, places: &Places) -> bool {
        match self {
            Self::Dirty => !places.dirty.is_empty(),
            Self::Clean => !places.clean.is_empty(),
            Self::Dead => !places.dead.is_empty(),
            Self::Superblock | Self::Segment => true,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Dirty => "rot in dirty frames",
            Self::Clean => "rot in clean frames",
            Self::Dead => "rot in dead frames",
            Self::Superblock => "rot in a superblock",
            Self::Segment => "rot in a metadata segment",
        }
    }
}

/// What a server says of a page that is lost.
const LOST: &str = "cannot be read from the flash tier";
/// What a server in `drained` says that restarts without the pages of its tier.
const LOG_HAS_IT: [&str; 2] = [LOST, "No page was lost: the server restarts from its log"];
/// A tier in `drained` that has lost a page ends servers; one start or restart for each page, and some.
const RESTARTS_MAX: u32 = 6;

impl Life {
    /// Lets bytes rot, starts the server, judges, and puts all back as it was.
    pub(super) fn rot(&mut self, random: &mut Random) -> Checked {
        let Some(places) = flash::look(&self.server.flash())? else { return Ok(()) };
        let there = Place::DRAWN.iter().filter(|place| place.is_among(&places)).copied().collect::<Vec<_>>();
        let place = random.of(&there);
        let offsets = draw(place, &places, random);
        let rotten: HashSet<PageName> = offsets
            .iter()
            .filter_map(|at| flash::names(&places.dirty).get(&(at - at % 8192)).copied())
            .collect();
        let what = format!("{} at {offsets:?}, pages {rotten:?}", place.name());
        self.histories.note(what.clone())?;
        let (now, model) = self.now()?;
        let aside = Aside::keep(&self.server, Exchanged { data: false, flash: false })?;
        spoil(&self.server.flash(), &offsets)?;
        let outcome = self.start_on_rot(place, &rotten, &model, !now.stopping).during(|| what.clone())?;
        self.histories.note(outcome.clone())?;
        self.histories.tally.count(place.name(), &outcome);
        self.server.stop_at_once()?;
        aside.put_back_data()?;
        aside.put_back_flash()?;
        self.go_back(&model)?;
        self.histories.note("both put right again".into())?;
        aside.forget()
    }

    /// Starts the server on rotten flash and judges what comes of it. In words, if that is in order.
    fn start_on_rot(
        &mut self,
        place: Place,
        rotten: &HashSet<PageName>,
        model: &Model,
        crashed: bool,
    ) -> Checked<String> {
        let holds = self.holds();
        let ends_servers = place == Place::Dirty && !holds.only_copies && !holds.clean_alone;
        let ended = self.server.try_start()?;
        let log = self.server.log.of_start();
        if ends_servers {
            return self.restart_from_log(ended, model);
        }
        let outcome = Outcome::read(&log, ended.is_some());
        if let Some(why) = objection(place, &outcome, holds) {
            return Err(Failure(format!("the start came to {outcome:?}, but {why}")));
        }
        if ended.is_some() {
            return Ok(outcome.summary());
        }
        if place != Place::Dirty {
            self.check_as(model, crashed)?;
            return Ok(outcome.summary());
        }
        self.compare_blocks(rotten)
    }

    /// A page that only flash had is lost, or was healed; every other is what it is with the flash as it was.
    fn compare_blocks(&mut self, rotten: &HashSet<PageName>) -> Checked<String> {
        let excused = |error: &postgres::Error| {
            error
                .as_db_error()
                .is_some_and(|said| lost_page(said.message()).is_some_and(|it| rotten.contains(&it)))
        };
        let found = match self.server.try_connect_to("postgres") {
            Ok(mut db) => blocks::read(&mut db, &excused)?,
            Err(error) if excused(&error) => return Ok("a page of the catalogs is lost, and named".into()),
            Err(error) => return Err(error.into()),
        };
        self.histories.rotten = Some(found.clone());
        self.server.log.check()?;
        let lost = found.values().filter(|digest| digest.is_none()).count();
        Ok(if lost > 0 { "pages are lost, and named".into() } else { "no page of a table is lost".into() })
    }

    /// In `drained` the log has all: the server ends, once or more, and then it has everything.
    fn restart_from_log(&mut self, mut ended: Option<String>, model: &Model) -> Checked<String> {
        let mut restarts = 0;
        loop {
            let log = self.server.log.of_start();
            let read = match &ended {
                Some(status) => Err(Failure(format!("the server ended: {status}"))),
                None => self.server.connect().and_then(|mut db| blocks::read(&mut db, &|_| false)),
            };
            let Err(Failure(why)) = read else { break };
            restarts += 1;
            demand(restarts <= RESTARTS_MAX, || format!("restarts do not end: {why}"))?;
            // What ended it is in the log, or will be.
            std::thread::sleep(std::time::Duration::from_millis(50));
            let log = if ended.is_some() { log } else { self.server.log.of_start() };
            demand(LOG_HAS_IT.iter().any(|words| log.contains(words)), || {
                format!("the server ended for another reason than a lost page: {why}")
            })?;
            ended =
                if ended.is_some() { self.server.try_start()? } else { self.server.wait_ready_or_ended()? };
        }
        self.server.log.check_but(&["flash tier", "terminated by signal 6"])?;
        self.check_as(model, true)?;
        Ok(if restarts > 0 { "restarted from its log".into() } else { "no page was needed".into() })
    }

    /// With the flash as it was: what blocks hold that were not lost without it.
    pub(crate) fn compare_with_rotten(&mut self) -> Checked {
        let Some(found) = self.histories.rotten.take() else { return Ok(()) };
        let should = blocks::read(&mut self.server.connect()?, &|_| false)?;
        blocks::compare(&found, &should).during(|| "after rot in dirty frames".into()).map(|_| ())
    }
}

/// Where bytes rot.
fn draw(place: Place, places: &Places, random: &mut Random) -> Vec<u64> {
    let of_frames = |frames: &[u64], most: u64, random: &mut Random| -> Vec<u64> {
        (0..1 + random.below(most)).map(|_| random.of(frames) + random.below(8192)).collect()
    };
    match place {
        Place::Dirty => {
            let offsets: Vec<u64> = places.dirty.iter().map(|(offset, _)| *offset).collect();
            of_frames(&offsets, 3, random)
        }
        Place::Clean => of_frames(&places.clean, 12, random),
        Place::Dead => of_frames(&places.dead, 12, random),
        Place::Superblock => vec![random.of(&places.superblocks) + random.below(4096)],
        Place::Segment => {
            let length = places.segments.end - places.segments.start;
            vec![places.segments.start + random.below(length)]
        }
    }
}

/// Changes a byte at each of these places.
fn spoil(flash: &Path, offsets: &[u64]) -> Checked {
    let file = OpenOptions::new().read(true).write(true).open(flash)?;
    for offset in offsets {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *offset)?;
        file.write_all_at(&[byte[0] ^ 0x5A], *offset)?;
    }
    Ok(())
}

/// Why the table does not allow what a start came to.
fn objection(place: Place, outcome: &Outcome, holds: Holds) -> Option<String> {
    match outcome {
        Outcome::Adopted => None,
        Outcome::Emptied(_) if holds.clean_alone || place == Place::Segment && !holds.only_copies => None,
        Outcome::Emptied(_) => Some("nothing allows that the tier is emptied".into()),
        Outcome::Refused(why) if place == Place::Segment && holds.only_copies => {
            (!why.contains(DAMAGED)).then(|| "these words are not in the table".into())
        }
        Outcome::Refused(_) => Some("this rot does not cost the start".into()),
        Outcome::Formatted(_) => Some("nothing allows that the tier is made anew".into()),
        Outcome::Silent => Some("the log does not say what became of the tier".into()),
    }
}

/// The page that an error says to be lost.
fn lost_page(message: &str) -> Option<PageName> {
    let rest = message.strip_prefix("the newest version of block ")?;
    let (block, rest) = rest.split_once(" in file \"")?;
    let (path, rest) = rest.split_once('"')?;
    if !rest.contains(LOST) {
        return None;
    }
    let file = path.rsplit('/').next()?;
    let (relation, fork) = file.split_once('_').map_or((file, "main"), |(relation, fork)| (relation, fork));
    let fork = ["main", "fsm", "vm", "init"].iter().position(|name| *name == fork)?;
    Some((relation.parse().ok()?, fork as u32, block.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURABLE: Holds = Holds { only_copies: true, clean_alone: false };

    #[test]
    fn an_error_names_its_page() {
        let said = |file: &str| {
            format!("the newest version of block 7 in file \"{file}\" cannot be read from the flash tier")
        };
        assert_eq!(lost_page(&said("base/5/16384")), Some((16384, 0, 7)));
        assert_eq!(lost_page(&said("base/5/16384_vm")), Some((16384, 2, 7)));
        assert_eq!(lost_page("could not read block 7 in file \"base/5/16384\""), None);
    }

    #[test]
    fn only_damaged_metadata_may_cost_a_start() {
        let refused = Outcome::Refused("FATAL:  the flash tier on \"f\" cannot be recovered: damaged".into());
        assert!(objection(Place::Segment, &refused, DURABLE).is_none());
        for place in [Place::Dirty, Place::Clean, Place::Dead, Place::Superblock] {
            assert!(objection(place, &refused, DURABLE).is_some());
            assert!(objection(place, &Outcome::Emptied(String::new()), DURABLE).is_some());
        }
    }
}
