//! Where and when a result was measured.

use jiff::Timestamp;
use serde::Serialize;

/// The machine that a result comes from; printed with every result.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Name of the processor's model; "unknown" if the system does not tell.
    pub processor: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Main memory in bytes; 0 if the system does not tell.
    pub memory_bytes: u64,
    /// Release of the kernel; "unknown" if the system does not tell.
    pub kernel: String,
}

impl Machine {
    /// Asks the system.
    pub fn this() -> Machine {
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

/// The date and time in UTC, as `2026-01-31 14:05 UTC`.
pub fn now_utc() -> String {
    utc(Timestamp::now())
}

fn utc(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of years are compared: the date looks as it always has.
    #[test]
    fn dates_keep_their_form() {
        let at = |seconds| Timestamp::from_second(seconds).map(utc).ok();
        assert_eq!(at(0).as_deref(), Some("1970-01-01 00:00 UTC"));
        assert_eq!(at(951_782_400).as_deref(), Some("2000-02-29 00:00 UTC"));
        assert_eq!(at(1_767_225_599).as_deref(), Some("2025-12-31 23:59 UTC"));
    }
}
