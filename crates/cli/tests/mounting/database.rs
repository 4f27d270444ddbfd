//! A database on a file system that a test mounts, whatever server it is of: a table with a row for each
//! commit, and a counter that is changed with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::run;
use crate::common::Scratch;

/// Transactions between two checkpoints.
pub(crate) const BETWEEN_CHECKPOINTS: u64 = 8;

/// The file system's journal is replayed, and its files are looked at. Not in a name space of mounts of its
/// own: that would hold those of other tests, which could then not be taken apart.
pub(crate) const MOUNT: &str = r#"
folder=$(mktemp -d); trap 'umount "$folder/fs" 2>/dev/null; rm -r --one-file-system "$folder"' EXIT
chmod 755 "$folder"; mkdir "$folder/fs"
e2fsck -fy "$MEZZ_IMAGE" >"$folder/log" 2>&1; [ $? -lt 4 ] || { tail -n 1 "$folder/log"; exit 1; }
mount -o loop,nobarrier "$MEZZ_IMAGE" "$folder/fs" || exit 125
marks=$(wc -l <"$MEZZ_MARKS")
"#;

/// A server with a client.
pub(crate) trait Session: Send {
    /// One row more, and the counter with it. Whether it was acknowledged.
    fn commit(&mut self, row: u64) -> bool;

    /// Whether it was carried out.
    fn checkpoint(&mut self) -> bool;

    /// How many rows there are.
    fn rows(&mut self) -> u64;

    /// Ends the server in order.
    fn end(self: Box<Self>);

    /// Commits until one is not acknowledged; how many have been, with those before.
    fn commit_until_it_fails(&mut self, acknowledged: u64) -> u64 {
        let mut row = acknowledged;
        while self.commit(row + 1) {
            row += 1;
            if row % BETWEEN_CHECKPOINTS == 0 && !self.checkpoint() {
                break;
            }
        }
        row
    }
}

/// Something of which file systems with a database in the folder `db` are made.
pub(crate) trait Database {
    /// A folder that the server's user can get to.
    fn folder(&self) -> PathBuf;

    /// A file with a file system that has the database.
    fn image(&self, path: &str);

    /// Starts a server on a data directory, and killed when the session goes. With a program before it that
    /// is given its command.
    fn begin<'d>(&'d self, directory: &Path, settings: &[&str], before: &[&str]) -> Box<dyn Session + 'd>;

    /// Recovers the database in the folder `$folder/fs/db`, and looks at all of it; `$marks` commits were
    /// acknowledged. For sh.
    fn check(&self) -> &'static str;

    /// What the check goes by.
    fn environment(&self) -> Vec<(&'static str, String)>;

    /// Where the counter is, in the data directory.
    fn counter(&self) -> &str;

    /// Why the database in the folder `fs` of this one is not in order, recovered as far as it is.
    fn broken(&self, below: &Path, acknowledged: u64) -> Option<String> {
        let mut command = Command::new("sh");
        command.args(["-c", self.check()]).env("folder", below).env("marks", acknowledged.to_string());
        let output = command.envs(self.environment()).output().unwrap();
        // Recovery has not waited for the device.
        run("sync", &["-f", &below.join("fs").to_string_lossy()]);
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The same of the contents of a device.
    fn broken_image(&self, image: &str, scratch: &Scratch, acknowledged: u64) -> Option<String> {
        let marks = scratch.file("acknowledged");
        std::fs::write(&marks, "\n".repeat(acknowledged as usize)).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{MOUNT}{}", self.check())]);
        command.env("MEZZ_IMAGE", image).env("MEZZ_MARKS", marks);
        let output = command.envs(self.environment()).output().unwrap();
        let code = output.status.code();
        assert!(code.is_some_and(|code| code < 125), "{output:?}");
        (code != Some(0)).then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// A file of this length with ext4, and in it what is in a folder.
pub(crate) fn file_system(path: &str, bytes: u64, root: &str) {
    std::fs::File::create(path).unwrap().set_len(bytes).unwrap();
    let features = ["-E", "lazy_itable_init=0", "-J", "size=4", "-b", "4096", "-d", root];
    run("mke2fs", &[&["-q", "-t", "ext4"][..], &features, &[path]].concat());
}
