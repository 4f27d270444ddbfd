//! The points where a process is killed: read from the sources, so that none is left out.

use std::collections::BTreeMap;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) name: String,
    /// In a critical section: a death there poisons the region.
    pub(crate) inside: bool,
    /// Only a design that writes in place comes there.
    pub(crate) in_place: bool,
    /// Only one with a slot directory does.
    pub(crate) slots: bool,
}

/// Every point in the engine and in this test's host.
pub(crate) fn all() -> Vec<Point> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    for folder in ["src", "tests/processes"] {
        visit(&root.join(folder), &mut found);
    }
    assert!(found.len() > 20, "the sources are where they were");
    // Nothing is unreadable for good here: `crates/volume/tests/bad_sectors.rs` is for that.
    found.retain(|name, _| !name.starts_with("unreadable: "));
    found.into_values().collect()
}

fn visit(folder: &Path, found: &mut BTreeMap<String, Point>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let in_place = path.iter().any(|name| name == "in_place");
            scan(&std::fs::read_to_string(&path).unwrap(), in_place, found);
        }
    }
}

fn scan(source: &str, in_place: bool, found: &mut BTreeMap<String, Point>) {
    for (call, inside) in [("inside(\"", true), ("outside(\"", false)] {
        for part in source.split(call).skip(1) {
            let name = part.split('"').next().unwrap().to_owned();
            let slots = name.starts_with("slots: ");
            let point = Point { name: name.clone(), inside, in_place: in_place || slots, slots };
            let other = found.insert(name.clone(), point);
            assert!(other.is_none(), "two points have the name {name:?}");
        }
    }
}
