//! Releases of PostgreSQL that this `mezz` knows by their checksum.

use crate::failure::Failure;

/// A released source archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) version: String,
    /// SHA-256 of the archive, in hexadecimal: what is built is this and nothing else, wherever it came
    /// from.
    pub(crate) sha256: String,
}

/// Newest last; the first is what the patch queue is tested with.
const KNOWN: &[(&str, &str)] = &[
    ("17.11", "dd27f2b3c59e73ed14aa3324901242bf69a032a6347805f274e6260322d42979"),
    ("17.12", "9cf136a703d8ee2f83465c43be4e9e8e7930c82b0bfba13be7e2537be769ac55"),
];

/// The version that is built if none is asked for.
pub(crate) const DEFAULT: &str = KNOWN[0].0;

/// The major version that the patch queue is for.
const MAJOR: &str = "17";

impl Release {
    /// The release of a version, with the checksum that is known or the one that the user vouches for.
    pub(crate) fn find(version: &str, sha256: Option<&str>) -> Result<Release, Failure> {
        let known = KNOWN.iter().find(|(name, _)| *name == version).map(|(_, sum)| (*sum).to_owned());
        if version.split('.').next() != Some(MAJOR) {
            return Err(Failure::refused(
                format!("PostgreSQL {version}"),
                format!("the patch queue is for PostgreSQL {MAJOR}"),
            )
            .next(format!("this mezz knows the releases {}", names())));
        }
        match (known, sha256) {
            (_, Some(sum)) if sum.len() != 64 || !sum.bytes().all(|byte| byte.is_ascii_hexdigit()) => Err(
                Failure::usage("--sha256", format!("'{sum}' is not a SHA-256 checksum of 64 hexadecimal digits")),
            ),
            (Some(known), Some(sum)) if !known.eq_ignore_ascii_case(sum) => Err(Failure::usage(
                "--sha256",
                format!("PostgreSQL {version} is known to have {known}, not {sum}"),
            )),
            (Some(sha256), _) => Ok(Release { version: version.to_owned(), sha256 }),
            (None, Some(sum)) => {
                Ok(Release { version: version.to_owned(), sha256: sum.to_ascii_lowercase() })
            }
            (None, None) => Err(Failure::refused(
                format!("PostgreSQL {version}"),
                "this mezz does not know the checksum of its source",
            )
            .next(format!(
                "build one of {}, or give the archive's checksum with --sha256 (postgresql.org publishes it beside the archive)",
                names()
            ))),
        }
    }

    /// The archive's name in the cache and upstream.
    pub(crate) fn archive(&self) -> String {
        format!("postgresql-{}.tar.bz2", self.version)
    }

    /// Where the archive can be had: the distribution's mirror network, which drops a release some months
    /// after the next has come, then upstream, which keeps all of them.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let version = &self.version;
        vec![
            format!(
                "http://deb.debian.org/debian/pool/main/p/postgresql-{MAJOR}/postgresql-{MAJOR}_{version}.orig.tar.bz2"
            ),
            format!(
                "http://deb.debian.org/debian-security/pool/updates/main/p/postgresql-{MAJOR}/postgresql-{MAJOR}_{version}.orig.tar.bz2"
            ),
            format!("https://ftp.postgresql.org/pub/source/v{version}/{}", self.archive()),
        ]
    }
}

fn names() -> String {
    KNOWN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_what_is_vouched_for_is_built() {
        assert_eq!(Release::find(DEFAULT, None).unwrap().sha256, KNOWN[0].1);
        let other = "ab".repeat(32);
        assert!(Release::find("17.99", None).unwrap_err().to_string().contains("--sha256"));
        assert_eq!(Release::find("17.99", Some(&other)).unwrap().sha256, other);
        assert!(Release::find(DEFAULT, Some(&other)).unwrap_err().to_string().contains("is known to have"));
        assert!(Release::find(DEFAULT, Some("abc")).unwrap_err().to_string().contains("64 hexadecimal"));
        assert!(Release::find("18.1", Some(&other)).unwrap_err().to_string().contains("for PostgreSQL 17"));
    }
}
