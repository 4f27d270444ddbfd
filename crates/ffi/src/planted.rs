//! Rules of the engine that a test takes out of a whole server, in builds with the feature `planted` only.
//!
//! The environment variable `MEZZANINE_PLANTED` of the postmaster names the rule. Its processes are forked
//! and run on the one thread that they were forked on, so a switch that is set for that thread holds in all
//! of them.

use mezzanine_engine::planted::{Bug, set};

use crate::message::Refusal;

/// The variable's name.
pub const VARIABLE: &str = "MEZZANINE_PLANTED";

/// Takes out the rule that the environment names, if it is one of the engine's.
///
/// # Errors
/// If there is no such rule: a test that plants nothing proves nothing.
pub fn plant() -> Result<(), Refusal> {
    let Ok(wanted) = std::env::var(VARIABLE) else { return Ok(()) };
    let bug = Bug::ALL.iter().copied().find(|bug| format!("{bug:?}") == wanted);
    if bug.is_none() {
        return Err(Refusal::new(format!("there is no rule \"{wanted}\" of the engine to take out"))
            .detail("The environment variable MEZZANINE_PLANTED asks for it.")
            .hint("crates/engine/src/planted has the rules."));
    }
    set(bug);
    Ok(())
}
