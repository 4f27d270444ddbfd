//! A program drawn from a seed, and run in two worlds: one without us, and one with databases on tiers.
//!
//! Steps are carried out in the world with tiers first. What is refused there, from a list, does not take
//! place in the other one; of everything else the answers are the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mezzanine_ground::random::Random;

use crate::support::copy_folder;
use crate::worker::{Answer, SLOTS};
use crate::world::{DATABASES, Kind, WORKERS, World};

const SQLITE_OK: i32 = 0;
const SQLITE_BUSY: i32 = 5;

/// The refusals that a program may meet where it opens a database, by words of their reasons.
const REFUSALS: [&str; 2] = ["it is in use by", "it is already open elsewhere"];

const DIGEST: &str = "SELECT count(*), total(a), total(length(b)), total(a * c % 10007) FROM main.t";

/// A connection, as far as the program knows it.
struct Open {
    main: usize,
    attached: Option<usize>,
    autocommit: bool,
}

#[derive(Default)]
pub(crate) struct Told {
    pub(crate) steps: u64,
    pub(crate) kills: u64,
    /// Kills before a commit was acknowledged.
    pub(crate) killed_commits: u64,
    pub(crate) forks: u64,
    pub(crate) refusals: BTreeMap<&'static str, u64>,
    pub(crate) trials: u64,
    pub(crate) trials_refused: u64,
    /// Trials with an older file that was not told from the newest.
    pub(crate) untold: u64,
}

pub(crate) struct Program {
    random: Random,
    tier: World,
    stock: World,
    open: [[Option<Open>; SLOTS]; WORKERS],
    forking: bool,
    /// What the databases held that were put aside.
    saved: Option<BTreeMap<usize, String>>,
    trace: Vec<String>,
    pub(crate) told: Told,
}

/// What is put in the place of what belongs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    OlderFile,
    OlderFlash,
    OlderFileSidecarAndLogs,
    LostSidecar,
    /// After the copy and the original have both been used again.
    FlashOfACopy,
    Copy,
    OtherName,
}

impl Change {
    /// Something is older than the rest, and may be what is read.
    fn is_older(self) -> bool {
        matches!(self, Self::OlderFile | Self::OlderFlash | Self::OlderFileSidecarAndLogs)
    }

    /// Everything is there, and belongs together.
    fn is_whole(self) -> bool {
        matches!(self, Self::Copy | Self::OtherName)
    }
}

/// The refusal of the list that this is.
fn refusal(answer: &Answer) -> Option<&'static str> {
    REFUSALS.into_iter().find(|words| answer.code == SQLITE_BUSY && answer.text.contains(words))
}

impl Program {
    /// `without` is a rule that is taken out where there are tiers, or nothing.
    pub(crate) fn new(seed: u64, without: &str) -> Self {
        let mut random = Random::new(seed);
        let mode = if random.below(3) == 0 { "through" } else { "durable" };
        Self {
            random,
            tier: World::new(Kind::Tier(mode), without),
            stock: World::new(Kind::Stock, ""),
            open: Default::default(),
            forking: false,
            saved: None,
            trace: vec![format!("seed {seed}, {mode}")],
            told: Told::default(),
        }
    }

    fn note(&mut self, step: impl Into<String>) {
        self.trace.push(step.into());
    }

    fn fail(&self, what: &str) -> ! {
        let from = self.trace.len().saturating_sub(60);
        panic!("{what}\n{}\n...\n{}", self.trace[0], self.trace[from..].join("\n"));
    }

    /// Has a step carried out in both worlds, in the other one unless it is refused. `line` is made for each.
    fn both(
        &mut self,
        worker: usize,
        line: impl Fn(&World) -> String,
        may_be_refused: bool,
        rows: bool,
    ) -> Result<Answer, &'static str> {
        let asked = line(&self.tier);
        let ours = self.tier.ask(worker, &asked);
        self.note(format!("worker {worker}: {asked}\n    {} {} {}", ours.code, ours.autocommit, ours.text));
        if let Some(why) = refusal(&ours).filter(|_| may_be_refused && self.somebody_has_a_tier(worker)) {
            *self.told.refusals.entry(why).or_default() += 1;
            return Err(why);
        }
        let asked = line(&self.stock);
        let theirs = self.stock.ask(worker, &asked);
        let same_rows = !rows || ours.code != SQLITE_OK || ours.text == theirs.text;
        if (ours.code, ours.autocommit) != (theirs.code, theirs.autocommit) || !same_rows {
            self.fail(&format!("stock answers {} {} {}", theirs.code, theirs.autocommit, theirs.text));
        }
        Ok(ours)
    }

    /// Whether a database on a tier is open: by another process, or by this one, for a child that it forks.
    fn somebody_has_a_tier(&self, worker: usize) -> bool {
        let on_tier = |open: &Open| {
            DATABASES[open.main].1.is_some()
                || open.attached.is_some_and(|other| DATABASES[other].1.is_some())
        };
        let others = self.open.iter().enumerate().filter(|(other, _)| *other != worker || self.forking);
        others.flat_map(|(_, slots)| slots).flatten().any(on_tier)
    }

    fn sql(&mut self, worker: usize, slot: usize, sql: &str) -> Answer {
        // How many frames are in a log depends on what was there before the last closing.
        let rows = !sql.contains("wal_checkpoint");
        let line = format!("sql\t{slot}\t{sql}");
        let answer = self.both(worker, |_| line.clone(), false, rows);
        let Ok(answer) = answer else { self.fail("a statement was refused") };
        if let Some(open) = &mut self.open[worker][slot] {
            open.autocommit = answer.autocommit;
        }
        answer
    }

    /// Each database with a table, in the journal mode that is drawn.
    fn set_up(&mut self) {
        for database in 0..DATABASES.len() {
            let journal = self.journal_mode();
            self.open_on(0, 0, database);
            for sql in [
                &*format!("PRAGMA journal_mode = {journal}"),
                "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c INTEGER)",
                "CREATE INDEX i ON t (b)",
                &*insert("main", 1, 60, 300),
            ] {
                self.sql(0, 0, sql);
            }
            self.close(0, 0);
        }
    }

    fn journal_mode(&mut self) -> &'static str {
        ["delete", "wal", "truncate", "persist", "wal"][self.random.below(5) as usize]
    }

    fn open_on(&mut self, worker: usize, slot: usize, database: usize) {
        let opened = self.both(worker, |world| format!("open\t{slot}\t{}", world.uri(database)), true, false);
        if opened.is_ok_and(|answer| answer.code == SQLITE_OK) {
            self.open[worker][slot] = Some(Open { main: database, attached: None, autocommit: true });
        }
    }

    fn close(&mut self, worker: usize, slot: usize) {
        let answer = self.both(worker, |_| format!("close\t{slot}"), false, false);
        if answer.is_ok_and(|answer| answer.code == SQLITE_OK) {
            self.open[worker][slot] = None;
        }
    }

    fn attach(&mut self, worker: usize, slot: usize, database: usize) {
        let line = |world: &World| format!("sql\t{slot}\tATTACH '{}' AS att", world.uri(database));
        match self.both(worker, line, true, false) {
            Ok(answer) if answer.code == SQLITE_OK => {
                if let Some(open) = &mut self.open[worker][slot] {
                    open.attached = Some(database);
                }
            }
            Ok(_) => {}
            // An ATTACH that fails has the connection read its schemas again.
            Err(_) => drop(self.stock.ask(worker, &format!("sql\t{slot}\tATTACH '/nowhere/at/all' AS att"))),
        }
    }

    fn kill(&mut self, worker: usize) {
        self.note(format!("worker {worker} is killed"));
        self.told.kills += u64::from(self.tier.kill(worker));
        self.stock.kill(worker);
        self.open[worker] = Default::default();
    }

    /// A commit, and a kill while it is under way: it has taken place, or it has not.
    fn killed_commit(&mut self, worker: usize, slot: usize) {
        let Some(open) = &self.open[worker][slot] else { return };
        let database = open.main;
        // What is on no tier others may have open, and then it may be locked when it is looked at.
        let alone = DATABASES[database].1.is_some();
        if !open.autocommit || !alone || self.sql(worker, slot, "BEGIN IMMEDIATE").code != SQLITE_OK {
            return;
        }
        let before = self.sql(worker, slot, DIGEST).text;
        for _ in 0..=self.random.below(2) {
            let sql = self.change("main");
            self.sql(worker, slot, &sql);
        }
        let after = self.sql(worker, slot, DIGEST).text;
        let wait = if self.random.below(4) == 0 { 0 } else { self.random.below(600) };
        self.note(format!("worker {worker} commits in {slot} and is killed after {wait} us"));
        let commit = format!("sql\t{slot}\tCOMMIT");
        let heard = self.tier.ask_and_kill(worker, &commit, Duration::from_micros(wait));
        self.open[worker] = Default::default();
        self.told.kills += 1;
        let acknowledged = heard.is_some_and(|answer| answer.code == SQLITE_OK);
        self.told.killed_commits += u64::from(!acknowledged);
        let found = self.read(worker, database);
        if acknowledged && found != after {
            self.fail(&format!("acknowledged, and then there is {found} instead of {after}"));
        }
        if found == after && found != before {
            let committed = self.stock.ask(worker, &commit);
            if committed.code != SQLITE_OK {
                self.fail(&format!("stock does not commit: {}", committed.text));
            }
        } else if found != before {
            self.fail(&format!("{found} is neither {before} nor {after}"));
        }
        self.stock.kill(worker);
        self.open_on(worker, slot, database);
        self.sql(worker, slot, DIGEST);
        self.sql(worker, slot, "PRAGMA integrity_check");
    }

    /// What the world with tiers has in a database, by a connection for that alone.
    fn read(&mut self, worker: usize, database: usize) -> String {
        let uri = self.tier.uri(database);
        let opened = self.tier.ask(worker, &format!("open\t0\t{uri}"));
        let read = self.tier.ask(worker, &format!("sql\t0\t{DIGEST}"));
        let closed = self.tier.ask(worker, "close\t0");
        if [&opened, &read, &closed].iter().any(|answer| answer.code != SQLITE_OK) {
            self.fail(&format!("after a kill: {opened:?} {read:?} {closed:?}"));
        }
        read.text
    }

    fn fork(&mut self, worker: usize, slot: usize, database: usize) {
        let sql = if self.random.below(2) == 0 { DIGEST.to_owned() } else { self.change("main") };
        let line = |world: &World| {
            let uses = if world.kind == Kind::Stock { "none" } else { "inherited" };
            format!("fork\t{slot}\t{uses}\t{}\t{sql}", world.uri(database))
        };
        // Without us a child must not touch what it inherits, nor can it without harm open what its parent
        // has.
        let of_parent = self.open[worker].iter().flatten().any(|open| {
            open.main == database || open.attached == Some(database) || DATABASES[open.main].1.is_none()
        }) || DATABASES[database].1.is_none();
        if of_parent {
            return;
        }
        self.told.forks += 1;
        self.forking = true;
        let _ = self.both(worker, line, true, true);
        self.forking = false;
    }

    fn schema(&mut self, worker: usize, slot: usize) -> &'static str {
        let attached = self.open[worker][slot].as_ref().is_some_and(|open| open.attached.is_some());
        if attached && self.random.below(2) == 0 { "att" } else { "main" }
    }

    /// A statement that changes rows.
    fn change(&mut self, schema: &str) -> String {
        let divisor = 2 + self.random.below(9);
        let rest = self.random.below(divisor);
        match self.random.below(4) {
            0 => format!("UPDATE {schema}.t SET b = b || 'y', c = c + 1 WHERE a % {divisor} = {rest}"),
            1 => format!("DELETE FROM {schema}.t WHERE a % {} = {rest}", divisor + 4),
            _ => {
                let (first, rows) = (self.random.below(10_000), 1 + self.random.below(40));
                insert(schema, first, rows, 10 + self.random.below(1500))
            }
        }
    }

    fn statement(&mut self, worker: usize, slot: usize) {
        let schema = self.schema(worker, slot);
        let sql = match self.random.below(30) {
            0..=8 => self.change(schema),
            9..=11 => ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"][self.random.below(3) as usize].into(),
            12..=14 => "COMMIT".into(),
            15 => "ROLLBACK".into(),
            16 => "SAVEPOINT s".into(),
            17 => ["ROLLBACK TO s", "RELEASE s"][self.random.below(2) as usize].into(),
            18 => format!("PRAGMA {schema}.journal_mode = {}", self.journal_mode()),
            19 => {
                let level = ["OFF", "NORMAL", "FULL", "EXTRA"][self.random.below(4) as usize];
                format!("PRAGMA {schema}.synchronous = {level}")
            }
            20 => {
                let how = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][self.random.below(4) as usize];
                format!("PRAGMA {schema}.wal_checkpoint({how})")
            }
            21 => "VACUUM".into(),
            22 => {
                format!("CREATE TABLE IF NOT EXISTS {schema}.extra AS SELECT a, b FROM {schema}.t LIMIT 20")
            }
            23 => format!("DROP TABLE IF EXISTS {schema}.extra"),
            24 => format!(
                "PRAGMA {schema}.locking_mode = {}",
                ["exclusive", "normal"][self.random.below(2) as usize]
            ),
            25 => format!("PRAGMA {schema}.integrity_check"),
            _ => DIGEST.replace("main.", &format!("{schema}.")),
        };
        self.sql(worker, slot, &sql);
    }

    /// Nobody has anything open after this.
    fn end_all(&mut self) {
        let kill = self.random.below(2) == 0;
        self.note(format!("all workers {}", if kill { "are killed" } else { "end" }));
        let ended = self.tier.end_all(kill);
        self.told.kills += if kill { ended } else { 0 };
        self.stock.end_all(kill);
        self.open = Default::default();
    }

    /// Databases, sidecars, logs and flash are put aside, or back, as they are at rest.
    fn save_or_restore(&mut self) {
        self.end_all();
        if self.saved.is_some() && self.random.below(2) == 0 {
            self.note("everything is put back");
            self.tier.restore("saved");
            self.stock.restore("saved");
            return;
        }
        self.note("everything is saved");
        self.tier.save("saved");
        self.stock.save("saved");
        let digests = self.digests("read");
        self.tier.restore("saved");
        self.stock.restore("saved");
        self.saved = Some(digests);
    }

    /// What the world with tiers has in its databases.
    fn digests(&mut self, what: &str) -> BTreeMap<usize, String> {
        let read = |(database, _)| (database, self.read(0, database));
        let digests = DATABASES.iter().enumerate().map(read).collect();
        self.tier.end_all(false);
        self.note(format!("{what}: {digests:?}"));
        digests
    }

    /// Files that do not belong together: nothing that was never there is read. Then they are as they were.
    fn trial(&mut self) {
        let Some(saved) = self.saved.clone() else { return };
        self.end_all();
        self.tier.save("before");
        let mut now = self.digests("before the trial");
        if self.random.below(2) == 0 {
            self.tier.restore("before");
        }
        let database = self.random.below(3) as usize;
        let (name, flash) = (DATABASES[database].0, DATABASES[database].1.unwrap_or(""));
        let elsewhere = self.tier.other_place("elsewhere");
        let _ = std::fs::remove_dir_all(&elsewhere);
        let mut place = self.tier.place();
        let change = match self.random.below(7) {
            // A file without the log that belongs to it, or with another one, is another database to SQLite
            // as well.
            0 if !has_logs(&self.tier.other_place("saved"), name) && !has_logs(&place, name) => {
                self.tier.restore_parts("saved", |part| part == name);
                Change::OlderFile
            }
            1 => {
                self.tier.restore_parts("saved", |part| part == flash);
                Change::OlderFlash
            }
            2 => {
                self.tier.restore_parts("saved", |part| part.starts_with(name));
                Change::OlderFileSidecarAndLogs
            }
            3 => {
                let _ = std::fs::remove_file(place.join(format!("{name}.mezzanine")));
                Change::LostSidecar
            }
            4 => {
                copy_folder(&place, &elsewhere);
                for at in [&elsewhere, &place] {
                    let uri = self.tier.uri_in(at, database);
                    let sql = self.change("main");
                    let lines = [format!("open\t0\t{uri}"), format!("sql\t0\t{sql}"), "close\t0".to_owned()];
                    lines.iter().for_each(|line| drop(self.tier.ask(0, line)));
                    self.tier.end_all(false);
                }
                now = self.digests("after both went on");
                std::fs::copy(elsewhere.join(flash), place.join(flash)).unwrap();
                Change::FlashOfACopy
            }
            5 => {
                copy_folder(&place, &elsewhere);
                place = elsewhere;
                Change::Copy
            }
            _ => {
                std::fs::rename(&place, &elsewhere).unwrap();
                place = elsewhere;
                Change::OtherName
            }
        };
        self.told.trials += 1;
        let uri = self.tier.uri_in(&place, database);
        let found = open_and_read(&mut self.tier, &uri);
        self.note(format!("trial with {name}, {change:?}: {found:?}"));
        // An older file alone is compared in the pages that were staged out last (docs/copies.md, "What
        // cannot be told").
        let refused = matches!(&found, Err(answer) if !answer.text.ends_with(" / "));
        let untold = change == Change::OlderFile && !refused;
        match &found {
            _ if untold => self.told.untold += 1,
            Ok((digest, check)) => {
                // Only where something older was put there may something older be read.
                let is_older = change.is_older() && *digest == saved[&database];
                let is_known = is_older || *digest == now[&database];
                if !is_known || check != "ok|" {
                    self.fail(&format!(
                        "{change:?}: {digest} {check}, and there were {} and {}",
                        now[&database], saved[&database]
                    ));
                }
            }
            Err(answer) if change.is_whole() => {
                self.fail(&format!("{change:?} is refused: {}", answer.text));
            }
            // SQLite's own words alone say nothing.
            Err(_) if !refused => self.fail("refused without a reason"),
            Err(_) => self.told.trials_refused += 1,
        }
        if change.is_whole() {
            self.change_all_in(&place);
        }
        let _ = std::fs::create_dir_all(self.tier.place());
        self.tier.restore("before");
    }

    /// Every database in this folder can be changed. In the order of their names backwards, since the other
    /// has been opened there before.
    fn change_all_in(&mut self, place: &Path) {
        for database in (0..DATABASES.len()).rev() {
            let uri = self.tier.uri_in(place, database);
            for line in [&*format!("open\t0\t{uri}"), "sql\t0\tINSERT INTO t (b) VALUES ('x')", "close\t0"] {
                let answer = self.tier.ask(0, line);
                if answer.code != SQLITE_OK {
                    self.fail(&format!("in another place, {line}: {}", answer.text));
                }
            }
        }
        self.tier.end_all(false);
    }

    fn step(&mut self) {
        self.told.steps += 1;
        let (worker, slot) =
            (self.random.below(WORKERS as u64) as usize, self.random.below(SLOTS as u64) as usize);
        let database = self.random.below(DATABASES.len() as u64) as usize;
        match self.random.below(100) {
            0..=1 => self.save_or_restore(),
            2..=3 => self.trial(),
            4..=6 => self.kill(worker),
            7..=8 => self.fork(worker, slot, database),
            _ => match &self.open[worker][slot] {
                None => self.open_on(worker, slot, database),
                Some(open) => match self.random.below(40) {
                    0 => self.close(worker, slot),
                    1..=2 if open.attached.is_none() && open.autocommit => {
                        self.attach(worker, slot, database)
                    }
                    3..=5 => self.killed_commit(worker, slot),
                    _ => self.statement(worker, slot),
                },
            },
        }
    }

    /// Carries it out, and looks at everything at its end.
    pub(crate) fn run(mut self, steps: u64) -> Told {
        eprintln!("program {}", self.trace[0]);
        self.set_up();
        for _ in 0..steps {
            self.step();
        }
        self.end_all();
        for database in 0..DATABASES.len() {
            self.open_on(0, 0, database);
            if self.open[0][0].is_none() {
                self.fail("a database cannot be opened though nobody has it");
            }
            self.sql(0, 0, DIGEST);
            self.sql(0, 0, "PRAGMA integrity_check");
            self.close(0, 0);
        }
        self.told
    }
}

/// Whether a database may have committed changes in a log beside it.
fn has_logs(folder: &Path, name: &str) -> bool {
    ["-wal", "-journal"].iter().any(|log| folder.join(format!("{name}{log}")).exists())
}

fn insert(schema: &str, first: u64, rows: u64, bytes: u64) -> String {
    format!(
        "WITH RECURSIVE n (i) AS (VALUES ({first}) UNION ALL SELECT i + 1 FROM n WHERE i < {}) INSERT INTO {schema}.t (b, c) \
         SELECT printf('%d-%.*c', i * 7919 % 1009, {bytes} + i % 50, 'x'), i FROM n",
        first + rows - 1
    )
}

/// What is read at `uri` by a process of its own, and SQLite's check of it; or why it is not.
fn open_and_read(world: &mut World, uri: &str) -> Result<(String, String), Answer> {
    let mut ask = |line: &str| {
        let answer = world.ask(0, line);
        if answer.code == SQLITE_OK { Ok(answer.text) } else { Err(answer) }
    };
    let read = ask(&format!("open\t0\t{uri}"))
        .and_then(|_| Ok((ask(&format!("sql\t0\t{DIGEST}"))?, ask("sql\t0\tPRAGMA integrity_check")?)));
    world.end_all(false);
    read
}
