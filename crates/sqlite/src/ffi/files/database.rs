//! The methods of an open database.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use super::control::db_file_control;
use super::{Slot, range};
use crate::abi::{self, File, IoMethods};
use crate::database::{Connection, Fill, Refused};
use crate::error::Error;
use crate::ffi::Core;
use crate::lineage::Origin;
use crate::lock::{Busy, Level};
use crate::mount;
use crate::report::guarded;

/// What is behind an open database file.
pub(super) struct OpenDatabase {
    core: &'static Core,
    origin: Origin,
    connection: Option<Connection>,
}

/// What SQLite calls for an open database.
pub(super) static METHODS: IoMethods = IoMethods {
    iVersion: 2,
    xClose: Some(db_close),
    xRead: Some(db_read),
    xWrite: Some(db_write),
    xTruncate: Some(db_truncate),
    xSync: Some(db_sync),
    xFileSize: Some(db_file_size),
    xLock: Some(db_lock),
    xUnlock: Some(db_unlock),
    xCheckReservedLock: Some(db_check_reserved_lock),
    xFileControl: Some(db_file_control),
    xSectorSize: Some(db_sector_size),
    xDeviceCharacteristics: Some(db_device_characteristics),
    xShmMap: Some(db_shm_map),
    xShmLock: Some(db_shm_lock),
    xShmBarrier: Some(db_shm_barrier),
    xShmUnmap: Some(db_shm_unmap),
    ..IoMethods::NONE
};

/// The state of an open database file.
///
/// # Safety
/// `file` has [`METHODS`] and is not closed; nobody else uses it while the result lives (contract
/// 3).
pub(super) unsafe fn opened<'a>(file: *mut File) -> &'a mut OpenDatabase {
    // SAFETY: by the caller.
    let slot = unsafe { &*file.cast::<Slot<OpenDatabase>>() };
    // SAFETY: `open_database` put it there and `db_close` alone takes it away.
    unsafe { &mut *slot.state }
}

impl OpenDatabase {
    pub(super) fn new(core: &'static Core, connection: Connection) -> Self {
        Self { core, origin: Origin::here(), connection: Some(connection) }
    }

    /// Runs a method's body. In a forked child the connection is its parent's.
    pub(super) fn on(
        &mut self,
        otherwise: c_int,
        body: impl FnOnce(&'static Core, &mut Connection) -> c_int,
    ) -> c_int {
        let core = self.core;
        guarded(otherwise, || match &mut self.connection {
            Some(connection) if self.origin.is_here() => body(core, connection),
            Some(connection) => {
                core.fail(&self.origin.refuse("use", connection.database().path().display()), otherwise)
            }
            None => abi::MISUSE,
        })
    }

    /// As [`Self::on`], for what takes nothing that a child could have: there is nothing to be given back.
    fn give_back(&mut self, body: impl FnOnce(&mut Connection) -> Result<(), Error>) -> c_int {
        if !self.origin.is_here() {
            return abi::OK;
        }
        self.on(abi::IOERR, |core, connection| core.check(body(connection), abi::IOERR))
    }
}

unsafe extern "C" fn db_close(file: *mut File) -> c_int {
    // SAFETY: a method of this file.
    let state: *mut OpenDatabase = unsafe { opened(file) };
    // SAFETY: contract 2: the slot is still ours.
    unsafe { (*file).pMethods = ptr::null() };
    // SAFETY: contract 3: this was the last call for this file, so the state is ours alone.
    let mut state = unsafe { Box::from_raw(state) };
    let core = state.core;
    if !state.origin.is_here() {
        // It stays in the memory of the child: its end would be that of the parent's.
        std::mem::forget(state);
        return abi::OK;
    }
    guarded(abi::IOERR, || core.check(state.connection.take().map_or(Ok(()), Connection::close), abi::IOERR))
}

unsafe extern "C" fn db_read(file: *mut File, out: *mut c_void, amount: c_int, offset: i64) -> c_int {
    let Some((amount, offset)) = range(amount, offset) else { return abi::MISUSE };
    // SAFETY: contract 4; SQLite's page buffers are memory that it has initialised.
    let buf = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), amount) };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_READ, |core, connection| match connection.read(buf, offset) {
        Ok(Fill::Whole) => abi::OK,
        Ok(Fill::Short) => abi::IOERR_SHORT_READ,
        Err(error) => core.fail(&error, abi::IOERR_READ),
    })
}

unsafe extern "C" fn db_write(file: *mut File, data: *const c_void, amount: c_int, offset: i64) -> c_int {
    let Some((amount, offset)) = range(amount, offset) else { return abi::MISUSE };
    // SAFETY: contract 4.
    let buf = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), amount) };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_WRITE, |core, connection| {
        let result = core.check(connection.write(buf, offset), abi::IOERR_WRITE);
        if offset == 0 {
            if let Some(warning) = connection.page_size_warning() {
                core.api.log(abi::WARNING, &warning);
            }
        }
        result
    })
}

unsafe extern "C" fn db_truncate(file: *mut File, len: i64) -> c_int {
    let Ok(len) = u64::try_from(len) else { return abi::MISUSE };
    // SAFETY: a method of this file.
    unsafe { opened(file) }
        .on(abi::IOERR_TRUNCATE, |core, c| core.check(c.truncate(len), abi::IOERR_TRUNCATE))
}

unsafe extern "C" fn db_sync(file: *mut File, _flags: c_int) -> c_int {
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_FSYNC, |core, c| core.check(c.sync(), abi::IOERR_FSYNC))
}

unsafe extern "C" fn db_file_size(file: *mut File, out: *mut i64) -> c_int {
    // SAFETY: contract 4.
    let out = unsafe { &mut *out };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_FSTAT, |_, connection| match i64::try_from(connection.len()) {
        Ok(len) => {
            *out = len;
            abi::OK
        }
        Err(_) => abi::IOERR_FSTAT,
    })
}

unsafe extern "C" fn db_lock(file: *mut File, wanted: c_int) -> c_int {
    let Some(wanted) = Level::asked_for(wanted) else { return abi::MISUSE };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_LOCK, |core, connection| match connection.lock(wanted) {
        Ok(()) => abi::OK,
        Err(Refused::Busy) => abi::BUSY,
        // As the kernel answers one that asks for a lock to write through a descriptor that only reads.
        Err(Refused::ReadOnly) => abi::IOERR_LOCK,
        Err(Refused::WrittenOver) => {
            core.fail(&mount::written_over(connection.database().path()), abi::IOERR_LOCK)
        }
    })
}

unsafe extern "C" fn db_unlock(file: *mut File, wanted: c_int) -> c_int {
    let Some(wanted) = Level::asked_for(wanted) else { return abi::MISUSE };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.give_back(|connection| {
        let handed =
            if connection.level() == Level::Exclusive { connection.database().hand_over() } else { Ok(()) };
        connection.unlock(wanted);
        handed
    })
}

unsafe extern "C" fn db_check_reserved_lock(file: *mut File, out: *mut c_int) -> c_int {
    // SAFETY: contract 4.
    let out = unsafe { &mut *out };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR, |_, connection| {
        *out = c_int::from(connection.is_reserved());
        abi::OK
    })
}

fn granted(result: Result<(), Busy>) -> c_int {
    if result == Err(Busy) { abi::BUSY } else { abi::OK }
}

unsafe extern "C" fn db_sector_size(file: *mut File) -> c_int {
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(4096, |_, connection| connection.database().mount().page_size as c_int)
}

unsafe extern "C" fn db_device_characteristics(file: *mut File) -> c_int {
    // Of the other promises none holds for a volume in every state: ATOMIC ends when the tier is given up and
    // pages go straight to the disk; SAFE_APPEND and SEQUENTIAL would be read as promises about the
    // journal, which is on the base VFS.
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(0, |_, c| if c.is_powersafe() { abi::IOCAP_POWERSAFE_OVERWRITE } else { 0 })
}

unsafe extern "C" fn db_shm_map(
    file: *mut File,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let Some((size, region)) = range(size, i64::from(region)) else { return abi::MISUSE };
    // SAFETY: contract 4.
    let out = unsafe { &mut *out };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_SHMMAP, |_, connection| {
        let memory =
            connection.with_index(|index, _| index.memory.region(region as usize, size, extend != 0));
        *out = memory.unwrap_or(ptr::null_mut());
        if memory.is_none() { abi::IOERR_NOMEM } else { abi::OK }
    })
}

unsafe extern "C" fn db_shm_lock(file: *mut File, first: c_int, count: c_int, flags: c_int) -> c_int {
    let Some((count, first)) = range(count, i64::from(first)) else { return abi::MISUSE };
    let (first, exclusive) = (first as usize, flags & abi::SHM_EXCLUSIVE != 0);
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR, |core, connection| {
        // A checkpoint is about to say how far the log is not needed any more. If that fails, the log itself
        // is kept (`log_write`, `log_truncate`), and the lock falls all the same.
        if flags & abi::SHM_UNLOCK != 0 && exclusive {
            if let Err(error) = connection.database().hand_over() {
                core.fail(&error, abi::IOERR);
            }
        }
        connection.with_index(|index, held| {
            if flags & abi::SHM_UNLOCK != 0 {
                index.unlock(held, first, count);
                return abi::OK;
            }
            granted(index.lock(held, first, count, exclusive))
        })
    })
}

unsafe extern "C" fn db_shm_barrier(_file: *mut File) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn db_shm_unmap(file: *mut File, _delete: c_int) -> c_int {
    // SAFETY: a method of this file.
    unsafe { opened(file) }.give_back(|connection| {
        connection.leave_index();
        Ok(())
    })
}
