//! Whom the server runs as. PostgreSQL refuses to run as root, so if `mezz` was started by root, everything
//! of the server is done by another user.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// Users that root's server runs as, if neither an option nor the data directory says otherwise.
const CANDIDATES: &[&str] = &["postgres", "nobody"];

/// For the help of every verb.
pub(crate) const WHO: &str = "Whom the server runs as, if root starts it (PostgreSQL refuses to run as root) [default: the owner of the data directory, else \
postgres or nobody, whichever this system has]";

/// Who runs the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUser {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Whether a process has to change to it.
    change: bool,
}

impl ServerUser {
    /// The user for a data directory, by the rule of [`WHO`].
    pub(crate) fn find(asked: Option<&str>, data_directory: &Path) -> Result<ServerUser, Failure> {
        let own = rustix::process::geteuid().as_raw();
        if own != 0 {
            let me = look_up(&own.to_string());
            let me = me.unwrap_or(ServerUser {
                name: own.to_string(),
                uid: own,
                gid: rustix::process::getegid().as_raw(),
                change: false,
            });
            return match asked {
                Some(name) if name != me.name => {
                    Err(Failure::usage("--user", format!("only root can run the server as {name}")))
                }
                _ => Ok(ServerUser { change: false, ..me }),
            };
        }
        let user = match asked {
            Some(name) => look_up(name)
                .ok_or_else(|| Failure::usage("--user", format!("this system has no user '{name}'")))?,
            None => Self::by_owner(data_directory)
                .or_else(|| CANDIDATES.iter().find_map(|name| look_up(name)))
                .ok_or_else(|| {
                    Failure::refused(
                        "the server's user",
                        format!("this system has none of {}", CANDIDATES.join(", ")),
                    )
                    .next("name one with --user")
                })?,
        };
        if user.uid == 0 {
            return Err(Failure::usage("--user", "PostgreSQL refuses to run as root"));
        }
        Ok(user)
    }

    fn by_owner(data_directory: &Path) -> Option<ServerUser> {
        let owner = data_directory.metadata().ok()?.uid();
        (owner != 0).then(|| look_up(&owner.to_string())).flatten()
    }

    /// A command that runs as this user, from a directory that it can be in.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/");
        if self.change {
            command.uid(self.uid).gid(self.gid).env("HOME", "/").env("USER", &self.name);
        }
        command
    }

    /// A command line of this user's, for people.
    pub(crate) fn line(&self, command: &str) -> String {
        if self.change { format!("runuser -u {} -- {command}", self.name) } else { command.to_owned() }
    }

    /// Gives a file or directory to this user.
    pub(crate) fn give(&self, path: &Path) -> Result<(), Failure> {
        if !self.change {
            return Ok(());
        }
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid)).map_err(|e| {
            Failure::refused(path.display(), format!("cannot be given to the user {}: {e}", self.name))
        })
    }

    /// Whether this user may do something with a path: a condition of test(1), such as `-x`.
    pub(crate) fn may(&self, condition: &str, path: &Path) -> bool {
        let mut command = self.command("test");
        command.arg(condition).arg(path).stdin(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

/// A user by name or number, as the system's user database has it.
fn look_up(key: &str) -> Option<ServerUser> {
    let output = Command::new("getent").args(["passwd", key]).stderr(Stdio::null()).output().ok();
    let text = match output {
        Some(output) if output.status.success() => String::from_utf8(output.stdout).ok()?,
        Some(_) => return None,
        // Systems without getent have a file.
        None => std::fs::read_to_string("/etc/passwd").ok()?,
    };
    text.lines().find_map(|line| parse(line, key))
}

fn parse(line: &str, key: &str) -> Option<ServerUser> {
    let mut fields = line.split(':');
    let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    (name == key || uid == key).then_some(())?;
    Some(ServerUser { name: name.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()?, change: true })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let line = "nobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin";
        let user = parse(line, "nobody").unwrap();
        assert_eq!((user.uid, user.gid), (65534, 65533));
        assert_eq!(parse(line, "65534"), Some(user));
        assert_eq!(parse(line, "nobod"), None);
        assert_eq!(parse("nonsense", "nonsense"), None);
    }
}
