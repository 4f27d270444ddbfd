//! Changes of a tier in use, as pragmas ask for them.

use mezzanine_volume::ResizeProgress;

use crate::error::Error;
use crate::mount::Mount;
use crate::params::size;

/// `PRAGMA mezzanine_resize`.
pub(crate) fn resize(mount: &Mount, argument: Option<&str>) -> Result<String, Error> {
    let progress = match argument {
        None => mount.volume.resize_progress(),
        Some("cancel") => {
            mount.volume.cancel_resize();
            mount.volume.resize_progress()
        }
        Some(value) => Some(mount.volume.resize(size("mezzanine_resize", value)?)?),
    };
    Ok(progress.map_or_else(|| "no tier is in use".to_owned(), |progress| words(&progress)))
}

fn words(progress: &ResizeProgress) -> String {
    let ResizeProgress { bytes, bytes_max, frames, wanted } = progress;
    let now = format!("{bytes} bytes of flash in {frames} frames, at most {bytes_max}");
    match wanted {
        None => format!("{now}; no resize is under way"),
        Some(wanted) => format!(
            "{now}; to be {} bytes in {} frames when {} more have been written, at least",
            wanted.bytes, wanted.frames, wanted.frames_to_go
        ),
    }
}
