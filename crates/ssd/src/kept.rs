//! A drive's state between runs: a file that is as sparse as what the drive was never asked to hold.
//!
//! The file begins with a header of 32 bytes, little-endian: `MEZZSSD1`, the fingerprint of the model, the
//! number of words that follow, and their CRC-32C in the lower half of the last 8 bytes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use mezzanine_device::model::Timing;
use mezzanine_device::{DeviceError, DeviceErrorKind};

use crate::drive::Ssd;

const MAGIC: [u8; 8] = *b"MEZZSSD1";
const HEADER_BYTES: usize = 32;
/// What is left out of the file where it is all zero.
const HOLE_BYTES: usize = 4096;

impl Ssd {
    /// Writes a state to a file in one step: what was there before stays until all of it is written.
    /// `fingerprint` tells models apart ([`Model::fingerprint`](mezzanine_device::Model::fingerprint)).
    ///
    /// # Errors
    /// As of files.
    ///
    /// # Panics
    /// If the state is that of another drive.
    pub fn save(&self, fingerprint: u64, state: &[u64], path: &Path) -> Result<(), DeviceError> {
        assert_eq!(state.len(), self.state_words(), "the state is that of another drive");
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".new");
        let unfinished = PathBuf::from(unfinished);
        let written =
            write(fingerprint, state, &unfinished).and_then(|()| std::fs::rename(&unfinished, path));
        written.map_err(|error| {
            // It is of no use, and may not be there.
            let _ = std::fs::remove_file(&unfinished);
            DeviceError::from_io("write", path.display().to_string(), error)
        })
    }

    /// Reads what [`Self::save`] wrote; none if there is no such file.
    ///
    /// # Errors
    /// `InvalidState` with what is wrong, and what to do; or as of files.
    pub fn load(&self, fingerprint: u64, path: &Path) -> Result<Option<Box<[u64]>>, DeviceError> {
        let name = || path.display().to_string();
        let failed = |error| DeviceError::from_io("read", name(), error);
        let invalid =
            |advice: &str| DeviceError::new(DeviceErrorKind::InvalidState, "read", name()).advise(advice);
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut header = [0; HEADER_BYTES / 8];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut header);
        let is_short = |error: &std::io::Error| error.kind() == std::io::ErrorKind::UnexpectedEof;
        match file.read_exact(bytes) {
            Err(error) if is_short(&error) => {
                return Err(invalid("it is no state of a drive: name another file"));
            }
            Err(error) => return Err(failed(error)),
            Ok(()) if bytes[..8] != MAGIC => {
                return Err(invalid("it is no state of a drive: name another file"));
            }
            Ok(()) => {}
        }
        let [_, of_model, words, checksum] = header.map(u64::from_le);
        if of_model != fingerprint || words != self.state_words() as u64 {
            return Err(invalid("it is the state of another model: name that model, or another file"));
        }
        let mut state = self.idle();
        let damaged = || invalid("it is damaged: remove it, and the drive begins as its model says");
        match file.read_exact(bytemuck::cast_slice_mut(&mut state)) {
            Err(error) if is_short(&error) => return Err(damaged()),
            Err(error) => return Err(failed(error)),
            Ok(()) => {}
        }
        if u64::from(crc32c::crc32c(bytemuck::cast_slice(&state))) != checksum {
            return Err(damaged());
        }
        state.iter_mut().for_each(|word| *word = u64::from_le(*word));
        Ok(Some(state))
    }
}

fn write(fingerprint: u64, state: &[u64], path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let mut checksum = 0;
    for (number, words) in state.chunks(HOLE_BYTES / 8).enumerate() {
        let mut buffer = [0; HOLE_BYTES / 8];
        let chunk = &mut buffer[..words.len()];
        for (to, from) in chunk.iter_mut().zip(words) {
            *to = from.to_le();
        }
        let bytes: &[u8] = bytemuck::cast_slice(chunk);
        checksum = crc32c::crc32c_append(checksum, bytes);
        if words.iter().any(|word| *word != 0) {
            file.seek(SeekFrom::Start((HEADER_BYTES + number * HOLE_BYTES) as u64))?;
            file.write_all(bytes)?;
        }
    }
    file.set_len((HEADER_BYTES + 8 * state.len()) as u64)?;
    let mut header = MAGIC.to_vec();
    for word in [fingerprint, state.len() as u64, u64::from(checksum)] {
        header.extend(word.to_le_bytes());
    }
    file.rewind()?;
    file.write_all(&header)?;
    file.sync_all()
}
