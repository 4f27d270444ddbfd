//! `mezz device cuts`: what power cuts may leave of a recorded device, and whether a database survives it.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use mezzanine_recording::{Absent, Cut, Explanation, Fate, History, Kind, Search, Verdict, explain};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::size::Size;

pub(super) const EXAMPLES: &str = r#"Examples:
  mezz device serve --socket ./nbd.sock --file ./disk.img --record ./disk.rec --marks ./marks.sock
  mezz device cuts ./disk.rec --check './check.sh'
  mezz device cuts ./disk.rec --check './check.sh' --cuts 1000 --seed 7 --json

CHECK is given to sh. In $MEZZ_IMAGE it finds the file with what the device may have after a power
cut, to recover and look at as it likes, and in $MEZZ_MARKS a file with what was marked before the
cut, a line each. It ends with 0 if everything that was marked is there and in order, with 1 to 124
if not (what it says last is the reason), and with anything else if it cannot say.

A cut keeps all that was flushed, and of the rest each write whole, in part (sectors of 512 bytes)
or not at all. The first cut that breaks the database is shrunk to what has to be lost for it, and
the flush that is absent is named; the contents stay in the image."#;

/// The options of `device cuts`.
#[derive(Debug, Args)]
pub(crate) struct CutsArgs {
    /// What `mezz device serve --record` has recorded.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,

    /// Command that looks at the contents after a cut.
    #[arg(long, value_name = "COMMAND")]
    check: String,

    /// Cuts to try.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    cuts: u32,

    /// Seed of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// File for the contents after a cut; written over (default: RECORDING.img).
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

    /// Longest time that a check may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
}

/// What was tried, and what came of it.
#[derive(Serialize)]
struct Report {
    recording: String,
    device_bytes: u64,
    events: u64,
    writes: u64,
    flushes: u64,
    marks: u64,
    cuts: u32,
    ok: bool,
    found: Option<Found>,
}

/// A cut that breaks the database.
#[derive(Serialize)]
struct Found {
    /// In which cut that was tried.
    in_cut: u32,
    why: String,
    /// The power failed before this event was answered.
    before_event: u64,
    /// What is lost, torn, or there although it was under way.
    taken: Vec<Taken>,
    absent_flush: Option<AbsentFlush>,
    image: String,
    /// Contents that were looked at for the explanation.
    judged: u64,
}

#[derive(Serialize)]
struct Taken {
    event: Happened,
    fate: &'static str,
    sectors_kept: Option<u64>,
    /// "first" or "last": which of its sectors those are.
    sectors_end: Option<&'static str>,
}

#[derive(Serialize)]
struct AbsentFlush {
    /// Null if what is trusted in had not been written at all.
    after: Option<Happened>,
    before: Happened,
}

/// An event, as it is told.
#[derive(Serialize)]
struct Happened {
    number: u64,
    kind: &'static str,
    offset: u64,
    bytes: u64,
    mark: Option<String>,
}

struct Checker<'a> {
    args: &'a CutsArgs,
    history: &'a History,
    files: Files,
}

/// What is written for a check, by absolute paths.
struct Files {
    image: PathBuf,
    marks: PathBuf,
    /// What the command says.
    said: PathBuf,
}

impl Files {
    /// Beside the recording, which none of them may be.
    fn beside(args: &CutsArgs) -> Result<Self, Failure> {
        let absolute =
            |path: &Path| std::path::absolute(path).map_err(|error| Failure::refused(path.display(), error));
        let recording = absolute(&args.recording)?;
        let behind = |name: &str| {
            let mut path = recording.clone().into_os_string();
            path.push(name);
            PathBuf::from(path)
        };
        let image = args.image.as_deref().map_or_else(|| Ok(behind(".img")), absolute)?;
        let files = Self { image, marks: behind(".marks"), said: behind(".said") };
        let identity = |path: &Path| fs::metadata(path).map(|there| (there.dev(), there.ino())).ok();
        let mut known = vec![identity(&recording)];
        for path in [&files.image, &files.marks, &files.said] {
            let is_other = fs::metadata(path).is_ok_and(|there| !there.is_file());
            let there = identity(path);
            if is_other || there.is_some() && known.contains(&there) {
                let reason = "it would be written over, and is the recording or no ordinary file";
                let failure = Failure::refused(path.display(), reason);
                return Err(
                    failure.next("give another --image, or move the recording to a folder of its own")
                );
            }
            known.push(there);
        }
        Ok(files)
    }

    fn remove(&self, with_image: bool) {
        for path in [Some(&self.marks), Some(&self.said), with_image.then_some(&self.image)] {
            let _ = path.map(fs::remove_file);
        }
    }
}

/// The group of processes of the check that runs; 0 for none.
static CHECKS: AtomicI32 = AtomicI32::new(0);

/// A check has a group of processes of its own, so a terminal's signals do not reach it.
fn end_children_on_signals() {
    let _ = ctrlc::set_handler(|| {
        end_group(CHECKS.swap(0, Ordering::SeqCst));
        std::process::exit(130);
    });
}

/// Ends what a check has left behind.
fn end_group(leader: i32) {
    if let Some(group) = rustix::process::Pid::from_raw(leader) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

pub(super) fn run(args: &CutsArgs, json: bool) -> Result<(), Failure> {
    let thing = args.recording.display().to_string();
    let history = History::open(&args.recording).map_err(|error| {
        Failure::refused(&thing, error).next("name what `mezz device serve --record` has written")
    })?;
    if history.cut_off() > 0 {
        output::note(&format!(
            "{thing} ends in the middle of an event: its last {} bytes are left out",
            history.cut_off()
        ));
    }
    let end = history.events().len() as u64;
    if history.count(Kind::Write) + history.count(Kind::WriteThrough) + history.count(Kind::Discard) == 0 {
        let failure = Failure::refused(&thing, "nothing was written: there is nothing that a cut could take");
        return Err(failure.next("record while the database works"));
    }
    let files = Files::beside(args)?;
    let checker = Checker { args, history: &history, files };
    end_children_on_signals();
    if let Verdict::Broken(why) = checker.judge(&Cut::before(history.begins()))? {
        let reason = format!("it fails on what there was before anything was recorded: {why}");
        let next = format!("try it on {}, with an empty file for the marks", checker.files.image.display());
        return Err(Failure::refused("--check", reason).next(next));
    }
    let (tried, found) = checker.search()?;
    let count = |kind| history.count(kind);
    let report = Report {
        recording: thing.clone(),
        device_bytes: history.device_len(),
        events: end - history.begins(),
        writes: count(Kind::Write) + count(Kind::WriteThrough) + count(Kind::Discard),
        flushes: count(Kind::Flush),
        marks: count(Kind::Mark),
        cuts: tried,
        ok: found.is_none(),
        found,
    };
    checker.files.remove(report.ok);
    if json {
        output::json(&report)?;
    } else {
        output::print(&report.text())?;
    }
    match &report.found {
        None => Ok(()),
        Some(found) => Err(found.failure(&thing)),
    }
}

impl Checker<'_> {
    /// The first cut that breaks the database, explained.
    fn search(&self) -> Result<(u32, Option<Found>), Failure> {
        let progress = output::progress(u64::from(self.args.cuts), "power cuts");
        let (mut last, mut broken) = (0, None);
        // What nothing is lost for comes first: somebody may trust in what was never written.
        let whole = Cut::before(self.history.events().len() as u64);
        let cuts = std::iter::once(whole).chain(Search::new(self.history, self.args.seed));
        for (tried, cut) in (1..=self.args.cuts).zip(cuts) {
            last = tried;
            let verdict = self.judge(&cut)?;
            if verdict != Verdict::InOrder {
                broken = Some((cut, verdict));
                break;
            }
            progress.inc(1);
        }
        progress.finish_and_clear();
        let Some((cut, verdict)) = broken else { return Ok((last, None)) };
        output::note("a cut breaks it; shrinking it to what matters");
        // It has been asked of the first one already.
        let mut known = Some(verdict);
        let explained = explain(self.history, &cut, &mut |cut| match known.take() {
            Some(verdict) => Ok(verdict),
            None => self.judge(cut),
        })?;
        if self.judge(&explained.cut)? == Verdict::InOrder {
            let failure = Failure::refused("--check", "it says different things of the same contents");
            return Err(failure.next("let it depend on $MEZZ_IMAGE and $MEZZ_MARKS alone"));
        }
        // The contents of the explanation stay, as they were before the check.
        self.history.make(&explained.cut, &self.files.image).map_err(|error| self.unmade(&error))?;
        Ok((last, Some(self.found(last, explained)?)))
    }

    fn judge(&self, cut: &Cut) -> Result<Verdict, Failure> {
        let made = self.history.make(cut, &self.files.image);
        made.map_err(|error| self.unmade(&error))?;
        let marks = self.history.marks(cut.at).map_err(|error| self.unmade(&error))?;
        let lines: String = marks.iter().map(|(_, mark)| format!("{mark}\n")).collect();
        let marks = &self.files.marks;
        fs::write(marks, lines).map_err(|error| Failure::refused(marks.display(), error))?;
        self.check()
    }

    fn unmade(&self, error: &std::io::Error) -> Failure {
        let failure =
            Failure::refused(self.files.image.display(), format!("contents cannot be made: {error}"));
        failure.next(format!("it needs {} there", Size(self.history.device_len())))
    }

    /// Asks the command.
    fn check(&self) -> Result<Verdict, Failure> {
        let failed = |what: String| Failure::refused("--check", what);
        let Files { image, marks, said } = &self.files;
        let unsaid = |error: std::io::Error| Failure::refused(said.display(), error);
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.args.check).env("MEZZ_IMAGE", image).env("MEZZ_MARKS", marks);
        // A file, so that nobody waits for what keeps it open.
        let output = fs::File::create(said).map_err(unsaid)?;
        let errors = output.try_clone().map_err(unsaid)?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let mut child = command.spawn().map_err(|error| failed(format!("sh cannot be started: {error}")))?;
        let group = child.id() as i32;
        CHECKS.store(group, Ordering::SeqCst);
        let begun = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if begun.elapsed() < Duration::from_secs(self.args.patience) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(None) => break None,
                Err(error) => return Err(failed(error.to_string())),
            }
        };
        CHECKS.store(0, Ordering::SeqCst);
        // Whatever it has left behind would go on with the next contents.
        end_group(group);
        let Some(status) = status else {
            let _ = child.wait();
            let failure = failed(format!("it has not ended within {} s", self.args.patience));
            return Err(failure.next("give it more --patience"));
        };
        let why = last_line(said).map_err(unsaid)?.unwrap_or_else(|| "it does not say why".to_owned());
        match status.code() {
            Some(0) => Ok(Verdict::InOrder),
            Some(1..=124) => Ok(Verdict::Broken(why)),
            _ => Err(failed(format!("it cannot say whether the database is in order ({status}): {why}"))
                .next("it ends with 0 if the database is in order, and with 1 to 124 if not")),
        }
    }

    fn found(&self, in_cut: u32, explained: Explanation) -> Result<Found, Failure> {
        let Explanation { cut, why, absent, judged } = explained;
        let marks = self.history.marks(u64::MAX).map_err(|error| self.unmade(&error))?;
        let happened = |number: u64| {
            let event = &self.history.events()[number as usize];
            let kind = match event.kind {
                Kind::Before => "contents before",
                Kind::Write => "write",
                Kind::WriteThrough => "write-through",
                Kind::Discard => "discard",
                Kind::Flush => "flush",
                Kind::Mark => "mark",
                Kind::TriedWrite => "failed write",
                Kind::TriedDiscard => "failed discard",
            };
            let mark = marks.iter().find(|(mark, _)| *mark == number).map(|(_, text)| text.clone());
            let number = number - self.history.begins().min(number);
            Happened { number, kind, offset: event.offset, bytes: event.len, mark }
        };
        let taken = cut.listed().map(|(number, fate)| Taken {
            event: happened(number),
            fate: match fate {
                Fate::Kept => "kept",
                Fate::Lost => "lost",
                Fate::Torn { .. } | Fate::TornLast { .. } => "torn",
            },
            sectors_kept: match fate {
                Fate::Torn { sectors } | Fate::TornLast { sectors } => Some(sectors),
                Fate::Kept | Fate::Lost => None,
            },
            sectors_end: match fate {
                Fate::Torn { .. } => Some("first"),
                Fate::TornLast { .. } => Some("last"),
                Fate::Kept | Fate::Lost => None,
            },
        });
        Ok(Found {
            in_cut,
            why,
            before_event: cut.at - self.history.begins(),
            taken: taken.collect(),
            absent_flush: absent.map(|Absent { after, before }| AbsentFlush {
                after: after.map(happened),
                before: happened(before),
            }),
            image: self.files.image.display().to_string(),
            judged,
        })
    }
}

/// The last line with anything on it, of what a command has said last.
fn last_line(said: &Path) -> std::io::Result<Option<String>> {
    const LOOKED_AT: u64 = 64 << 10;
    let mut file = fs::File::open(said)?;
    let from = file.metadata()?.len().saturating_sub(LOOKED_AT);
    file.seek(SeekFrom::Start(from))?;
    let mut all = Vec::new();
    file.read_to_end(&mut all)?;
    let text = String::from_utf8_lossy(&all);
    Ok(text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned))
}

impl Happened {
    fn text(&self) -> String {
        match &self.mark {
            Some(mark) => format!("mark {:?} (event {})", mark, self.number),
            None => format!("{} {} ({} at byte {})", self.kind, self.number, Size(self.bytes), self.offset),
        }
    }
}

impl Found {
    fn failure(&self, thing: &str) -> Failure {
        let failure =
            Failure::check(thing, format!("power cut {} breaks the database: {}", self.in_cut, self.why));
        let next = match (&self.absent_flush, self.taken.is_empty()) {
            (Some(AbsentFlush { after: Some(after), before }), _) => {
                format!("a flush is absent after {} and before {}", after.text(), before.text())
            }
            (Some(AbsentFlush { after: None, before }), _) if before.mark.is_some() => format!(
                "a flush is absent before {}: what that trusts in had not been written at all",
                before.text()
            ),
            (Some(AbsentFlush { after: None, before }), _) => format!(
                "with {} and nothing behind it: it trusts in what had not been written at all, before which a \
                 flush is absent, or has to be there together with what comes next",
                before.text()
            ),
            (None, true) => "nothing has to be lost for it: no flush would help".to_owned(),
            (None, false) => {
                "no flush is absent: the database needs a write to be there as a whole, or not at all"
                    .to_owned()
            }
        };
        failure.next(next).and(format!("the contents are in {}", self.image))
    }
}

impl Report {
    fn text(&self) -> String {
        let Self { recording, events, writes, flushes, marks, cuts, .. } = self;
        let mut text = format!(
            "{recording}: {events} events of a device of {} ({writes} writes and discards, {flushes} flushes, {marks} marks)\n",
            Size(self.device_bytes)
        );
        let Some(found) = &self.found else {
            return text + &format!("in order after each of {cuts} power cuts\n");
        };
        text += &format!("the power fails before event {} is answered:\n", found.before_event);
        for Taken { event, fate, sectors_kept, sectors_end } in &found.taken {
            let kept = match (sectors_kept, sectors_end) {
                (Some(sectors), Some(end)) => format!(", with its {end} {sectors} sectors kept"),
                _ => String::new(),
            };
            text += &format!("  {} is {fate}{kept}\n", event.text());
        }
        text
    }
}
