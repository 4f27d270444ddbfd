//! Copies are made, and put back.

use super::moment::{Aside, Exchanged, Model, Moment, Origin, Taken, copy};
use super::outcome::{Holds, Outcome, objection};
use super::trouble::Trouble;
use super::{Deed, Histories, Plan, When};
use crate::cycle::Life;
use crate::failure::{Checked, Failure, While as _, demand};
use crate::load::Shared;
use crate::oracle::Oracle;
use crate::random::Random;
use crate::server::Server;
use crate::side::Side;

/// What is put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    DirectoryAlone,
    FlashAlone,
    BothOfOne,
    BothOfTwo,
}

impl Parts {
    fn name(self) -> &'static str {
        match self {
            Self::DirectoryAlone => "the directory put back",
            Self::FlashAlone => "the flash put back",
            Self::BothOfOne => "both of one moment put back",
            Self::BothOfTwo => "both of different moments put back",
        }
    }
}

/// What is known of the cluster that runs, for a copy of it.
pub(crate) struct Known<'a> {
    pub(crate) server: &'a Server,
    pub(crate) shared: &'a Shared,
    pub(crate) side: &'a Side,
    pub(crate) oracle: &'a Oracle,
}

impl Known<'_> {
    /// What must be there from this moment on, and what may.
    fn model(&self) -> Checked<Model> {
        Ok(Model {
            journal: self.shared.journal.text(&Life::journal(self.server))?,
            side: self.side.contents(),
            oracle: self.oracle.clone(),
        })
    }
}

impl Histories {
    fn origin(&mut self, taken: Taken, log_of_start: &str) -> Origin {
        self.moments += 1;
        Origin {
            number: self.moments,
            taken,
            stopping: log_of_start.contains("received fast shutdown request"),
            drained: log_of_start.contains("flash tier closed; the files are up to date"),
            session: self.session,
            branch: self.branch,
            tier: self.tier,
        }
    }

    /// Copies directory and flash; nothing writes to them just now.
    fn copy(&mut self, taken: Taken, known: &Known<'_>) -> Checked {
        let origin = self.origin(taken, &known.server.log.of_start());
        self.note(format!("copy {origin:?}"))?;
        let place = self.place.join(format!("moment-{}", origin.number));
        let moment = Moment::copy(known.server, place, origin, known.model()?)?;
        self.tally.count("copied", taken_name(&origin));
        self.keep(moment)
    }

    /// Copies directory and flash of a server that is running, at one instant.
    pub(crate) fn copy_running(&mut self, known: &Known<'_>) -> Checked {
        let copied = known.server.while_frozen(|| self.copy(Taken::Running, known));
        copied.unwrap_or_else(|| Err(Failure("a copy of a running server, and none is running".into())))
    }
}

fn taken_name(origin: &Origin) -> &'static str {
    match origin.taken {
        Taken::Cold if origin.drained => "of a server that was stopped drained",
        Taken::Cold => "of a server that was stopped",
        Taken::Crashed => "of a server that was killed",
        Taken::Running => "of a running server",
        Taken::Now => "not at all",
    }
}

impl Life {
    /// Everything that a plan has for the time before the load.
    pub(crate) fn before_load(&mut self, plan: &mut Plan) -> Checked {
        if plan.trouble == Some(Trouble::Absent) {
            self.server.set("restart_after_crash", Some("off"))?;
        }
        if plan.copy != Some(When::Cold) {
            return Ok(());
        }
        // Half of them with only copies on flash, where there may be any.
        let drain = if plan.random.below(2) == 0 { "on" } else { "off" };
        self.server.set("mezzanine.drain_on_shutdown", Some(drain))?;
        self.server.stop()?;
        self.copy(Taken::Cold)?;
        self.server.start()?;
        self.histories.started(self.server.sessions);
        Ok(())
    }

    /// Everything that a plan has for a server that was just killed, or whose start was just cut off.
    pub(crate) fn while_down(&mut self, plan: &mut Plan) -> Checked {
        match plan.deed.take() {
            None => Ok(()),
            Some(Deed::PutBack) => self.put_back(&mut plan.random),
            Some(Deed::Rot) => self.rot(&mut plan.random),
        }
    }

    pub(crate) fn copy_crashed(&mut self) -> Checked {
        self.copy(Taken::Crashed)
    }

    fn copy(&mut self, taken: Taken) -> Checked {
        let Self { server, shared, side, oracle, histories, .. } = self;
        histories.copy(taken, &Known { server, shared, side, oracle })
    }

    /// What is there now, as a moment.
    pub(super) fn now(&mut self) -> Checked<(Origin, Model)> {
        let Self { server, shared, side, oracle, histories, .. } = self;
        let model = Known { server, shared, side, oracle }.model()?;
        Ok((histories.origin(Taken::Now, &server.log.of_start()), model))
    }

    pub(super) fn holds(&self) -> Holds {
        Holds {
            only_copies: !self.configuration.flash_may_be_lost(),
            clean_alone: self.configuration.holds_clean_alone(),
        }
    }

    /// Puts one or both parts of kept moments back, starts the server, judges, and puts things right again or
    /// goes on from there.
    fn put_back(&mut self, random: &mut Random) -> Checked {
        if self.histories.kept.is_empty() {
            return Ok(());
        }
        let kept = self.histories.kept.clone();
        // Mostly the newest: parts of one session are the hardest to tell apart.
        let first = &kept[kept.len() - 1 - random.below(2).min(kept.len() as u64 - 1) as usize];
        let others: Vec<&Moment> =
            kept.iter().filter(|other| other.origin.number != first.origin.number).collect();
        let parts = match random.below(8) {
            0..=2 => Parts::DirectoryAlone,
            3 | 4 => Parts::FlashAlone,
            5 => Parts::BothOfOne,
            _ if others.is_empty() => Parts::DirectoryAlone,
            _ => Parts::BothOfTwo,
        };
        let second = if parts == Parts::BothOfTwo { random.of(&others) } else { first };
        let (now, model_now) = self.now()?;
        let directory = if parts == Parts::FlashAlone { now } else { first.origin };
        let flash = if parts == Parts::DirectoryAlone { now } else { second.origin };
        let model = if parts == Parts::FlashAlone { &model_now } else { &first.model };
        let what = format!("{}: directory {directory:?}, flash {flash:?}", parts.name());
        self.histories.note(what.clone())?;

        let exchanged = Exchanged { data: directory != now, flash: flash != now };
        let aside = Aside::keep(&self.server, exchanged)?;
        if exchanged.data {
            copy(&first.data(), &self.server.data())?;
        }
        if exchanged.flash {
            copy(&second.flash(), &self.server.flash())?;
        }
        let ended = self.server.try_start()?;
        let outcome = Outcome::read(&self.server.log.of_start(), ended.is_some());
        self.histories.note(format!("{outcome:?}"))?;
        self.histories.tally.count(parts.name(), &outcome.summary());
        if let Some(why) = objection(&outcome, &directory, &flash, self.holds()) {
            return Err(Failure(format!("{what}: the start came to {outcome:?}, but {why}")));
        }
        if ended.is_some() {
            return self.put_right_after_refusal(aside, exchanged).during(|| what);
        }
        self.check_as(model, !directory.stopping).during(|| what)?;
        self.server.stop_at_once()?;
        if random.below(3) == 0 {
            self.histories.note("the history goes on from there".into())?;
            self.histories.goes_on(&outcome, &flash, self.server.sessions);
            return aside.forget();
        }
        aside.put_back_data()?;
        aside.put_back_flash()?;
        self.go_back(&model_now)?;
        self.histories.note("both put right again".into())?;
        aside.forget()
    }

    /// What was not exchanged stays as the refused start has left it: nothing was changed, says the table.
    fn put_right_after_refusal(&mut self, aside: Aside, exchanged: Exchanged) -> Checked {
        if exchanged.data {
            aside.put_back_data()?;
        }
        if exchanged.flash {
            aside.put_back_flash()?;
        } else {
            demand(aside.flash_is_unchanged()?, || {
                "the start was refused, and has changed the flash".into()
            })?;
        }
        self.histories.note("what was exchanged put right again".into())?;
        aside.forget()
    }

    /// The cluster went back to a moment.
    pub(super) fn go_back(&mut self, model: &Model) -> Checked {
        self.shared.journal.go_back(&model.journal)?;
        self.side.go_back(&model.side);
        self.oracle = model.oracle.clone();
        Ok(())
    }

    /// All checks, of a server whose directory went back to a moment.
    pub(super) fn check_as(&mut self, model: &Model, crashed: bool) -> Checked {
        self.go_back(model)?;
        self.check(false, crashed)
    }
}

impl Histories {
    /// The history that begins with this start is the one of the cluster from now on.
    fn goes_on(&mut self, outcome: &Outcome, flash: &Origin, session: u64) {
        self.branches += 1;
        self.branch = self.branches;
        self.session = Some(session);
        if matches!(outcome, Outcome::Formatted(_)) {
            self.tiers += 1;
            self.tier = self.tiers;
        } else {
            self.tier = flash.tier;
        }
    }
}
