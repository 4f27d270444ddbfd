//! The committed table: where each planted bug is found, and after how many power cuts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mezzanine_engine::planted::Bug;
use serde::{Deserialize, Serialize};

use crate::search::Kind;

/// What is known of one planted bug.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// The durability invariant that it breaks.
    pub(crate) invariant: u32,
    /// Cuts after which the world of the volume finds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) volume: Option<u64>,
    /// Cuts after which the world of the database finds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) database: Option<u64>,
    /// Cuts after which the world of histories finds it; looked for where neither of the others does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) histories: Option<u64>,
    /// Cuts after which the world of runners finds it; looked for in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runners: Option<u64>,
    /// Files of tests that find it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tests: Vec<String>,
    /// Why nothing finds it: the other rule that covers for this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unseen: Option<String>,
}

impl Row {
    pub(crate) fn cuts(&self, kind: Kind) -> Option<u64> {
        match kind {
            Kind::Volume => self.volume,
            Kind::Database => self.database,
            Kind::Histories => self.histories,
            Kind::Runners => self.runners,
        }
    }

    pub(crate) fn set_cuts(&mut self, kind: Kind, cuts: Option<u64>) {
        match kind {
            Kind::Volume => self.volume = cuts,
            Kind::Database => self.database = cuts,
            Kind::Histories => self.histories = cuts,
            Kind::Runners => self.runners = cuts,
        }
    }

    /// The world that is quicker, and its cuts.
    pub(crate) fn quickest(&self) -> Option<(Kind, u64)> {
        let cuts = |kind| Some((kind, self.cuts(kind)?));
        Kind::ALL.into_iter().filter_map(cuts).min_by_key(|(_, cuts)| *cuts)
    }
}

/// All rows, by switch.
pub(crate) struct Table(BTreeMap<String, Row>);

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn data() -> PathBuf {
    root().join("crates/sim/data/planted.toml")
}

fn document() -> PathBuf {
    root().join("docs/planted-bugs.md")
}

const BEGIN: &str = "<!-- planted bugs: written by crates/sim/tests/planted_bugs -->\n";
const END: &str = "<!-- end of planted bugs -->\n";

impl Table {
    pub(crate) fn read() -> Self {
        Self(toml::from_str(&std::fs::read_to_string(data()).unwrap()).unwrap())
    }

    pub(crate) fn row(&self, bug: Bug) -> Row {
        self.0.get(&format!("{bug:?}")).cloned().unwrap_or_else(|| panic!("{bug:?} has no row in the table"))
    }

    pub(crate) fn set(&mut self, bug: Bug, row: Row) {
        self.0.insert(format!("{bug:?}"), row);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The table as the document shows it.
    fn markdown(&self) -> String {
        let mut out = String::from(
            "| switch | invariant | volume world | database world | histories | runners | tests |\n|---|---|---|---|---|---|---|\n",
        );
        for &bug in Bug::ALL {
            let row = self.row(bug);
            let cuts = |kind| row.cuts(kind).map_or_else(String::new, thousands);
            let found = match &row.unseen {
                Some(why) => format!("not found: {why}"),
                None => row.tests.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", "),
            };
            let [volume, database, histories, runners] = Kind::ALL.map(cuts);
            writeln!(
                out,
                "| `{bug:?}` | {} | {volume} | {database} | {histories} | {runners} | {found} |",
                row.invariant
            )
            .unwrap();
        }
        out
    }

    /// What stands between the marks in the document, and what should.
    pub(crate) fn in_document(&self) -> (String, String) {
        let text = std::fs::read_to_string(document()).unwrap();
        let from = text.find(BEGIN).expect("the document marks the table") + BEGIN.len();
        let to = text.find(END).expect("the document marks the table's end");
        (text[from..to].to_owned(), self.markdown())
    }

    /// Replaces the data file and the table in the document.
    pub(crate) fn write(&self) {
        let mut out =
            String::from("# Written by crates/sim/tests/planted_bugs: see the head of its main.rs.\n");
        for &bug in Bug::ALL {
            let row = toml::to_string(&self.row(bug)).unwrap();
            write!(out, "\n[{bug:?}]\n{row}").unwrap();
        }
        std::fs::write(data(), out).unwrap();
        let (is, should_be) = self.in_document();
        let text = std::fs::read_to_string(document()).unwrap();
        let text = text.replace(&format!("{BEGIN}{is}{END}"), &format!("{BEGIN}{should_be}{END}"));
        std::fs::write(document(), text).unwrap();
    }
}

/// A number with its thousands apart.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
