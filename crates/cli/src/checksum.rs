//! The checksum by which a file is known again.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// The SHA-256 checksum of a file, in hexadecimal.
///
/// # Errors
/// Those of opening and reading it.
pub(crate) fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash)?;
    Ok(hex::encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let path = std::env::temp_dir().join(format!("mezz-checksum-{}", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        let sum = sha256_of(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(sum.unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
