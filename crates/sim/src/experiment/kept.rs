//! Points kept in a file, one JSON object a line, so that what was stopped can go on.
//!
//! A line names the point, the bed and the version of the program; lines of others stay where they are and are not used. A last line
//! that was cut short is taken off.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::points::{Measured, Point};
use super::runs::Bed;

/// A file of points, open at its end.
#[derive(Debug)]
pub(super) struct Kept {
    file: Mutex<File>,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    version: String,
    bed: Bed,
    point: String,
    measured: Measured,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Kept {
    /// Opens the file, or creates it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = Vec::new();
        for (number, line) in text[..whole].lines().enumerate() {
            let line = serde_json::from_str(line).map_err(|error| {
                let reason = format!("line {} is no point of an experiment: {error}", number + 1);
                io::Error::new(io::ErrorKind::InvalidData, reason)
            })?;
            lines.push(line);
        }
        // A file that is not ours has no whole line that is: only then is something taken off.
        if whole < text.len() && !lines.is_empty() {
            file.set_len(whole as u64)?;
        } else if whole < text.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not hold points of experiments"));
        }
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file: Mutex::new(file), lines })
    }

    /// What is kept of a point.
    pub(super) fn find(&self, bed: &Bed, point: &Point) -> Option<Measured> {
        let name = point.to_string();
        let is_it = |line: &&Line| line.version == VERSION && line.bed == *bed && line.point == name;
        self.lines.iter().rfind(is_it).map(|line| line.measured)
    }

    /// Adds a point.
    pub(super) fn add(&self, bed: &Bed, point: &Point, measured: &Measured) -> io::Result<()> {
        let line = Line { version: VERSION.into(), bed: *bed, point: point.to_string(), measured: *measured };
        let text = serde_json::to_string(&line).map_err(io::Error::other)?;
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        file.write_all(format!("{text}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn measured(transactions: f64) -> Measured {
        Measured {
            transactions,
            hits: 1.5,
            writes_saved: 0.1 + 0.2,
            old_versions: 0.0,
            flash_busy: 0.0,
            flash_pages_per_second: 0.0,
            flash_write_kib: 0.0,
            flash_sequential: 0.0,
        }
    }

    #[test]
    fn points_come_back_and_a_torn_line_is_taken_off() {
        let path = std::env::temp_dir().join(format!("mezzanine-kept-{}", std::process::id()));
        let bed = Bed::default();
        let other = Bed { seed: 2, ..bed };
        Kept::open(&path).unwrap().add(&bed, &Point::PAPER, &measured(7.0)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], &whole[..whole.len() / 2]].concat()).unwrap();
        let kept = Kept::open(&path).unwrap();
        assert_eq!(kept.find(&bed, &Point::PAPER), Some(measured(7.0)));
        assert_eq!(kept.find(&other, &Point::PAPER), None);
        assert_eq!(kept.find(&bed, &Point::TALK), None);
        kept.add(&other, &Point::TALK, &measured(8.0)).unwrap();
        assert_eq!(Kept::open(&path).unwrap().find(&other, &Point::TALK), Some(measured(8.0)));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_of_something_else_is_left_alone() {
        let path = std::env::temp_dir().join(format!("mezzanine-foreign-{}", std::process::id()));
        for foreign in ["half a line", "{}\n", "notes\nof somebody\n"] {
            std::fs::write(&path, foreign).unwrap();
            assert!(Kept::open(&path).is_err(), "{foreign:?} was taken");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
