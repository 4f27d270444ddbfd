//! A file that is there when it is whole, and not before.
//!
//! 1. It is written under a temporary name beside its own and renamed when everything has reached the disk.
//! 2. What was not finished is removed when it is dropped. A process that is killed leaves the temporary
//!    file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::input::Compression;

/// zstd's own default.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 3;

const BUFFER_BYTES: usize = 128 << 10;

pub(crate) struct Output {
    /// `None` once finished.
    sink: Option<Sink>,
    path: PathBuf,
    temporary: PathBuf,
    /// What was not finished stays, under its temporary name.
    kept: bool,
}

enum Sink {
    Plain(BufWriter<File>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Output {
    /// Begins a file. What has its name stays until this one is finished.
    pub(crate) fn create(path: &Path, compression: Compression) -> Result<Output, TraceError> {
        let temporary = unfinished(path);
        let failed = |e| TraceError::from_io(path, "it cannot be created", e);
        let file = File::create_new(&temporary).map_err(failed)?;
        let buffered = BufWriter::with_capacity(BUFFER_BYTES, file);
        let sink = match compression {
            Compression::None => Sink::Plain(buffered),
            Compression::Zstd => compressed(buffered, path).inspect_err(|_| {
                // Nobody else removes it: there is no Output yet.
                let _ = fs::remove_file(&temporary);
            })?,
        };
        Ok(Output { sink: Some(sink), path: path.to_owned(), temporary, kept: false })
    }

    /// Has what was written so far stay, under its temporary name, if it is not finished.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    /// Gives the file its name when all of it is on disk; returns its length in bytes.
    pub(crate) fn finish(mut self) -> Result<u64, TraceError> {
        let sink = self.sink.take();
        let failed = |e| TraceError::from_io(&self.path, "it cannot be completed", e);
        let completed = || -> io::Result<u64> {
            let file = match sink {
                Some(Sink::Plain(buffered)) => buffered.into_inner()?,
                #[cfg(feature = "zstd")]
                Some(Sink::Zstd(encoder)) => encoder.finish()?.into_inner()?,
                None => return Err(io::Error::other("it was completed before")),
            };
            file.sync_all()?;
            let bytes = file.metadata()?.len();
            fs::rename(&self.temporary, &self.path)?;
            let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
            Ok(bytes)
        };
        // Dropping removes what still has the temporary name.
        completed().map_err(failed)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Some(Sink::Plain(sink)) => sink.write(bytes),
            #[cfg(feature = "zstd")]
            Some(Sink::Zstd(sink)) => sink.write(bytes),
            None => Err(io::Error::other("it was completed before")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Some(Sink::Plain(sink)) => sink.flush(),
            #[cfg(feature = "zstd")]
            Some(Sink::Zstd(sink)) => sink.flush(),
            None => Ok(()),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.kept {
            // After a rename there is nothing of this name.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// With a checksum: the formats of others have none.
#[cfg(feature = "zstd")]
fn compressed(file: BufWriter<File>, path: &Path) -> Result<Sink, TraceError> {
    let begun = || -> io::Result<Sink> {
        let mut encoder = zstd::Encoder::new(file, ZSTD_LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Sink::Zstd(encoder))
    };
    begun().map_err(|e| TraceError::from_io(path, "it cannot be created", e))
}

#[cfg(not(feature = "zstd"))]
fn compressed(_: BufWriter<File>, path: &Path) -> Result<Sink, TraceError> {
    Err(crate::input::not_built(path))
}

/// A file without a name, in the directory of `path`, to be read back.
pub(crate) fn scratch(path: &Path) -> Result<File, TraceError> {
    let temporary = beside(path, "scratch");
    let created = || -> io::Result<File> {
        let file = File::options().read(true).write(true).create_new(true).open(&temporary)?;
        fs::remove_file(&temporary)?;
        Ok(file)
    };
    created().map_err(|e| TraceError::from_io(path, "no temporary file can be created beside it", e))
}

/// The name that a file has until it is finished.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    beside(path, "unfinished")
}

/// A name of this process's own beside `path`.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{what}", std::process::id()));
    path.with_file_name(name)
}
