//! The log of commits outside of the database: a line when a commit is about to be sent, and one when it was
//! acknowledged.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use crate::failure::{Checked, Failure, While as _};

/// A commit of a client, as the ledger has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) client: i32,
    /// Counts the client's commits from 1.
    pub(crate) seq: i32,
    pub(crate) from: i32,
    pub(crate) to: i32,
    pub(crate) amount: i64,
    /// Versions that this transfer made of the two accounts.
    pub(crate) versions: (i32, i32),
}

/// The log, being written.
pub(crate) struct Journal(Mutex<File>);

impl Journal {
    /// Opens it to append.
    pub(crate) fn open(path: &Path) -> Checked<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self(Mutex::new(file.during(|| format!("\"{}\" cannot be opened", path.display()))?)))
    }

    /// Begins anew with what stood in it at another moment.
    pub(crate) fn go_back(&self, text: &str) -> Checked {
        let mut file =
            self.0.lock().map_err(|_| Failure("a client died while it wrote the journal".into()))?;
        file.set_len(0)?;
        Ok(file.write_all(text.as_bytes())?)
    }

    /// What stands in it at this moment, in whole lines.
    pub(crate) fn text(&self, path: &Path) -> Checked<String> {
        let _nobody_writes =
            self.0.lock().map_err(|_| Failure("a client died while it wrote the journal".into()))?;
        Ok(fs::read_to_string(path)?)
    }

    fn add(&self, line: &str) -> Checked {
        let mut file =
            self.0.lock().map_err(|_| Failure("a client died while it wrote the journal".into()))?;
        Ok(file.write_all(line.as_bytes())?)
    }

    /// The commit is about to be sent: from now on it may be in the database.
    pub(crate) fn doubt(&self, t: &Transfer) -> Checked {
        let Transfer { client, seq, from, to, amount, versions: (a, b) } = t;
        self.add(&format!("doubt {client} {seq} {from} {to} {amount} {a} {b}\n"))
    }

    /// It was acknowledged: from now on it must be there.
    pub(crate) fn done(&self, t: &Transfer) -> Checked {
        self.add(&format!("done {} {}\n", t.client, t.seq))
    }

    /// The commit was refused: it must not be there.
    pub(crate) fn refused(&self, t: &Transfer) -> Checked {
        self.add(&format!("refused {} {}\n", t.client, t.seq))
    }
}

/// What the log says of one client.
#[derive(Debug, Default, Clone)]
pub(crate) struct Known {
    /// Its commits that must be there, in order.
    pub(crate) acknowledged: Vec<Transfer>,
    /// One that may be.
    pub(crate) in_doubt: Option<Transfer>,
}

/// Reads a log: what is known of each client.
pub(crate) fn read(path: &Path) -> Checked<HashMap<i32, Known>> {
    parse(&fs::read_to_string(path)?)
}

fn parse(text: &str) -> Checked<HashMap<i32, Known>> {
    let mut known: HashMap<i32, Known> = HashMap::new();
    for line in text.lines() {
        let odd = || Failure(format!("the journal has a line that makes no sense: {line}"));
        let (word, rest) = line.split_once(' ').ok_or_else(odd)?;
        let n: Vec<i64> = rest.split(' ').map_while(|number| number.parse().ok()).collect();
        let client = known.entry(*n.first().ok_or_else(odd)? as i32).or_default();
        match (word, &n[..]) {
            ("doubt", &[id, seq, from, to, amount, a, b]) => {
                client.in_doubt = Some(Transfer {
                    client: id as i32,
                    seq: seq as i32,
                    from: from as i32,
                    to: to as i32,
                    amount,
                    versions: (a as i32, b as i32),
                });
            }
            ("done", &[_, seq]) => {
                let transfer = client.in_doubt.take().filter(|t| i64::from(t.seq) == seq).ok_or_else(odd)?;
                client.acknowledged.push(transfer);
            }
            ("refused", _) => client.in_doubt = None,
            _ => return Err(odd()),
        }
    }
    Ok(known)
}

/// Settles after a check what became of commits in doubt.
pub(crate) fn settle(journal: &Journal, found: &[(Transfer, bool)]) -> Checked {
    found.iter().try_for_each(|(t, there)| if *there { journal.done(t) } else { journal.refused(t) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_says_what_was_acknowledged_and_what_is_in_doubt() {
        let known =
            parse("doubt 1 1 5 6 10 1 1\ndone 1 1\ndoubt 2 1 6 5 3 2 2\ndoubt 1 2 5 6 1 2 3\nrefused 1 2\n")
                .unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(known[&1].acknowledged.len(), 1);
        assert!(known[&1].in_doubt.is_none());
        assert_eq!(known[&2].in_doubt.map(|t| t.versions), Some((2, 2)));
        assert!(parse("done 1 1\n").is_err());
    }
}
