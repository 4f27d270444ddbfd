//! The files of a cluster whose server is stopped.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use crate::failure::Checked;

/// Bytes of a block: the server is built with PostgreSQL's default.
const BLOCK: u64 = 8192;

/// Removes the directories of databases that are not among these.
pub(crate) fn remove_other_databases(data: &Path, databases: &[String]) -> Checked {
    for entry in fs::read_dir(data.join("base"))?.flatten() {
        let known = entry.file_name().to_str().is_some_and(|name| databases.iter().any(|one| one == name));
        if !known {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Cuts every relation file that ends within a block back to the blocks that the server counts. Returns how
/// many there were.
///
/// A kill that tears the write which makes a file longer leaves half a block. The server counts whole blocks
/// alone and overwrites it when the file grows; redo brings back what the log has of it. Nobody does either
/// for a file whose transaction died with it, and `pg_checksums` gives up there.
pub(crate) fn cut_torn_ends(data: &Path) -> Checked<u64> {
    let mut directories = vec![data.join("global")];
    for entry in fs::read_dir(data.join("base"))? {
        directories.push(entry?.path());
    }
    let mut torn = 0;
    for directory in directories {
        for path in relation_files(&directory)? {
            let file = OpenOptions::new().write(true).open(path)?;
            let length = file.metadata()?.len();
            if length % BLOCK > 0 {
                file.set_len(length - length % BLOCK)?;
                torn += 1;
            }
        }
    }
    Ok(torn)
}

/// Removes the lock files of a dead server, of its data directory and of its socket, that are empty.
///
/// A postmaster that is killed between making such a file and writing its number there leaves it so, and the
/// next one refuses to start until somebody has removed it.
pub(crate) fn remove_empty_lock_files(directory: &Path) -> Checked {
    for name in ["data/postmaster.pid", ".s.PGSQL.5432.lock"] {
        let file = directory.join(name);
        if fs::metadata(&file).is_ok_and(|metadata| metadata.len() == 0) {
            fs::remove_file(file)?;
        }
    }
    Ok(())
}

/// The files of relations in a database's directory: those whose names begin with a number.
fn relation_files(directory: &Path) -> Checked<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let of_relation =
            entry.file_name().to_string_lossy().starts_with(|first: char| first.is_ascii_digit());
        if of_relation && entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data directory with one database of these files, in the directory of temporary files.
    fn cluster(name: &str, files: &[(&str, u64)]) -> PathBuf {
        let data = std::env::temp_dir().join(format!("mezz-pgtest-files-{}-{name}", std::process::id()));
        let database = data.join("base/5");
        fs::create_dir_all(&database).expect("a directory can be made");
        fs::create_dir_all(data.join("global")).expect("a directory can be made");
        for (file, length) in files {
            fs::write(database.join(file), vec![1; *length as usize]).expect("a file can be written");
        }
        data
    }

    fn length(data: &Path, file: &str) -> u64 {
        fs::metadata(data.join("base/5").join(file)).expect("the file is there").len()
    }

    #[test]
    fn a_file_that_ends_within_a_block_is_cut_to_whole_blocks_and_no_other_is_touched() {
        let files = [
            ("16384", 3 * BLOCK + 4096),
            ("16384_vm", BLOCK),
            ("16385", 4096),
            ("16386", 0),
            ("pg_internal.init", 100),
        ];
        let data = cluster("torn", &files);
        assert_eq!(cut_torn_ends(&data).expect("the files can be cut"), 2);
        let lengths = files.map(|(file, _)| length(&data, file));
        assert_eq!(lengths, [3 * BLOCK, BLOCK, 0, 0, 100]);
        assert_eq!(cut_torn_ends(&data).expect("the files can be read"), 0);
        fs::remove_dir_all(data).expect("the directory can be removed");
    }

    #[test]
    fn lock_files_are_removed_if_they_are_empty() {
        let directory = std::env::temp_dir().join(format!("mezz-pgtest-files-{}-locks", std::process::id()));
        fs::create_dir_all(directory.join("data")).expect("a directory can be made");
        let (of_data, of_socket) =
            (directory.join("data/postmaster.pid"), directory.join(".s.PGSQL.5432.lock"));
        remove_empty_lock_files(&directory).expect("there are none");
        fs::write(&of_data, "").expect("a file can be written");
        fs::write(&of_socket, "4711\n").expect("a file can be written");
        remove_empty_lock_files(&directory).expect("the files can be removed");
        assert!(!of_data.exists() && of_socket.exists());
        fs::remove_dir_all(directory).expect("the directory can be removed");
    }

    #[test]
    fn directories_of_known_databases_stay() {
        let data = cluster("others", &[("16384", BLOCK)]);
        fs::create_dir_all(data.join("base/16400")).expect("a directory can be made");
        remove_other_databases(&data, &["5".into()]).expect("the directory can be removed");
        assert_eq!(length(&data, "16384"), BLOCK);
        assert!(!data.join("base/16400").exists());
        fs::remove_dir_all(data).expect("the directory can be removed");
    }
}
