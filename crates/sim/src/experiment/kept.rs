//! Points kept in a file, one JSON object a line, so that what was stopped can go on.
//!
//! A line names the point, the bed, the version of the program and two fingerprints: of the sources that
//! decide what comes out (`build.rs`), and of the parameters of the run. It is taken only where all of them
//! are the same; other lines stay where they are, and whoever asks is told why they were not taken. A last
//! line that was cut short is taken off.

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
    // Lines of programs that did not write fingerprints have none that is anybody's.
    #[serde(default)]
    code: String,
    #[serde(default)]
    setup: String,
    bed: Bed,
    point: String,
    measured: Measured,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const CODE: &str = crate::SOURCES;

/// What a file has of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Found {
    Nothing,
    Same(Measured),
    /// A line of it that is not taken.
    Other(Why),
}

/// Why a line of a point that is asked for is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Another scale, other seconds or another seed.
    Bed,
    /// Another version of the program, or other sources.
    Code,
    /// The same point has other parameters now.
    Setup,
}

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

    /// What is kept of a point: the last line that can be taken, or why the last one of all cannot.
    pub(super) fn find(&self, bed: &Bed, point: &Point) -> Found {
        let now = Line::of(bed, point, &Measured::default());
        let judged = |line: &Line| match () {
            () if line.bed != now.bed => Found::Other(Why::Bed),
            () if line.version != now.version || line.code != now.code => Found::Other(Why::Code),
            () if line.setup != now.setup => Found::Other(Why::Setup),
            () => Found::Same(line.measured),
        };
        let all: Vec<_> = self.lines.iter().filter(|line| line.point == now.point).map(judged).collect();
        let same = all.iter().rfind(|found| matches!(found, Found::Same(_)));
        same.or(all.last()).copied().unwrap_or(Found::Nothing)
    }

    /// Adds a point.
    pub(super) fn add(&self, bed: &Bed, point: &Point, measured: &Measured) -> io::Result<()> {
        let line = Line::of(bed, point, measured);
        let text = serde_json::to_string(&line).map_err(io::Error::other)?;
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        file.write_all(format!("{text}\n").as_bytes())
    }
}

impl Line {
    fn of(bed: &Bed, point: &Point, measured: &Measured) -> Self {
        Self {
            version: VERSION.into(),
            code: CODE.into(),
            setup: format!("{:016x}", bed.setup(point).fingerprint()),
            bed: *bed,
            point: point.to_string(),
            measured: *measured,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Changes a word of every line of the file.
    fn doctor(path: &Path, from: &str, to: &str) {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }

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
            write_amplification: Some(1.25),
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
        assert_eq!(kept.find(&bed, &Point::PAPER), Found::Same(measured(7.0)));
        assert_eq!(kept.find(&other, &Point::PAPER), Found::Other(Why::Bed));
        assert_eq!(kept.find(&bed, &Point::TALK), Found::Nothing);
        kept.add(&other, &Point::TALK, &measured(8.0)).unwrap();
        assert_eq!(Kept::open(&path).unwrap().find(&other, &Point::TALK), Found::Same(measured(8.0)));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn points_of_other_code_and_other_parameters_are_not_taken() {
        let path = std::env::temp_dir().join(format!("mezzanine-others-{}", std::process::id()));
        let bed = Bed::default();
        let setup = format!("{:016x}", bed.setup(&Point::PAPER).fingerprint());
        let version = format!("\"version\":\"{VERSION}\"");
        let cases = [
            (CODE, "0123456789abcdef", Why::Code),
            (&version, "\"version\":\"0.0.1\"", Why::Code),
            (&setup, "0123456789abcdef", Why::Setup),
            // As lines were before they had fingerprints.
            ("\"code\"", "\"colour\"", Why::Code),
            ("\"setup\"", "\"colour\"", Why::Setup),
        ];
        for (from, to, why) in cases {
            Kept::open(&path).unwrap().add(&bed, &Point::PAPER, &measured(7.0)).unwrap();
            doctor(&path, from, to);
            let kept = Kept::open(&path).unwrap();
            assert_eq!(kept.find(&bed, &Point::PAPER), Found::Other(why), "{from}");
            // A line that can be taken is, whatever came after it.
            kept.add(&bed, &Point::PAPER, &measured(8.0)).unwrap();
            assert_eq!(Kept::open(&path).unwrap().find(&bed, &Point::PAPER), Found::Same(measured(8.0)));
            std::fs::remove_file(&path).unwrap();
        }
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

    /// A crate that has a part in a run, and not in the fingerprint, would have results of before kept.
    #[test]
    fn every_crate_of_a_run_is_in_the_fingerprint() {
        /// What the crash worlds alone use.
        const APART: [&str; 2] = ["ffi", "volume"];
        let (manifest, build) = (include_str!("../../Cargo.toml"), include_str!("../../build.rs"));
        let used = manifest.lines().filter_map(|line| line.strip_prefix("mezzanine-"));
        let names: Vec<&str> = used.filter_map(|line| line.split(['.', ' ']).next()).collect();
        assert!(names.contains(&"engine"), "the manifest is read: {names:?}");
        for name in names.into_iter().filter(|name| !APART.contains(name)) {
            assert!(build.contains(&format!("\"../{name}/src\"")), "{name} is not in the fingerprint");
        }
    }
}
