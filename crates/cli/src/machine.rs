//! The machine a measurement was made on, and how busy its processor was.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Where a result was measured; printed with every result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
}

impl Machine {
    /// Asks the system; what it does not tell is "unknown".
    pub(crate) fn this() -> Machine {
        let field = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
            line.and_then(|line| line.split_once(':').map(|(_, value)| value.trim().to_owned()))
        };
        let unknown = || "unknown".to_owned();
        let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
        let memory_kib: u64 = memory.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        Machine {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib * 1024,
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |text| text.trim().to_owned()),
        }
    }
}

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

/// The date and time in UTC, as 2026-01-31 14:05 UTC.
pub(crate) fn now_utc() -> String {
    let seconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    utc(seconds)
}

/// Gregorian calendar from days since 1970, by counting years from March so that the leap day comes last
/// (Hinnant, "chrono-compatible low-level date algorithms").
fn utc(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (seconds / 3_600 % 24, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_across_leap_years() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59 UTC");
    }

    #[test]
    fn a_busy_loop_is_seen() {
        let meter = ProcessorMeter::start();
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {}
        assert!(meter.read().own > 0.0);
    }
}
