//! The server's log: where a start begins in it, and what should not be there.

use std::fs::{self, File};
use std::path::PathBuf;

use crate::failure::{Checked, Failure};

/// A process failed by itself, or a page was bad.
const BAD: [&str; 8] = [
    "PANIC:",
    "TRAP:",
    "panicked at",
    "by signal 6",
    "by signal 11",
    "invalid page",
    "could not read block",
    "page verification failed",
];

/// What a process says that finds its postmaster dead while it waits between its commit record and the end of
/// its commit. Any PostgreSQL does: it waits there for room in the checkpointer's queue to unlink the files
/// that it dropped (`RegisterSyncRequest`), and is told to leave when the postmaster is dead.
pub(crate) const LEFT_IN_COMMIT: &str = "it was already committed";

/// The log of all starts of one cluster.
pub(crate) struct Log {
    path: PathBuf,
    /// Its length before the last start.
    launched_at: u64,
    /// How much of it was searched.
    searched: u64,
    /// From where to where it was written while the whole server was being killed, since the last search.
    killed: Vec<(u64, u64)>,
}

impl Log {
    /// The log in this file, which need not be there yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, launched_at: 0, searched: 0, killed: Vec::new() }
    }

    /// The file, for a start that begins now.
    pub(crate) fn open(&mut self) -> Checked<File> {
        let file = File::options().create(true).append(true).open(&self.path)?;
        self.launched_at = file.metadata()?.len();
        Ok(file)
    }

    /// Its length in bytes.
    pub(crate) fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// From `begin` on the whole server was being killed; it is dead now.
    pub(crate) fn was_killed(&mut self, begin: u64) {
        self.killed.push((begin, self.length()));
    }

    /// What the last lines of note say.
    pub(crate) fn tail(&self) -> String {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let worth = |line: &&str| {
            ["PANIC", "FATAL", "TRAP", "flash tier", "panicked"].iter().any(|word| line.contains(word))
        };
        let lines: Vec<&str> = text.lines().filter(worth).collect();
        lines[lines.len().saturating_sub(3)..].join(" | ")
    }

    /// What the start that is under way, or was last, has written.
    pub(crate) fn of_start(&self) -> String {
        String::from_utf8_lossy(&self.since(self.launched_at)).into_owned()
    }

    /// The same as [`Self::check`], where the server may say one of these.
    pub(crate) fn check_but(&mut self, words: &[&str]) -> Checked {
        self.search(&|line| words.iter().any(|words| line.contains(words)))
    }

    /// Nothing since the last call says that a process failed by itself or that a page was bad.
    pub(crate) fn check(&mut self) -> Checked {
        self.search(&|_| false)
    }

    fn search(&mut self, excused: &dyn Fn(&str) -> bool) -> Checked {
        let bytes = self.since(self.searched);
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let begin = self.searched;
        self.searched += whole as u64;
        let killed = std::mem::take(&mut self.killed);
        match complaint(&bytes[..whole], begin, &killed, excused) {
            None => Ok(()),
            Some(line) => Err(Failure(format!("the server's log: {line}"))),
        }
    }

    fn since(&self, place: u64) -> Vec<u8> {
        let mut bytes = fs::read(&self.path).unwrap_or_default();
        bytes.drain(..(place as usize).min(bytes.len()));
        bytes
    }
}

/// The first line that should not be there. The lines begin at `place` in the log.
fn complaint(
    lines: &[u8],
    mut place: u64,
    killed: &[(u64, u64)],
    excused: &dyn Fn(&str) -> bool,
) -> Option<String> {
    // Processes whose panic was excused: their postmaster says that they are gone.
    let mut gone: Vec<String> = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let begin = place;
        place += line.len() as u64;
        let line = String::from_utf8_lossy(line);
        if !BAD.iter().any(|word| line.contains(word)) {
            continue;
        }
        let dying = killed.iter().any(|(from, to)| (*from..*to).contains(&begin));
        let may_be = dying && line.contains(LEFT_IN_COMMIT) || excused(&line);
        if may_be && line.contains("PANIC:") {
            gone.extend(process_of(&line).map(|pid| format!("(PID {pid}) was terminated by signal 6")));
        }
        if !may_be && !gone.iter().any(|words| line.contains(words)) {
            return Some(line.trim_end().to_owned());
        }
    }
    None
}

/// The process that wrote a line, as `log_line_prefix` puts it.
fn process_of(line: &str) -> Option<&str> {
    let (_, from) = line.split_once('[')?;
    from.split_once(']').map(|(pid, _)| pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: &str = "client backend PANIC:  cannot abort transaction 739, it was already committed\n";

    #[test]
    fn a_commit_that_its_postmaster_left_is_no_complaint_while_the_server_is_killed_and_one_otherwise() {
        let text = format!("LOG:  checkpoint starting\n{LEFT}");
        let killed_at = 100 + 26;
        let killed = (killed_at, 100 + text.len() as u64);
        assert_eq!(complaint(text.as_bytes(), 100, &[killed], &|_| false), None);
        assert_eq!(complaint(text.as_bytes(), 100, &[], &|_| false).as_deref(), Some(LEFT.trim_end()));
        assert_eq!(
            complaint(text.as_bytes(), 100, &[(0, killed_at)], &|_| false).as_deref(),
            Some(LEFT.trim_end())
        );
    }

    #[test]
    fn every_other_complaint_counts_while_the_server_is_killed() {
        for word in BAD {
            let line = format!("LOG:  {word} and more\n");
            assert_eq!(
                complaint(line.as_bytes(), 0, &[(0, 1_000)], &|_| false).as_deref(),
                Some(line.trim_end())
            );
        }
        assert_eq!(complaint(b"FATAL:  the database system is starting up\n", 0, &[], &|_| false), None);
    }

    #[test]
    fn whoever_panicked_with_an_excuse_is_gone_with_it() {
        let excused = |line: &str| line.contains("could not fsync file");
        let panicked = "[7] checkpointer PANIC:  could not fsync file \"base/5/1\"\n";
        let gone = "[5] postmaster LOG:  checkpointer process (PID 7) was terminated by signal 6: Aborted\n";
        let other = "[5] postmaster LOG:  server process (PID 77) was terminated by signal 6: Aborted\n";
        let said = |lines: &[&str]| complaint(lines.concat().as_bytes(), 0, &[], &excused);
        assert_eq!(said(&[panicked, gone]), None);
        assert_eq!(said(&[gone]).as_deref(), Some(gone.trim_end()));
        assert_eq!(said(&[panicked, gone, other]).as_deref(), Some(other.trim_end()));
    }

    #[test]
    fn a_log_is_searched_once_and_a_line_when_it_is_whole() {
        let path = std::env::temp_dir().join(format!("mezz-pgtest-log-{}", std::process::id()));
        let mut log = Log::new(path.clone());
        fs::write(&path, "LOG:  begun\nPANIC:  bro").expect("a file can be written");
        assert!(log.check().is_ok());
        fs::write(&path, "LOG:  begun\nPANIC:  broken\n").expect("a file can be written");
        assert!(log.check().is_err());
        assert!(log.check().is_ok());
        let killed_at = log.length();
        fs::write(&path, format!("LOG:  begun\nPANIC:  broken\n{LEFT}")).expect("a file can be written");
        log.was_killed(killed_at);
        assert!(log.check().is_ok());
        let dead_at = log.length();
        fs::write(&path, format!("LOG:  begun\nPANIC:  broken\n{LEFT}{LEFT}"))
            .expect("a file can be written");
        log.killed.push((killed_at, dead_at));
        assert!(log.check().is_err(), "what came after the server was dead is no dying process's");
        fs::remove_file(path).expect("the file can be removed");
    }
}
