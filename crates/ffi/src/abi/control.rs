//! What a person can have the tier do: admit or not, drain, another size.

use super::names::{MezzPage, MezzScope};
use super::{MezzHost, MezzMessage, tell, told};

/// How a wait has ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzWaited {
    /// What was waited for is done.
    Done = 0,
    /// The caller had something else to do.
    Stopped = 1,
    /// It cannot be done; see the message.
    Failed = 2,
}

/// Has every page that is newer than its disk copy written to disk and synced.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_drain(host: &MezzHost, message: &mut MezzMessage) -> bool {
    told(host.0.drain_all(), message)
}

/// Has the newest version of these pages, or of all (`page` is null), written to disk and synced, and waits
/// for it unless `stop` says that the caller has something else to do. The drain goes on without him.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_drain_unless(
    host: &MezzHost,
    page: Option<&MezzPage>,
    scope: MezzScope,
    stop: extern "C" fn() -> bool,
    message: &mut MezzMessage,
) -> MezzWaited {
    let range = page.map(|page| page.range(scope));
    match host.0.drain_unless(range, &|| stop()) {
        Ok(true) => MezzWaited::Done,
        Ok(false) => MezzWaited::Stopped,
        Err(refusal) => {
            tell(&refusal, message);
            MezzWaited::Failed
        }
    }
}

/// Stops taking pages, or takes them again.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_admit(host: &MezzHost, admit: bool) {
    let tier = host.0.tier();
    if admit { tier.resume_admission() } else { tier.stop_admission() }
}

/// Asks for a queue that takes so many bytes of flash; it takes effect when the queue has come round.
#[unsafe(no_mangle)]
pub extern "C" fn mezz_resize(host: &MezzHost, bytes: u64, message: &mut MezzMessage) -> bool {
    told(host.0.resize(bytes), message)
}
