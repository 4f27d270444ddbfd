//! Modelled devices under the server: its disk and its flash take the time of published drives, for all
//! processes together.

use std::path::Path;
use std::sync::Arc;

use mezzanine_device::{Attachment, Device, Drive, Model, NullDevice, Request, model};

use crate::message::Refusal;

/// A modelled flash drive under the tier.
pub struct FlashModel(Arc<Drive>);

/// A modelled disk under the server's relations.
pub struct DiskModel {
    drive: Arc<Drive>,
    /// Where reads and writes go that only take time.
    nowhere: Arc<dyn Device>,
}

fn open(name: &str, time_scale: f64) -> Result<Arc<Drive>, Refusal> {
    let model: Model = match name.contains('/') {
        true => Model::load(Path::new(name)),
        false => model::find(name),
    }
    .map_err(|error| {
        let known = model::catalogue().into_iter().filter(|model| model.timing().is_ok());
        let known: Vec<String> = known.map(|model| model.name).collect();
        Refusal::new(format!("there is no device model \"{name}\""))
            .detail(error)
            .hint(format!("Name the file of a model, or one of: {}.", known.join(", ")))
    })?;
    Drive::open_shared(model, None, time_scale)
        .map_err(|error| Refusal::new(format!("the device model \"{name}\" cannot be used: {error}")))
}

impl FlashModel {
    /// The model of this name or in this file. Its state is shared with children of this process.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(name: &str, time_scale: f64) -> Result<Self, Refusal> {
        Ok(Self(open(name, time_scale)?))
    }

    pub(crate) fn attach(&self, device: Arc<dyn Device>) -> Arc<dyn Device> {
        self.0.attach(device, 0)
    }

    /// The drive, for its time scale and its statistics.
    pub fn drive(&self) -> &Drive {
        &self.0
    }
}

impl DiskModel {
    /// The model of this name or in this file. Its state is shared with children of this process. `spread`
    /// and `span` are those of an [`Attachment`].
    ///
    /// # Errors
    /// If there is none.
    pub fn open(name: &str, time_scale: f64, spread: f64, span: f64) -> Result<Self, Refusal> {
        let drive = open(name, time_scale)?;
        let attachment = Attachment { spread, span, ..Attachment::default() };
        let nowhere = drive.attach_as(Arc::new(NullDevice::ENDLESS), attachment);
        Ok(Self { drive, nowhere })
    }

    /// Returns when the disk would have read `bytes` bytes from `address`.
    pub fn read(&self, address: u64, bytes: usize) {
        let mut buf = vec![0; bytes];
        // A device that keeps nothing never fails.
        let _ = self.nowhere.run_one(Request::Read { offset: address, buf: &mut buf });
    }

    /// Returns when the disk would have written `bytes` bytes at `address`.
    pub fn write(&self, address: u64, bytes: usize) {
        let buf = vec![0; bytes];
        let _ = self.nowhere.run_one(Request::write(&buf, address));
    }

    /// Returns when the disk would have written all of these, (address, bytes), handed to it together.
    pub fn write_together(&self, runs: &[(u64, usize)]) {
        let longest = runs.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let zeros = vec![0; longest];
        let mut writes: Vec<Request<'_>> =
            runs.iter().map(|&(offset, bytes)| Request::write(&zeros[..bytes], offset)).collect();
        let _ = self.nowhere.run(&mut writes);
    }

    /// Returns when the disk would have completed a flush.
    pub fn flush(&self) {
        let _ = self.nowhere.flush();
    }

    /// The drive, for its time scale and its statistics.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }
}
