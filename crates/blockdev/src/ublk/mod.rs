//! A device as a block device of Linux, `/dev/ublkbN`, through the driver `ublk_drv`: from Linux 6.4 on, with
//! root. The kernel hands requests to this process through io_uring, and copies their contents.
//!
//! What holds, numbered for reference:
//! 1. *Durability.* Flushes and FUA of the kernel are those of the device. Nothing is said to be durable
//!    before the device has said so.
//! 2. *Lengths.* The block device is as long as the device was when it was made, in whole logical blocks.
//! 3. *Crashes.* When the process is gone, requests wait, those included that it had not answered; whoever
//!    shows a device of the same identity next takes the block device over and is asked them all. So a
//!    request may be carried out twice, a write with the same contents.
//! 4. *Identity.* A block device is taken over only if length, blocks and attributes are what they would be
//!    made anew. Whoever sets the identity answers for the contents.
//! 5. *Ends.* What is in use is not taken away, unless by [`UblkDevice::close`]. What users had written
//!    before is written back and flushed first.

mod ends;
#[allow(unsafe_code, reason = "the one module where memory is shared with the kernel")]
mod kernel;
mod processes;
mod serving;
mod wire;

pub use ends::{Claim, left, number_of};

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mezzanine_device::{Device, DeviceError};
use rustix::io::Errno;

use kernel::Control;
use serving::Serving;
use wire::{
    ANY_DEVICE, ControlOp, INFO_BYTES, IOCTL_ENCODE, Info, PARAMETERS_BYTES, Parameters, State,
    USER_RECOVERY, USER_RECOVERY_REISSUE,
};

/// Requests that the kernel hands over at a time.
const DEPTH: u16 = 64;
/// The largest of them, in bytes; so much memory is set aside for each, and taken when it is first used.
const REQUEST_BYTES: u32 = 512 << 10;
/// Largest range that is made zeros or given up at once, in bytes.
const RANGE_BYTES: u32 = 32 << 20;
/// How long a device whose server is gone takes until it lets another one in, and how long one that was just
/// added has until its file is there.
const KERNEL_WITHIN: Duration = Duration::from_secs(10);
/// How long the kernel may take to notice that a server is gone. If that had a request under every tag, Linux
/// from 6.7 to about 6.15 notices only when one of them runs into the timeout of its queue, 30 seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(75);

/// How a device is shown.
pub struct UblkOptions {
    /// Nothing is written.
    pub read_only: bool,
    /// Users are told that seeks cost something.
    pub rotational: bool,
    /// Zeroes are made by giving up the range where that leaves zeros, as in files.
    pub zeroes_are_holes: bool,
    /// The smallest request, in bytes: a power of two from 512 to the size of a memory page.
    pub logical_block: u32,
    /// Requests that are carried out at a time; each has a thread.
    pub threads: usize,
    /// By what a block device whose server is gone is known again; 0: it is not, and its users get errors
    /// then. Two devices whose contents differ must not have the same.
    pub identity: u64,
    /// Is told of requests that the device has failed.
    pub on_failure: Box<dyn Fn(&DeviceError) + Send + Sync>,
}

impl Default for UblkOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            rotational: false,
            zeroes_are_holes: false,
            logical_block: 512,
            threads: 16,
            identity: 0,
            on_failure: Box::new(|_| ()),
        }
    }
}

/// A device that is shown as a block device until this is dropped.
pub struct UblkDevice {
    number: u32,
    path: PathBuf,
    serving: Arc<Serving>,
    /// None once the block device is gone.
    queue: Option<JoinHandle<()>>,
    was_taken_over: bool,
}

/// A device about which all is known that can be before it is shown.
pub struct Prepared {
    control: Control,
    device: Arc<dyn Device>,
    options: UblkOptions,
    parameters: Parameters,
    /// The block device that is to be taken over.
    left: Option<Info>,
}

impl Prepared {
    /// Looks whether a device can be shown: as the block device of the same identity whose server is gone, or
    /// as a new one. Whoever uses that one goes on waiting.
    ///
    /// # Errors
    /// `NotFound` where the kernel has no ublk, `PermissionDenied` for users who may not, `ResourceBusy` if
    /// another process serves the block device of that identity, `TimedOut` if the kernel has not noticed
    /// within 75 seconds that its server is gone, `InvalidInput` if the one that was left is not as this one
    /// would be; and what the kernel refuses.
    pub fn new(device: Arc<dyn Device>, options: UblkOptions) -> io::Result<Self> {
        let parameters = Parameters::of(&*device, &options)?;
        let mut control = Control::open()?;
        let left = if options.identity == 0 { None } else { find(&mut control, options.identity)? };
        if let Some(left) = &left {
            refuse_other(&mut control, left, &parameters)?;
        }
        Ok(Self { control, device, options, parameters, left })
    }

    /// Shows it. If that fails, whoever uses a block device that a crash has left goes on waiting.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn show(self) -> io::Result<UblkDevice> {
        let Self { control, device, options, parameters, left } = self;
        match left {
            Some(left) => UblkDevice::take_over(control, device, options, &left),
            None => UblkDevice::make(control, device, options, &parameters),
        }
    }
}

impl UblkDevice {
    fn make(
        mut control: Control,
        device: Arc<dyn Device>,
        options: UblkOptions,
        parameters: &Parameters,
    ) -> io::Result<Self> {
        // What nobody would know again must not have its users wait.
        let features = if options.identity == 0 { 0 } else { USER_RECOVERY | USER_RECOVERY_REISSUE };
        let wanted = Info {
            queues: 1,
            depth: DEPTH,
            state: State::Dead,
            request_bytes: REQUEST_BYTES,
            number: ANY_DEVICE,
            server: process_id(),
            features,
            identity: options.identity,
        };
        let mut bytes = wanted.to_bytes();
        control.run(ControlOp::Add, ANY_DEVICE, 0, &mut bytes)?;
        let info = Info::from_bytes(&bytes);
        let prepared = if info.features & (features | IOCTL_ENCODE) == features | IOCTL_ENCODE {
            control.run(ControlOp::SetParameters, info.number, 0, &mut parameters.to_bytes())
        } else {
            let reason = "this kernel's ublk cannot be taken over after a crash; it needs Linux 6.4";
            Err(io::Error::new(io::ErrorKind::Unsupported, reason))
        };
        let served = prepared.and_then(|()| Self::serve(device, options, &info));
        let (serving, queue) = served.inspect_err(|_| {
            let _ = ends::remove(&mut control, info.number);
        })?;
        let mut made = Self::of(&info, serving, queue, false);
        if let Err(error) = control.run(ControlOp::Start, info.number, process_id() as u64, &mut []) {
            made.stop(Duration::ZERO, None)?;
            return Err(error);
        }
        Ok(made)
    }

    fn take_over(
        mut control: Control,
        device: Arc<dyn Device>,
        options: UblkOptions,
        left: &Info,
    ) -> io::Result<Self> {
        let begun = Instant::now();
        while let Err(error) = control.run(ControlOp::StartRecovery, left.number, 0, &mut []) {
            if Errno::from_io_error(&error) != Some(Errno::BUSY) || begun.elapsed() > KERNEL_WITHIN {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(20));
        }
        let (serving, queue) = Self::serve(device, options, left)?;
        control.run(ControlOp::EndRecovery, left.number, process_id() as u64, &mut [])?;
        Ok(Self::of(left, serving, queue, true))
    }

    fn serve(
        device: Arc<dyn Device>,
        options: UblkOptions,
        info: &Info,
    ) -> io::Result<(Arc<Serving>, JoinHandle<()>)> {
        let path = queue_path(info.number);
        // Its file is made by another process.
        let begun = Instant::now();
        while !path.exists() && begun.elapsed() < KERNEL_WITHIN {
            thread::sleep(Duration::from_millis(5));
        }
        Serving::begin(device, options, &path, (info.depth, info.request_bytes))
    }

    fn of(info: &Info, serving: Arc<Serving>, queue: JoinHandle<()>, was_taken_over: bool) -> Self {
        Self {
            number: info.number,
            path: block_path(info.number),
            serving,
            queue: Some(queue),
            was_taken_over,
        }
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was there, left by a server that is gone.
    pub fn was_taken_over(&self) -> bool {
        self.was_taken_over
    }
}

/// Whether block devices can be made here: what is missing otherwise.
///
/// # Errors
/// `NotFound` where the kernel has no ublk, `PermissionDenied` for users who may not.
pub fn is_available() -> io::Result<()> {
    Control::open().map(|_| ())
}

/// Deletes a block device that its server has left. Whoever has it open gets errors.
///
/// # Errors
/// `ResourceBusy` if it has a server, `NotFound` if there is none of that number; and what the kernel
/// refuses.
pub fn delete(number: u32) -> io::Result<()> {
    let mut control = Control::open()?;
    let info = info(&mut control, number)?;
    if info.is_served() || info.is_being_made() {
        let reason = format!("process {} serves it, or is about to", info.server);
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, reason));
    }
    control.run(ControlOp::Stop, number, 0, &mut [])?;
    ends::remove(&mut control, number)
}

fn block_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{number}"))
}

fn queue_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkc{number}"))
}

fn process_id() -> i32 {
    process::id() as i32
}

impl Info {
    /// Whether somebody serves it. The kernel keeps the number of its server, which another process may have
    /// by now: so it counts only while that process has the queue open, which one at a time can.
    fn is_served(&self) -> bool {
        let is_left = matches!(self.state, State::Quiesced) || self.server < 1;
        !is_left && processes::has_open(self.server, &queue_path(self.number))
    }

    /// Whether somebody may be about to start it, and has not opened its queue yet.
    fn is_being_made(&self) -> bool {
        self.state == State::Dead && self.server > 0 && processes::is_alive(self.server)
    }
}

fn info(control: &mut Control, number: u32) -> io::Result<Info> {
    let mut bytes = [0; INFO_BYTES];
    control.run(ControlOp::Info, number, 0, &mut bytes).map_err(|error| {
        let is_missing = matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NODEV));
        if is_missing { io::Error::from(io::ErrorKind::NotFound) } else { error }
    })?;
    Ok(Info::from_bytes(&bytes))
}

/// The numbers of all devices.
fn numbers() -> io::Result<Vec<u32>> {
    let number = |name: &OsStr| name.to_str()?.strip_prefix("ublkc")?.parse().ok();
    let entries = fs::read_dir("/dev")?.collect::<io::Result<Vec<_>>>()?;
    Ok(entries.iter().filter_map(|entry| number(&entry.file_name())).collect())
}

/// The block device with this identity, once its server is gone.
fn find(control: &mut Control, identity: u64) -> io::Result<Option<Info>> {
    let begun = Instant::now();
    for number in numbers()? {
        // It may go meanwhile, and those of other users are not shown.
        while let Some(info) = info(control, number).ok().filter(|info| info.identity == identity) {
            match info.state {
                State::Quiesced => return Ok(Some(info)),
                // Nobody has ever used it, or nobody will.
                State::Dead if !info.is_being_made() => {
                    ends::remove(control, number)?;
                }
                State::Dead => {}
                State::Live | State::Other(_) if !info.is_served() => {
                    if begun.elapsed() < NOTICED_WITHIN {
                        thread::sleep(Duration::from_millis(20));
                        continue;
                    }
                    let reason = format!(
                        "/dev/ublkb{number}: the kernel has not noticed yet that process {} is gone",
                        info.server
                    );
                    return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
                }
                State::Live | State::Other(_) => {
                    let reason = format!("process {} serves it as /dev/ublkb{number}", info.server);
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, reason));
                }
            }
            break;
        }
    }
    Ok(None)
}

/// Refuses a block device that is not as it would be made anew.
fn refuse_other(control: &mut Control, left: &Info, parameters: &Parameters) -> io::Result<()> {
    let path = block_path(left.number);
    let mut found = [0; PARAMETERS_BYTES];
    found[..4].copy_from_slice(&(PARAMETERS_BYTES as u32).to_ne_bytes());
    control.run(ControlOp::GetParameters, left.number, 0, &mut found)?;
    // Before them stands which kinds of parameters there are, to which the kernel adds.
    if found[8..] != parameters.to_bytes()[8..] || left.queues != 1 {
        let path = path.display();
        let reason =
            format!("{path} was left by a server that showed it with another length or other attributes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    Ok(())
}

impl Parameters {
    fn of(device: &dyn Device, options: &UblkOptions) -> io::Result<Self> {
        let capabilities = device.capabilities();
        let logical = options.logical_block;
        let page = rustix::param::page_size();
        if !logical.is_power_of_two() || logical < 512 || logical as usize > page {
            let reason = format!("blocks of {logical} bytes are no power of two from 512 to {page}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let len = capabilities.len - capabilities.len % u64::from(logical);
        if len == 0 {
            let reason = format!("its {} bytes are no whole block of {logical}", capabilities.len);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        Ok(Self {
            read_only: options.read_only,
            rotational: options.rotational,
            logical_block: logical,
            physical_block: capabilities.block_size.max(logical).max(4096).min(page as u32),
            request_bytes: REQUEST_BYTES,
            len,
            range_bytes: RANGE_BYTES,
        })
    }
}
