//! Ours beside what was published: three verdicts, by rules that are the same for all statements.
//!
//! | published | reproduced | same direction |
//! |---|---|---|
//! | a row of figures | each of ours is near its own | the rows rise and fall at the same places; ratios: each as below |
//! | about a value | ours is near it | a ratio: both above 1 or both below it |
//! | at least, at most, more than, less than | it holds | a ratio: the same |
//! | a range | ours lies in it | a ratio: the same; otherwise: ours overlaps it |
//! | a shape | all of its parts hold | more than half of them do |
//!
//! *Near* is within 5 points for percentages, and within 15 % for everything else. Anything else *differs*.

use std::fmt;

use serde::Serialize;

use super::published::{Claim, Op, Statement};

/// Percentages are near one another within so many points.
pub const NEAR_POINTS: f64 = 5.0;
/// Other figures are near one another within this part of the published one.
pub const NEAR_PART: f64 = 0.15;

/// How ours compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is what was published.
    Reproduced,
    /// It points the same way.
    SameDirection,
    /// It does not.
    Differs,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reproduced => "reproduced",
            Self::SameDirection => "same direction",
            Self::Differs => "differs",
        })
    }
}

/// What came out here.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ours {
    /// A row of figures.
    Row(Vec<f64>),
    /// One figure.
    Value(f64),
    /// The least and the most of several.
    Range([f64; 2]),
    /// The parts of a shape.
    Shape(Vec<Part>),
}

/// A part of a statement without figures, said so that it holds or does not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// What is said, with our figures.
    pub said: String,
    /// Whether it holds.
    pub holds: bool,
}

impl Ours {
    /// The least and the most of some figures.
    ///
    /// # Panics
    /// If there are none.
    pub fn spread(figures: impl IntoIterator<Item = f64>) -> Self {
        let ends = figures.into_iter().map(|figure| (figure, figure));
        let (least, most) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).expect("there are figures");
        Self::Range([least, most])
    }
}

fn is_near(unit: &str, ours: f64, published: f64) -> bool {
    let within = if unit == "%" { NEAR_POINTS } else { NEAR_PART * published.abs() };
    (ours - published).abs() <= within
}

fn holds(op: Op, unit: &str, ours: f64, value: f64) -> bool {
    match op {
        Op::About => is_near(unit, ours, value),
        Op::AtLeast => ours >= value,
        Op::AtMost => ours <= value,
        Op::MoreThan => ours > value,
        Op::LessThan => ours < value,
    }
}

/// Whether two ratios say the same of who is ahead.
fn same_side(unit: &str, ours: f64, op: Op, value: f64) -> bool {
    if unit != "ratio" {
        return false;
    }
    match op {
        Op::About if value != 1.0 => (ours > 1.0) == (value > 1.0),
        Op::AtLeast | Op::MoreThan if value >= 1.0 => ours > 1.0,
        Op::AtMost | Op::LessThan if value <= 1.0 => ours < 1.0,
        _ => false,
    }
}

/// Whether two rows rise and fall at the same places.
fn same_course(ours: &[f64], published: &[f64]) -> bool {
    let steps = |row: &[f64]| -> Vec<bool> { row.windows(2).map(|pair| pair[1] > pair[0]).collect() };
    ours.len() == published.len() && ours.len() > 1 && steps(ours) == steps(published)
}

/// The verdict on a statement.
///
/// # Panics
/// If ours is of another kind than the statement.
pub(super) fn judge(statement: &Statement, ours: &Ours) -> Verdict {
    let unit = &statement.unit;
    let (reproduced, same_direction) = match (&statement.claim, ours) {
        (Claim::Row { values, .. }, Ours::Row(row)) => {
            assert_eq!(row.len(), values.len(), "{}: rows of different lengths", statement.key);
            let near = row.iter().zip(values).all(|(ours, published)| is_near(unit, *ours, *published));
            let same_side =
                row.iter().zip(values).all(|(ours, value)| same_side(unit, *ours, Op::About, *value));
            (near, same_side || same_course(row, values))
        }
        (Claim::Value { op, value }, Ours::Value(ours)) => {
            (holds(*op, unit, *ours, *value), same_side(unit, *ours, *op, *value))
        }
        (Claim::Range([least, most]), Ours::Value(ours)) => (
            (least..=most).contains(&ours),
            unit == "ratio" && (*least >= 1.0 && *ours > 1.0 || *most <= 1.0 && *ours < 1.0),
        ),
        (Claim::Range([least, most]), Ours::Range([low, high])) => {
            (least <= low && high <= most, low <= most && least <= high)
        }
        (Claim::Shape, Ours::Shape(parts)) => {
            let hold = parts.iter().filter(|part| part.holds).count();
            assert!(!parts.is_empty(), "{}: a shape without parts", statement.key);
            (hold == parts.len(), 2 * hold > parts.len())
        }
        (claim, ours) => panic!("{}: {claim:?} cannot be compared with {ours:?}", statement.key),
    };
    match (reproduced, same_direction) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::SameDirection,
        (false, false) => Verdict::Differs,
    }
}

#[cfg(test)]
mod tests {
    use super::super::published::{Along, Mark};
    use super::*;
    use Verdict::{Differs, Reproduced, SameDirection};

    fn statement(unit: &str, claim: Claim) -> Statement {
        Statement { key: "k".into(), what: "w".into(), unit: unit.into(), claim }
    }

    fn row(unit: &str, values: &[f64]) -> Statement {
        let marks = values.iter().map(|value| Mark::Number(*value)).collect();
        let along = Along { name: "n".into(), unit: String::new(), values: marks };
        statement(unit, Claim::Row { along, values: values.to_vec() })
    }

    #[test]
    fn rows_are_near_or_take_the_same_course_or_differ() {
        let published = row("%", &[50.0, 60.0, 70.0]);
        let verdict = |ours: [f64; 3]| judge(&published, &Ours::Row(ours.to_vec()));
        assert_eq!(verdict([45.0, 65.0, 70.0]), Reproduced);
        assert_eq!(verdict([44.9, 65.0, 70.0]), SameDirection);
        assert_eq!(verdict([70.0, 60.0, 50.0]), Differs);
        let published = row("1/s", &[100.0, 200.0]);
        assert_eq!(judge(&published, &Ours::Row(vec![115.0, 170.0])), Reproduced);
        assert_eq!(judge(&published, &Ours::Row(vec![116.0, 170.0])), SameDirection);
        let published = row("ratio", &[1.8, 1.9, 1.8]);
        assert_eq!(judge(&published, &Ours::Row(vec![1.2, 1.3, 1.4])), SameDirection);
        assert_eq!(judge(&published, &Ours::Row(vec![0.9, 1.3, 1.4])), Differs);
    }

    #[test]
    fn comparisons_hold_or_are_on_the_same_side_of_one() {
        let about = statement("ratio", Claim::Value { op: Op::About, value: 2.0 });
        assert_eq!(judge(&about, &Ours::Value(2.29)), Reproduced);
        assert_eq!(judge(&about, &Ours::Value(1.1)), SameDirection);
        assert_eq!(judge(&about, &Ours::Value(0.9)), Differs);
        let more = statement("ratio", Claim::Value { op: Op::MoreThan, value: 2.0 });
        assert_eq!(judge(&more, &Ours::Value(2.0)), SameDirection);
        assert_eq!(judge(&more, &Ours::Value(2.1)), Reproduced);
        let most = statement("%", Claim::Value { op: Op::AtMost, value: 3.0 });
        assert_eq!(judge(&most, &Ours::Value(-1.0)), Reproduced);
        assert_eq!(judge(&most, &Ours::Value(3.5)), Differs);
    }

    #[test]
    fn ranges_hold_or_overlap() {
        let range = statement("%", Claim::Range([70.0, 86.0]));
        assert_eq!(judge(&range, &Ours::Value(80.0)), Reproduced);
        assert_eq!(judge(&range, &Ours::Value(69.0)), Differs);
        assert_eq!(judge(&range, &Ours::spread([75.0, 80.0])), Reproduced);
        assert_eq!(judge(&range, &Ours::spread([60.0, 80.0])), SameDirection);
        assert_eq!(judge(&range, &Ours::spread([10.0, 20.0])), Differs);
        let ratio = statement("ratio", Claim::Range([1.0, 1.1]));
        assert_eq!(judge(&ratio, &Ours::Value(1.3)), SameDirection);
        assert_eq!(judge(&ratio, &Ours::Value(0.9)), Differs);
    }

    #[test]
    fn shapes_hold_in_all_parts_or_in_most() {
        let shape = statement("shape", Claim::Shape);
        let parts = |holds: &[bool]| {
            Ours::Shape(holds.iter().map(|&holds| Part { said: "s".into(), holds }).collect())
        };
        assert_eq!(judge(&shape, &parts(&[true, true])), Reproduced);
        assert_eq!(judge(&shape, &parts(&[true, true, false])), SameDirection);
        assert_eq!(judge(&shape, &parts(&[true, false])), Differs);
    }

    #[test]
    #[should_panic(expected = "cannot be compared")]
    fn another_kind_is_a_mistake_of_ours() {
        judge(&statement("%", Claim::Shape), &Ours::Value(1.0));
    }
}
