//! A modelled drive under the loads, in virtual time: figures do not depend on the machine.

use std::sync::Arc;
use std::time::Duration;

use mezzanine_device::DeviceError;
use mezzanine_device::model::Timing;
use mezzanine_ssd::load::VirtualDrive;

use super::load::{Load, Seen};
use super::subject::Subject;

/// A modelled drive, of which so many bytes are measured.
pub(super) struct ModelledDrive {
    drive: VirtualDrive,
    span_bytes: u64,
}

impl ModelledDrive {
    /// `has_fua`: whether it carries writes through its cache by itself; for others the host flushes after
    /// them.
    pub(super) fn new(timing: Arc<dyn Timing>, span_bytes: u64, has_fua: bool) -> ModelledDrive {
        ModelledDrive { drive: VirtualDrive::new(timing, has_fua), span_bytes }
    }
}

impl Subject for ModelledDrive {
    fn use_bytes(&mut self, span_bytes: u64) {
        self.span_bytes = span_bytes;
    }

    fn fill(&mut self, filled: &mut dyn FnMut(u64)) -> Result<(), DeviceError> {
        self.drive.fill(self.span_bytes, filled);
        Ok(())
    }

    fn run(&mut self, load: Load, time: Duration, seed: u64) -> Result<Seen, DeviceError> {
        let mut seen = Seen::default();
        seen.time = self.drive.run(load, self.span_bytes, time, seed, &mut seen);
        Ok(seen)
    }

    fn settle(&mut self, rest: Duration) -> Result<(), DeviceError> {
        self.drive.settle(rest);
        Ok(())
    }

    fn flushes_counted(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_device::model;

    use super::super::load::{LoadKind, Row, Rows, loads};
    use super::super::subject::measure;
    use super::*;

    fn probe(name: &str) -> Vec<Row> {
        let span = 64 << 20;
        let timing = mezzanine_ssd::timing(&model::find(name).unwrap()).unwrap();
        let mut drive = ModelledDrive::new(timing, span, name == "durassd");
        drive.fill(&mut |_| {}).unwrap();
        let time = Duration::from_millis(300);
        loads(128)
            .into_iter()
            .map(|load| measure(&mut drive, load, time, Duration::ZERO, 1).unwrap())
            .collect()
    }

    /// Tables 1 and 2 of the DuraSSD paper: both ends are fitted, so no more than that is asked for here.
    #[test]
    fn the_drive_of_the_paper_has_the_figures_of_the_paper() {
        let rows = probe("durassd");
        let rows = Rows(&rows);
        for (found, printed) in [
            (rows.writes(4096, Some(1)), 225.0),
            (rows.writes(4096, None), 15_319.0),
            (rows.reads(4096), 89_083.0),
            (rows.reads(16_384), 29_870.0),
            (rows.many_writes(4096), 49_009.0),
        ] {
            let found = found.unwrap().per_second;
            assert!((found / printed - 1.0).abs() < 0.05, "{found} where {printed} is printed");
        }
    }

    #[test]
    fn a_disk_takes_its_time_and_keeps_the_order_of_figures() {
        let rows = probe("cheetah-15k-cached");
        let rows = Rows(&rows);
        let each = rows.writes(4096, Some(1)).unwrap();
        assert!(each.per_second < 500.0, "half a revolution takes 2 ms: {each:?}");
        let dsync = rows.find(LoadKind::LogDsync, 8192, None).unwrap();
        assert!(dsync.per_second < 1000.0, "each of these reaches the platter: {dsync:?}");
        assert!(rows.writes(4096, None).unwrap().per_second > each.per_second);
    }
}
