//! The file's operations, as the kernel asks for them.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};
use mezzanine_device::{AlignedBuf, Device, DeviceError, DeviceErrorKind};
use rustix::fs::OFlags;

use super::FuseOptions;
use crate::gate::Gate;
use crate::zeroes::write_zeroes;

/// Largest write that the kernel is told of, in bytes.
const WRITE_BYTES_MAX: u32 = 1 << 20;
/// How long the kernel may believe the attributes: they do not change.
const TTL: Duration = Duration::from_secs(3600);
/// Modes of `fallocate`, and what `lseek` looks for (fallocate(2), lseek(2)).
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

pub(super) struct File {
    device: Arc<dyn Device>,
    len: u64,
    options: FuseOptions,
    attributes: FileAttr,
    gate: Arc<Gate>,
}

thread_local! {
    static BUFFER: RefCell<AlignedBuf> = RefCell::new(AlignedBuf::zeroed(WRITE_BYTES_MAX as usize));
}

impl File {
    /// The file belongs to who owns the one that it is mounted over.
    pub(super) fn new(
        device: Arc<dyn Device>,
        over: &Path,
        options: FuseOptions,
        gate: Arc<Gate>,
    ) -> io::Result<Self> {
        let owner = fs::metadata(over)?;
        let (len, now) = (device.len(), SystemTime::now());
        let attributes = FileAttr {
            ino: INodeNo(1),
            size: len,
            blocks: len.div_ceil(512),
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: FileType::RegularFile,
            perm: if options.read_only { 0o400 } else { 0o600 },
            nlink: 1,
            uid: owner.uid(),
            gid: owner.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        };
        Ok(Self { device, len, options, attributes, gate })
    }

    /// The error number of a failed request, of which is told.
    fn failed(&self, error: &DeviceError) -> Errno {
        (self.options.on_failure)(error);
        match error.kind() {
            DeviceErrorKind::NoSpace | DeviceErrorKind::OutOfRange => Errno::ENOSPC,
            DeviceErrorKind::ReadOnly => Errno::EROFS,
            DeviceErrorKind::Misaligned => Errno::EINVAL,
            DeviceErrorKind::Unsupported => Errno::EOPNOTSUPP,
            _ => Errno::EIO,
        }
    }

    /// Carries a request out, unless nothing is to reach the device any more.
    fn on_device<T>(&self, request: impl FnOnce(&dyn Device) -> Result<T, DeviceError>) -> Result<T, Errno> {
        let Some(_inside) = self.gate.enter() else { return Err(Errno::EIO) };
        request(&*self.device).map_err(|error| self.failed(&error))
    }

    /// What of a range lies in the file: its length.
    fn within(&self, offset: u64, len: u64) -> u64 {
        self.len.saturating_sub(offset).min(len)
    }

    fn allocate(&self, offset: u64, length: u64, mode: i32) -> Result<(), Errno> {
        if self.options.read_only {
            return Err(Errno::EROFS);
        }
        if self.within(offset, length) < length {
            return Err(Errno::ENOSPC);
        }
        let zeroes =
            |may_punch: bool| self.on_device(|device| write_zeroes(device, offset, length, may_punch));
        match mode & !KEEP_SIZE {
            // Its space is there already.
            0 => Ok(()),
            PUNCH_HOLE if mode & KEEP_SIZE != 0 && self.options.zeroes_are_holes => zeroes(true),
            ZERO_RANGE => zeroes(self.options.zeroes_are_holes),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn seek(&self, offset: u64, whence: i32) -> Result<u64, Errno> {
        if offset >= self.len {
            return Err(Errno::ENXIO);
        }
        let data = |from: u64| self.on_device(|device| device.data_from(from));
        match whence {
            SEEK_DATA => match data(offset)? {
                Some(range) if range.start < self.len => Ok(range.start.max(offset)),
                _ => Err(Errno::ENXIO),
            },
            SEEK_HOLE => match data(offset)? {
                Some(range) if range.start <= offset => Ok(range.end.min(self.len)),
                _ => Ok(offset),
            },
            _ => Err(Errno::EINVAL),
        }
    }
}

fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for File {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Where the kernel offers less it has said how much, and goes on with that.
        if let Err(most) = config.set_max_write(WRITE_BYTES_MAX) {
            let _ = config.set_max_write(most);
        }
        Ok(())
    }

    /// There is nothing below a file.
    fn lookup(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::ENOENT);
    }

    fn getattr(&self, _: &Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes);
    }

    /// Times may be set, and are forgotten. Neither length nor owner changes.
    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = mode.is_some() || uid.is_some() || gid.is_some();
        if changes || size.is_some_and(|size| size != self.len) {
            return reply.error(Errno::EPERM);
        }
        reply.attr(&TTL, &self.attributes);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = self.within(offset, size.into()) as usize;
        if len == 0 {
            return reply.data(&[]);
        }
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < len {
                *buffer = AlignedBuf::zeroed(len);
            }
            match self.on_device(|device| device.read_at(&mut buffer[..len], offset)) {
                Ok(()) => reply.data(&buffer[..len]),
                Err(error) => reply.error(error),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let len = self.within(offset, data.len() as u64) as usize;
        if self.options.read_only {
            return reply.error(Errno::EROFS);
        }
        if len == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        // Past the page cache the kernel asks for no flush after it.
        let is_durable = flags.0 & OFlags::DSYNC.bits() as i32 != 0;
        let written = self.on_device(|device| match is_durable {
            true => device.write_through(&data[..len], offset),
            false => device.write_at(&data[..len], offset),
        });
        match written {
            Ok(()) => reply.written(len as u32),
            Err(error) => reply.error(error),
        }
    }

    /// A close, which promises nothing.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.on_device(|device| device.flush()));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.allocate(offset, length, mode));
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let found = u64::try_from(offset).map_err(|_| Errno::ENXIO).and_then(|at| self.seek(at, whence));
        match found {
            Ok(at) => reply.offset(i64::try_from(at).unwrap_or(i64::MAX)),
            Err(error) => reply.error(error),
        }
    }
}
