//! What the marker notes of the directories of relations when the server is left in order (`at_rest.rs`).

/// A time that a file system has given: seconds and nanoseconds.
pub(crate) type Moment = (i64, i64);

/// A directory of relations as it was left in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Within the data directory.
    pub(crate) path: String,
    pub(crate) inode: u64,
    /// Later than the last change of the server's own.
    pub(crate) moment: Moment,
}

impl Noted {
    /// As the marker has it.
    pub(crate) fn shown(&self) -> String {
        let (seconds, nanoseconds) = self.moment;
        format!("{} {} {seconds} {nanoseconds}", self.path, self.inode)
    }

    /// What a marker has; `None` if it cannot be understood, which notes nothing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.rsplitn(4, ' ');
        let nanoseconds = words.next()?.parse().ok()?;
        let seconds = words.next()?.parse().ok()?;
        let inode = words.next()?.parse().ok()?;
        let path = words.next()?.to_owned();
        Some(Self { path, inode, moment: (seconds, nanoseconds) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_as_it_was_written() {
        let noted = Noted { path: "base/5".into(), inode: 77, moment: (1_700_000_000, 5) };
        assert_eq!(Noted::parse(&noted.shown()), Some(noted));
        assert_eq!(Noted::parse("base/5 77 1700000000"), None);
        assert_eq!(Noted::parse(""), None);
    }
}
