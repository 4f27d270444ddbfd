//! A drive's contents in a file, between runs.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use mezzanine_device::{Device as _, DeviceError, FileDevice, MemoryDevice, OpenOptions};

/// What is looked at and written at once, in bytes.
const PIECE_BYTES: usize = 8192;

/// Length of the image in bytes; none if there is no such file.
pub(super) fn len(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
        Ok(_) => Err(io::Error::other("it is no file; serve a block device with --file")),
    }
}

/// Gives a drive the contents of the image, durably. Holes are not read.
pub(super) fn load(path: &Path, contents: &MemoryDevice) -> Result<(), DeviceError> {
    let image = FileDevice::open(path, &OpenOptions::default())?;
    let end = image.len().min(contents.len());
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while let Some(data) = image.data_from(at)?.filter(|data| data.start < end) {
        at = data.start;
        let data_end = data.end.min(end);
        while at < data_end {
            let piece = &mut buffer[..(data_end - at).min(1 << 20) as usize];
            image.read_at(piece, at)?;
            contents.write_at(piece, at)?;
            contents.flush()?;
            at += piece.len() as u64;
        }
    }
    Ok(())
}

/// Writes the contents of a drive to the image, with holes where there are zeros. The image that was there is
/// replaced when the new one is whole.
pub(super) fn save(path: &Path, contents: &MemoryDevice) -> io::Result<()> {
    let mut making = path.as_os_str().to_owned();
    making.push(".new");
    let made = write_new(making.as_ref(), contents).and_then(|()| fs::rename(&making, path));
    if made.is_err() {
        let _ = fs::remove_file(&making);
    }
    made
}

fn write_new(path: &Path, contents: &MemoryDevice) -> io::Result<()> {
    let mut file = File::create(path)?;
    contents.view(|image| {
        let (mut at, mut there) = (0, 0);
        for piece in image.pieces::<PIECE_BYTES>() {
            if piece.iter().any(|&byte| byte != 0) {
                if at != there {
                    file.seek(SeekFrom::Start(at))?;
                }
                file.write_all(piece)?;
                there = at + piece.len() as u64;
            }
            at += piece.len() as u64;
        }
        file.set_len(at)
    })?;
    file.sync_all()
}
