//! A folder with databases, and the processes that have them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;

use crate::support::{Folder, copy_folder};
use crate::worker::Answer;

/// The databases, by name, and the flash file of each. The last one is on no tier in either world.
pub(crate) const DATABASES: [(&str, Option<&str>); 4] =
    [("a.db", Some("one.mezz")), ("b.db", Some("one.mezz")), ("c.db", Some("two.mezz")), ("s.db", None)];
pub(crate) const WORKERS: usize = 3;

/// Whether databases are on tiers, and in which sync mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Stock,
    Tier(&'static str),
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(without: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "worker_process", "--nocapture", "--test-threads=1"])
            .env("MEZZANINE_PROGRAMS_WORKER", without)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn send(&mut self, line: &str) {
        // A process that is gone says nothing either.
        let _ = self.input.write_all(format!("{line}\n").as_bytes());
    }

    fn hear(&mut self) -> Answer {
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line).unwrap_or(0) == 0 {
                return Answer { code: -1, autocommit: true, text: "the process is gone".to_owned() };
            }
            if let Some(answer) = Answer::parse(line.trim_end_matches('\n')) {
                crate::ANSWERED.fetch_add(1, Ordering::Relaxed);
                return answer;
            }
        }
    }

    /// What it had said that nobody has heard.
    fn kill(mut self) -> Option<Answer> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let rest = self.output.lines().map_while(Result::ok);
        rest.filter_map(|line| Answer::parse(&line)).last()
    }
}

pub(crate) struct World {
    pub(crate) kind: Kind,
    folder: Folder,
    /// The rule that its processes are without, or nothing.
    without: String,
    workers: Vec<Option<Process>>,
}

impl World {
    pub(crate) fn new(kind: Kind, without: &str) -> Self {
        let folder = Folder::in_memory();
        fs::create_dir(folder.file("now")).unwrap();
        Self { kind, folder, without: without.to_owned(), workers: (0..WORKERS).map(|_| None).collect() }
    }

    pub(crate) fn place(&self) -> PathBuf {
        self.folder.file("now")
    }

    pub(crate) fn other_place(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// How a database in `place` is opened.
    pub(crate) fn uri_in(&self, place: &Path, database: usize) -> String {
        let (name, flash) = DATABASES[database];
        let path = place.join(name);
        match (self.kind, flash) {
            (Kind::Tier(mode), Some(flash)) => format!(
                "file:{}?vfs=mezzanine&flash={}&flash_size=1MiB&page_size=4096&sync_mode={mode}",
                path.display(),
                place.join(flash).display()
            ),
            _ => format!("file:{}?vfs=unix", path.display()),
        }
    }

    pub(crate) fn uri(&self, database: usize) -> String {
        self.uri_in(&self.place(), database)
    }

    fn worker(&mut self, worker: usize) -> &mut Process {
        self.workers[worker].get_or_insert_with(|| Process::start(&self.without))
    }

    /// Has a worker carry out a step.
    pub(crate) fn ask(&mut self, worker: usize, line: &str) -> Answer {
        let process = self.worker(worker);
        process.send(line);
        process.hear()
    }

    /// Has a worker begin a step, and kills it a little later. What it has still answered.
    pub(crate) fn ask_and_kill(
        &mut self,
        worker: usize,
        line: &str,
        after: std::time::Duration,
    ) -> Option<Answer> {
        self.worker(worker).send(line);
        std::thread::sleep(after);
        self.workers[worker].take().and_then(Process::kill)
    }

    /// Whether there was anybody to kill.
    pub(crate) fn kill(&mut self, worker: usize) -> bool {
        self.workers[worker].take().map(Process::kill).is_some()
    }

    /// Has all workers end: in order, or killed. Says how many there were.
    pub(crate) fn end_all(&mut self, kill: bool) -> u64 {
        let mut ended = 0;
        for worker in &mut self.workers {
            let Some(process) = worker.take() else { continue };
            ended += 1;
            if kill {
                let _ = process.kill();
                continue;
            }
            let Process { mut child, input, output } = process;
            // Its standard input ends, and so does it.
            drop(input);
            let _ = child.wait();
            drop(output);
        }
        ended
    }

    /// Puts a copy of the folder down, as it is. Nobody may have anything open.
    pub(crate) fn save(&self, name: &str) {
        let to = self.folder.file(name);
        copy_folder(&self.place(), &to);
    }

    /// Everything is as it was when it was saved by that name.
    pub(crate) fn restore(&self, name: &str) {
        copy_folder(&self.folder.file(name), &self.place());
    }

    /// Of what was saved by that name, what `is_wanted` takes the place of what is there.
    pub(crate) fn restore_parts(&self, name: &str, is_wanted: impl Fn(&str) -> bool) {
        let (from, to) = (self.folder.file(name), self.place());
        let names: BTreeSet<String> = names_in(&from).into_iter().chain(names_in(&to)).collect();
        for part in names.iter().filter(|name| is_wanted(name)) {
            let (from, to) = (from.join(part), to.join(part));
            let _ = fs::remove_dir_all(&to).or_else(|_| fs::remove_file(&to));
            match fs::metadata(&from) {
                Ok(found) if found.is_dir() => copy_folder(&from, &to),
                Ok(_) => drop(fs::copy(&from, &to).unwrap()),
                Err(_) => {}
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end_all(true);
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.to_str().unwrap().to_owned()).collect()
}
