//! Which databases are on a tier, for programs that name them without a URI.
//!
//! A database that has a sidecar is on the tier that the sidecar names. Of others a file of rules says which
//! are, by patterns of their paths, and with what parameters:
//!
//! ```toml
//! [[database]]
//! path = "/srv/app/*.db"            # `*` stands for a part of a name, `**` for folders in between
//! flash = "/mnt/nvme/app.mezz"
//! flash_size = "10GiB"              # and any other parameter of a URI
//! ```
//! The first rule that matches counts. Every other name is none of ours. `{name}` in a flash file's path
//! stands for the name of the database, so that each that matches has a flash file of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use mezzanine_volume::{PathSidecar, SidecarState};
use toml::{Table, Value};

use crate::error::{Error, ErrorKind};
use crate::params::{NAMES, Params};

/// Names the file of rules.
pub const RULES_VARIABLE: &str = "MEZZANINE_SQLITE_RULES";
/// The file of rules that counts if there is one and no other is named.
pub const RULES_FILE: &str = "/etc/mezzanine/sqlite.toml";

/// Stands for the file name of a database.
const NAME: &str = "{name}";

/// `*` matches no `/`, and a name that begins with a dot is a name like others.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Rules in their order.
#[derive(Debug, Default)]
pub(crate) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    path: Pattern,
    params: Params,
}

/// Where a database is to be opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the tier that these parameters name.
    Tier(Box<Params>),
    /// Where it is without us.
    Plain,
}

impl Rules {
    /// The rules of this machine: of the file that the environment names, or of [`RULES_FILE`].
    pub(crate) fn of_machine() -> Result<Self, Error> {
        match std::env::var_os(RULES_VARIABLE).filter(|named| !named.is_empty()) {
            Some(named) => Self::read(Path::new(&named)),
            None if Path::new(RULES_FILE).exists() => Self::read(Path::new(RULES_FILE)),
            None => Ok(Self::default()),
        }
    }

    fn read(file: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| Error::io("read the rules in", file.display(), source))?;
        Self::parse(&text).map_err(|reason| {
            Error::new(ErrorKind::BadParameter, "use the rules in", file.display(), reason)
                .advise("mend the file; the manual's page \"clients\" has an example")
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let rules = match table.remove("database") {
            None => Vec::new(),
            Some(Value::Array(rules)) => rules,
            Some(_) => return Err("\"database\" is no list; begin each rule with [[database]]".to_owned()),
        };
        if let Some(other) = table.keys().next() {
            return Err(format!("there is no \"{other}\"; begin each rule with [[database]]"));
        }
        let numbered = rules.into_iter().enumerate();
        let parsed = numbered
            .map(|(number, rule)| Rule::parse(rule).map_err(|why| format!("rule {}: {why}", number + 1)));
        parsed.collect::<Result<_, _>>().map(Self)
    }

    /// Where the database of this name is. `given` is what its URI says, in which a tier is named or not.
    pub(crate) fn place(&self, database: &Path, given: Params) -> Place {
        if given.flash.is_some() {
            return Place::Tier(Box::new(given));
        }
        let rule = self.0.iter().find(|rule| rule.path.matches_path_with(database, MATCHING));
        let sidecar = PathSidecar::beside(database).found();
        let known = sidecar.and_then(|found| {
            let tier = PathBuf::from(found.tier_path);
            // One that is current on disk needs no tier that is gone, or that was given up.
            let needed = match found.state {
                SidecarState::Dirty => true,
                SidecarState::Current => tier.exists(),
                SidecarState::Detached => false,
            };
            needed.then_some(tier)
        });
        let mut params = match (rule, &known) {
            (None, None) => return Place::Plain,
            (Some(rule), _) => rule.params_of(database),
            (None, Some(_)) => given,
        };
        if known.is_some() {
            params.flash = known;
        }
        Place::Tier(Box::new(params))
    }
}

impl Rule {
    fn parse(rule: Value) -> Result<Self, String> {
        let Value::Table(mut rule) = rule else { return Err("it is no table".to_owned()) };
        let Some(Value::String(path)) = rule.remove("path") else {
            return Err("it needs a path, such as \"/srv/app/*.db\"".to_owned());
        };
        if !path.starts_with('/') {
            return Err(format!("its path {path:?} does not begin with \"/\""));
        }
        let pattern =
            Pattern::new(&path).map_err(|error| format!("its path {path:?} is no pattern: {error}"))?;
        if let Some(unknown) = rule.keys().find(|key| !NAMES.contains(&key.as_str())) {
            return Err(format!("there is no parameter \"{unknown}\"; use path, {}", NAMES.join(", ")));
        }
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Boolean(true) => "on".to_owned(),
            Value::Boolean(false) => "off".to_owned(),
            other => other.to_string(),
        };
        let get = |name: &str| rule.get(name).map(|value| OsString::from(text(value)));
        let params = Params::read(get).map_err(|error| error.to_string())?;
        match &params.flash {
            Some(flash) if flash.is_absolute() => Ok(Self { path: pattern, params }),
            Some(flash) => Err(format!("its flash \"{}\" does not begin with \"/\"", flash.display())),
            None => Err("it needs a flash, such as \"/mnt/nvme/app.mezz\"".to_owned()),
        }
    }

    fn params_of(&self, database: &Path) -> Params {
        let name = database.file_name().unwrap_or_default();
        let flash = self.params.flash.as_deref().map(|flash| named_after(flash, name));
        Params { flash, ..self.params.clone() }
    }
}

/// The flash file of a database with this name. Names are bytes.
fn named_after(flash: &Path, name: &OsStr) -> PathBuf {
    let mut rest = flash.as_os_str().as_bytes();
    let mut path = Vec::with_capacity(rest.len() + name.len());
    while let Some(at) = rest.windows(NAME.len()).position(|window| window == NAME.as_bytes()) {
        path.extend_from_slice(&rest[..at]);
        path.extend_from_slice(name.as_bytes());
        rest = &rest[at + NAME.len()..];
    }
    path.extend_from_slice(rest);
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RULES: &str = "
        [[database]]
        path = \"/srv/app/*.db\"
        flash = \"/mnt/nvme/app.mezz\"
        flash_size = \"10GiB\"
        returning_only = true
        remembered_pages = 1000

        [[database]]
        path = \"/srv/**/*.db\"
        flash = \"/mnt/nvme/other.mezz\"
    ";

    fn place(rules: &str, database: &str) -> Option<(PathBuf, Option<u64>)> {
        match Rules::parse(rules).unwrap().place(Path::new(database), Params::default()) {
            Place::Tier(params) => Some((params.flash.unwrap(), params.flash_bytes)),
            Place::Plain => None,
        }
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        assert_eq!(place(RULES, "/srv/app/a.db"), Some(("/mnt/nvme/app.mezz".into(), Some(10 << 30))));
        assert_eq!(place(RULES, "/srv/app/b/a.db"), Some(("/mnt/nvme/other.mezz".into(), None)));
        assert_eq!(place(RULES, "/srv/a.db"), Some(("/mnt/nvme/other.mezz".into(), None)));
        assert_eq!(place(RULES, "/srv/app/a.db-journal"), None);
        assert_eq!(place(RULES, "/home/a.db"), None);
        assert_eq!(place("", "/srv/app/a.db"), None);
    }

    #[test]
    fn a_flash_file_may_be_named_after_the_database() {
        let rules = "[[database]]\npath = \"/srv/**/*\"\nflash = \"/mnt/{name}/of-{name}.mezz\"";
        let flash = |database| place(rules, database).map(|(flash, _)| flash);
        assert_eq!(flash("/srv/a/b.db"), Some("/mnt/b.db/of-b.db.mezz".into()));
        let odd = OsStr::from_bytes(b"\xff{name");
        assert_eq!(
            named_after(Path::new("/mnt/{name}{name}"), odd).as_os_str().as_bytes(),
            b"/mnt/\xff{name\xff{name"
        );
        assert_eq!(named_after(Path::new("/mnt/{nam"), odd), Path::new("/mnt/{nam"));
    }

    #[test]
    fn what_a_uri_names_counts_before_any_rule() {
        let given = Params { flash: Some("/given".into()), ..Params::default() };
        let placed = Rules::parse(RULES).unwrap().place(Path::new("/srv/app/a.db"), given.clone());
        assert_eq!(placed, Place::Tier(Box::new(given)));
    }

    #[test]
    fn errors_name_the_rule_and_what_to_write() {
        for (text, parts) in [
            ("path = 1", ["\"path\"", "[[database]]"]),
            ("database = 1", ["\"database\"", "[[database]]"]),
            ("[[database]]\nflash = \"/f\"", ["rule 1", "needs a path"]),
            ("[[database]]\npath = \"/a\"", ["rule 1", "needs a flash"]),
            ("[[database]]\npath = \"a\"\nflash = \"/f\"", ["rule 1", "begin with"]),
            ("[[database]]\npath = \"/a\"\nflash = \"f\"", ["rule 1", "begin with"]),
            ("[[database]]\npath = \"/a[\"\nflash = \"/f\"", ["rule 1", "no pattern"]),
            ("[[database]]\npath = \"/a\"\nflash = \"/f\"\ncolour = 1", ["rule 1", "sync_mode"]),
            ("[[database]]\npath = \"/a\"\nflash = \"/f\"\nflash_size = \"ten\"", ["rule 1", "10GiB"]),
            ("[[database]", ["TOML", "1"]),
        ] {
            let why = Rules::parse(text).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{text}: {why}");
        }
    }
}
