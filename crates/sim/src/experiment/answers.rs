//! What an experiment answers: ours for each statement.

use super::published::Source;
use super::verdict::Ours;

/// Ours, by the keys of the statements.
#[derive(Debug, Default)]
pub(super) struct Answers(Vec<(String, Ours)>);

impl Answers {
    /// Answers a statement.
    ///
    /// # Panics
    /// If it is answered already.
    pub(super) fn set(&mut self, key: &str, ours: Ours) {
        assert!(self.0.iter().all(|(known, _)| known != key), "statement '{key}' is answered twice");
        self.0.push((key.to_owned(), ours));
    }

    /// The answers in the order of the statements.
    ///
    /// # Panics
    /// If a statement has no answer, or an answer no statement.
    pub(super) fn in_order(mut self, source: &Source) -> Vec<Ours> {
        let mut take = |key: &str| {
            let at = self.0.iter().position(|(known, _)| known == key);
            let at = at.unwrap_or_else(|| panic!("{}: statement '{key}' has no answer", source.id));
            self.0.swap_remove(at).1
        };
        let answers = source.statements.iter().map(|statement| take(&statement.key)).collect();
        assert!(self.0.is_empty(), "{}: answers to no statement: {:?}", source.id, self.0);
        answers
    }
}
