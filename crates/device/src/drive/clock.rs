//! Model time and real time, and waiting precisely without burning a processor.

use std::cell::Cell;

/// Model time runs `scale` times slower than real time and stands still at scale 0. Lives in shared memory:
/// any bytes are valid.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ModelClock {
    /// A moment on the monotonic clock of the machine, in ns, and the model time at that moment.
    real_base: u64,
    model_base: u64,
    scale: f64,
}

impl ModelClock {
    /// A clock that starts at model time 1 s now: 0 would look like "never" to a reader of the numbers.
    pub fn starting(scale: f64) -> Self {
        Self { real_base: monotonic_ns(), model_base: 1_000_000_000, scale: sane(scale) }
    }

    /// Real time per model time; 0 = it stands still.
    pub fn scale(&self) -> f64 {
        sane(self.scale)
    }

    /// Changes the scale from now on.
    pub(super) fn set_scale(&mut self, scale: f64) {
        let real = monotonic_ns();
        *self = Self { real_base: real, model_base: self.model_at(real), scale: sane(scale) };
    }

    /// Model time in ns now.
    pub fn now(&self) -> u64 {
        self.model_at(monotonic_ns())
    }

    fn model_at(&self, real: u64) -> u64 {
        let scale = self.scale();
        if scale == 0.0 {
            return self.model_base;
        }
        self.model_base.saturating_add((real.saturating_sub(self.real_base) as f64 / scale) as u64)
    }

    /// Sleeps until model time reaches `model`, in ns.
    pub fn wait_until(&self, model: u64) {
        wait_until(self.real_at(model));
    }

    /// The real time in ns at which model time reaches `model`; the past if it has, or if time stands still.
    pub(super) fn real_at(&self, model: u64) -> u64 {
        let ahead = model.saturating_sub(self.model_base) as f64 * self.scale();
        self.real_base.saturating_add(ahead as u64)
    }
}

/// Scales that make no sense count as 0.
fn sane(scale: f64) -> f64 {
    if scale.is_finite() && scale > 0.0 { scale } else { 0.0 }
}

/// The clock that all processes of this machine share, in ns.
pub(super) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the duration of the call. The monotonic clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A wait longer than this may end late by the usual few microseconds; a shorter one ends in a short spin.
const PRECISE_NS: u64 = 1_000_000;

/// The most that is spun at the end of a wait.
const SPIN_NS_MAX: u64 = 30_000;

thread_local! {
    /// How late the timer of this thread usually is, in ns; 0 before the first sleep.
    static TIMER_LATE_NS: Cell<u64> = const { Cell::new(0) };
}

/// Sleeps until the monotonic clock shows `deadline`. Sets the timer slack of this thread to its minimum.
pub(super) fn wait_until(deadline: u64) {
    let mut now = monotonic_ns();
    let precise = deadline.saturating_sub(now) <= PRECISE_NS;
    while now < deadline {
        let late = usual_lateness();
        let early = if precise { late.min(SPIN_NS_MAX) } else { 0 };
        if deadline - now <= early {
            std::hint::spin_loop();
            now = monotonic_ns();
            continue;
        }
        let target = deadline - early;
        sleep_until(target);
        now = monotonic_ns();
        note_lateness(late, now.saturating_sub(target));
    }
}

fn usual_lateness() -> u64 {
    TIMER_LATE_NS.with(|late| {
        if late.get() == 0 {
            // SAFETY: the call takes no pointers and changes only how precise the timers of this thread are.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
            late.set(5_000);
        }
        late.get()
    })
}

/// Follows the smallest lateness quickly and larger ones slowly: waking a little late is cheaper than
/// spinning.
fn note_lateness(before: u64, seen: u64) {
    let next = if seen < before { seen } else { before + (seen - before) / 32 };
    TIMER_LATE_NS.with(|late| late.set(next.clamp(1_000, SPIN_NS_MAX)));
}

fn sleep_until(target: u64) {
    let time = libc::timespec {
        tv_sec: (target / 1_000_000_000) as libc::time_t,
        tv_nsec: (target % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the pointer is valid for the duration of the call; an interrupted sleep is resumed by the
    // caller's loop.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_the_scale_does_not_make_model_time_jump() {
        let mut clock = ModelClock::starting(1.0);
        for scale in [4.0, 0.0, 1.0, 0.5, f64::NAN, -1.0, 2.0] {
            let before = clock.now();
            clock.set_scale(scale);
            let after = clock.now();
            assert!(after >= before && after - before < 1_000_000_000, "{before} {after} at {scale}");
        }
        clock.set_scale(0.0);
        let (now, later) = (clock.now(), clock.now());
        assert_eq!(now, later);
        assert!(clock.real_at(now + 1_000_000_000) <= monotonic_ns());
    }

    #[test]
    fn model_and_real_time_convert_into_each_other() {
        let clock = ModelClock { real_base: 5_000, model_base: 1_000, scale: 4.0 };
        assert_eq!(clock.model_at(9_000), 2_000);
        assert_eq!(clock.real_at(2_000), 9_000);
        assert_eq!(clock.real_at(0), 5_000);
    }

    #[test]
    fn a_wait_never_ends_early() {
        for ns in [0, 1_000, 40_000, 300_000, 2_000_000] {
            let deadline = monotonic_ns() + ns;
            wait_until(deadline);
            assert!(monotonic_ns() >= deadline);
        }
    }
}
