//! The memory of the machine, and how busy its processor was.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Memory that a program could still get, where the system tells.
pub(crate) fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Measures how busy the processor is between two moments: by this process, and by everything on the machine.
pub(crate) struct ProcessorMeter {
    started: Instant,
    own: Duration,
    /// Busy and total ticks of all cores since boot, where the system tells.
    machine: Option<(u64, u64)>,
}

/// Shares of all cores, between 0 and 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessorShares {
    pub(crate) own: f64,
    /// Equal to `own` where the system does not tell.
    pub(crate) machine: f64,
}

impl ProcessorMeter {
    pub(crate) fn start() -> ProcessorMeter {
        ProcessorMeter { started: Instant::now(), own: own_time(), machine: machine_ticks() }
    }

    /// The shares since the start.
    pub(crate) fn read(&self) -> ProcessorShares {
        let cores = cores();
        let elapsed = self.started.elapsed().as_secs_f64().max(1e-9);
        let own = ((own_time() - self.own).as_secs_f64() / elapsed / cores).clamp(0.0, 1.0);
        let machine = match (self.machine, machine_ticks()) {
            (Some((busy_then, total_then)), Some((busy, total))) if total > total_then => {
                (busy.saturating_sub(busy_then) as f64 / (total - total_then) as f64).clamp(0.0, 1.0)
            }
            _ => own,
        };
        ProcessorShares { own, machine }
    }
}

/// Processors that this process may use.
pub(crate) fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1, usize::from) as f64
}

fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The first line of /proc/stat: user nice system idle iowait irq softirq steal; iowait is idle time with an
/// excuse.
fn machine_ticks() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
    let total = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((u64::saturating_sub(total, idle), total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_loop_is_seen() {
        let meter = ProcessorMeter::start();
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {}
        assert!(meter.read().own > 0.0);
    }
}
