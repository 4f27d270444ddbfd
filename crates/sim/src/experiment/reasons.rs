//! Why ours is not what was published: `data/reasons.toml`.

use std::collections::BTreeMap;

/// The file as it ships: a table for each experiment, in it a reason for each statement by its key.
const FILE: &str = include_str!("../../data/reasons.toml");

/// The reason for a statement of an experiment, if there is one.
///
/// # Panics
/// Never with the file that ships: a test reads it.
pub(super) fn reason(experiment: &str, key: &str) -> Option<String> {
    all().get(experiment)?.get(key).cloned()
}

fn all() -> BTreeMap<String, BTreeMap<String, String>> {
    toml::from_str(FILE).expect("the file that ships is valid")
}

#[cfg(test)]
mod tests {
    use super::super::published::Published;
    use super::*;

    #[test]
    fn reasons_are_given_for_statements_that_there_are() {
        let published = Published::shipped();
        for (id, reasons) in all() {
            let source = published.source(&id);
            let source = source.unwrap_or_else(|| panic!("a reason for {id}, which is no experiment"));
            for (key, reason) in reasons {
                let known = source.statements.iter().any(|statement| statement.key == key);
                assert!(known, "a reason for {id}, {key}, which is no statement");
                assert!(!reason.trim().is_empty(), "{id}, {key}: an empty reason");
            }
        }
    }
}
