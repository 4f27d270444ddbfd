//! The settings file that `mezz pg init` leaves in the data directory: PostgreSQL's own notation, for people
//! to edit.

use std::fmt::Write as _;

/// Its name; `postgresql.conf` includes it last.
pub(crate) const FILE: &str = "mezzanine.conf";

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

/// Settings in the order in which they are written.
#[derive(Debug, Default)]
pub(crate) struct Settings(Vec<(String, String)>);

impl Settings {
    /// A setting whose value is text.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        // In PostgreSQL's notation a quote is doubled and a backslash escapes.
        let quoted = value.replace('\\', "\\\\").replace('\'', "''");
        self.0.push((name.to_owned(), format!("'{quoted}'")));
    }

    /// A size in whole mebibytes, rounded down.
    pub(crate) fn mebibytes(&mut self, name: &str, bytes: u64) {
        self.0.push((name.to_owned(), format!("{}MB", bytes / MIB)));
    }

    /// A size in whole kibibytes, rounded down. (PostgreSQL writes kB and MB for powers of two.)
    pub(crate) fn kibibytes(&mut self, name: &str, bytes: u64) {
        self.0.push((name.to_owned(), format!("{}kB", bytes / KIB)));
    }

    /// A number.
    pub(crate) fn number(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    /// The file's text.
    pub(crate) fn file(&self) -> String {
        let mut text = String::from(
            "# Written by mezz pg init, included by postgresql.conf. Edit it, then restart the server.\n\
             # docs/postgresql.md says what the settings of the tier do.\n",
        );
        for (name, value) in &self.0 {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{name} = {value}");
        }
        text
    }
}

/// One `NAME=VALUE` of the command line.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if name.is_empty() || !name.chars().all(sound) {
        return Err(format!("'{name}' is not the name of a setting"));
    }
    if value.contains(['\n', '\r']) {
        return Err("a value has one line".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_are_written_as_postgresql_reads_them() {
        let mut settings = Settings::default();
        settings.text("mezzanine.flash_path", "/mnt/it's \\ here");
        settings.mebibytes("mezzanine.flash_size", 10_000_000_000);
        settings.kibibytes("shared_buffers", 4 << 20);
        settings.number("port", 5433);
        let file = settings.file();
        let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "mezzanine.flash_path = '/mnt/it''s \\\\ here'",
                "mezzanine.flash_size = 9536MB",
                "shared_buffers = 4096kB",
                "port = 5433",
            ]
        );
    }

    #[test]
    fn pairs_have_a_name_and_one_line() {
        assert_eq!(parse_pair("work_mem=4MB"), Ok(("work_mem".into(), "4MB".into())));
        assert_eq!(parse_pair("a.b==").unwrap().1, "=");
        for text in ["work_mem", "=1", "a b=1", "a=1\nb=2"] {
            assert!(parse_pair(text).is_err(), "{text}");
        }
    }
}
