//! The points where a process is killed: read from the sources, so that none is left out.

use std::collections::BTreeMap;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) name: String,
    /// In a critical section: a death there poisons the region.
    pub(crate) inside: bool,
}

/// Every point in the engine and in this test's host.
pub(crate) fn all() -> Vec<Point> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    for folder in ["src", "tests/processes"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                scan(&std::fs::read_to_string(&path).unwrap(), &mut found);
            }
        }
    }
    assert!(found.len() > 20, "the sources are where they were");
    found.into_iter().map(|(name, inside)| Point { name, inside }).collect()
}

fn scan(source: &str, found: &mut BTreeMap<String, bool>) {
    for (call, inside) in [("inside(\"", true), ("outside(\"", false)] {
        for part in source.split(call).skip(1) {
            let name = part.split('"').next().unwrap();
            let other = found.insert(name.to_owned(), inside);
            assert!(other.is_none(), "two points have the name {name:?}");
        }
    }
}
