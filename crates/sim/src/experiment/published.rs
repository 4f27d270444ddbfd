//! What the papers print and state: `data/published.toml`, read and checked.

use serde::{Deserialize, Serialize};

/// The file as it ships.
const FILE: &str = include_str!("../../data/published.toml");

/// What was published, in the order of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    #[serde(rename = "document")]
    documents: Vec<Document>,
    #[serde(rename = "experiment")]
    experiments: Vec<Source>,
}

/// A paper or a talk.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Its short name in this file.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Where and when it appeared.
    pub venue: String,
}

/// A table, a figure or a passage that an experiment compares with.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The experiment's id.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// The document's short name.
    pub document: String,
    /// The section or sections.
    pub section: String,
    /// The table, figure or passage.
    pub item: String,
    /// What it says.
    #[serde(rename = "statement")]
    pub statements: Vec<Statement>,
}

/// A row of figures or a comparison.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "RawStatement")]
pub struct Statement {
    /// Names it within its experiment.
    pub key: String,
    /// What is measured.
    pub what: String,
    /// Unit of the figures; `%` are percentage points.
    pub unit: String,
    /// What it says.
    pub claim: Claim,
}

/// What a statement says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// Figures that run along something.
    Row {
        /// What they run along.
        along: Along,
        /// One for each value of it.
        values: Vec<f64>,
    },
    /// A comparison with a value.
    Value {
        /// How it compares.
        op: Op,
        /// With what.
        value: f64,
    },
    /// Between two values, both included.
    Range([f64; 2]),
    /// A statement without figures.
    Shape,
}

/// What a row of figures runs along.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Along {
    /// Its name.
    pub name: String,
    /// The unit of its values, if they have one.
    #[serde(default)]
    pub unit: String,
    /// Its values.
    pub values: Vec<Mark>,
}

/// A value that a row runs along.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Mark {
    /// A number.
    Number(f64),
    /// A name.
    Name(String),
}

/// How a comparison compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Near the value.
    About,
    /// The value or more.
    AtLeast,
    /// The value or less.
    AtMost,
    /// More than the value.
    MoreThan,
    /// Less than the value.
    LessThan,
}

impl Op {
    /// As a sentence has it.
    pub fn words(self) -> &'static str {
        match self {
            Self::About => "about",
            Self::AtLeast => "at least",
            Self::AtMost => "at most",
            Self::MoreThan => "more than",
            Self::LessThan => "less than",
        }
    }
}

/// A statement as the file has it: one of the four kinds by the keys that are there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStatement {
    key: String,
    what: String,
    unit: String,
    along: Option<Along>,
    values: Option<Vec<f64>>,
    op: Option<Op>,
    value: Option<f64>,
    range: Option<[f64; 2]>,
    shape: Option<bool>,
}

impl TryFrom<RawStatement> for Statement {
    type Error = String;

    fn try_from(raw: RawStatement) -> Result<Self, String> {
        let RawStatement { key, what, unit, along, values, op, value, range, shape } = raw;
        let claim = match (along, values, op, value, range, shape) {
            (Some(along), Some(values), None, None, None, None) if along.values.len() == values.len() => {
                Claim::Row { along, values }
            }
            (None, None, Some(op), Some(value), None, None) => Claim::Value { op, value },
            (None, None, None, None, Some([least, most]), None) if least <= most => {
                Claim::Range([least, most])
            }
            (None, None, None, None, None, Some(true)) => Claim::Shape,
            _ => {
                return Err(format!(
                    "statement '{key}' is none of: along and as many values; op and value; a range in order; shape"
                ));
            }
        };
        Ok(Self { key, what, unit, claim })
    }
}

impl Published {
    /// What ships.
    ///
    /// # Panics
    /// Never with the file that ships: a test reads it.
    pub fn shipped() -> Self {
        toml::from_str(FILE).expect("the file that ships is valid")
    }

    /// The document of a source.
    ///
    /// # Panics
    /// If the file names a document that it does not have: a test looks.
    pub fn document(&self, source: &Source) -> &Document {
        let found = self.documents.iter().find(|document| document.id == source.document);
        found.expect("every source names a document of the file")
    }

    /// Every paper and talk.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Every table, figure and passage.
    pub fn sources(&self) -> &[Source] {
        &self.experiments
    }

    /// The one with this id.
    pub fn source(&self, id: &str) -> Option<&Source> {
        self.experiments.iter().find(|source| source.id == id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_and_keys_are_unique_and_documents_known() {
        let published = Published::shipped();
        let mut ids = HashSet::new();
        for source in published.sources() {
            assert!(ids.insert(&source.id), "{} is there twice", source.id);
            assert!(!published.document(source).title.is_empty());
            let keys: HashSet<_> = source.statements.iter().map(|statement| &statement.key).collect();
            assert_eq!(keys.len(), source.statements.len(), "{}: a key is there twice", source.id);
        }
    }

    #[test]
    fn a_statement_of_two_kinds_or_of_none_is_refused() {
        let base = "key = 'k'\nwhat = 'w'\nunit = '%'\n";
        let read = |rest: &str| toml::from_str::<Statement>(&format!("{base}{rest}"));
        assert!(read("shape = true").is_ok());
        assert!(read("op = 'about'\nvalue = 3").is_ok());
        for bad in [
            "",
            "shape = false",
            "op = 'about'",
            "op = 'nearly'\nvalue = 3",
            "op = 'about'\nvalue = 3\nshape = true",
            "range = [3, 1]",
            "along = { name = 'a', values = [1, 2] }\nvalues = [1]",
        ] {
            assert!(read(bad).is_err(), "{bad:?} was taken");
        }
    }
}
