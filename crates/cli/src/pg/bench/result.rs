//! What a benchmark found: the JSON that `--json` prints, and the tables.

use mezzanine_report::{Machine, Table, duration, number, percent};
use serde::Serialize;

use super::args::NONE;
use super::counts::{DriveUse, TierUse};
use crate::benchmark::Busy;
use crate::size::Size;

/// Everything that was measured, and what one needs to know to measure it again.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BenchResult {
    pub(crate) rows: Vec<Row>,
    pub(crate) settings: Settings,
    /// Modelled devices took this many times as long as real ones would while throughput was measured; it is
    /// given in modelled time. Restarts are measured in real time.
    pub(crate) time_scale: f64,
    /// Highest share of all cores that a measured run itself kept busy, 0 to 1.
    pub(crate) cpu_busy: f64,
    /// Highest share of all cores that everything on the machine kept busy during a measured run, 0 to 1.
    pub(crate) machine_busy: f64,
    pub(crate) date: String,
    pub(crate) version: String,
    pub(crate) machine: Machine,
}

/// The configuration, as it was after the defaults were filled in.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) warehouses: u32,
    pub(crate) standard_scale: bool,
    pub(crate) clients: u32,
    pub(crate) seconds: f64,
    pub(crate) restart_after: f64,
    pub(crate) database_bytes: u64,
    pub(crate) load_seconds: f64,
    pub(crate) shared_buffers_bytes: u64,
    pub(crate) flash_bytes: u64,
    pub(crate) disk_model: String,
    pub(crate) disk_description: String,
    pub(crate) flash_model: String,
    pub(crate) flash_description: String,
    /// Arms move as far as in a database of this size.
    pub(crate) full_size_bytes: u64,
    pub(crate) log: String,
    pub(crate) checkpoints: String,
    pub(crate) isolation: String,
    /// Where the files lay; their own time does not count, the models' does.
    pub(crate) files: String,
    pub(crate) server: String,
}

/// The figures of one run; null where a figure has no meaning for it. Times are modelled ones unless they say
/// otherwise.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) run: String,
    /// New-Order transactions committed per minute.
    pub(crate) new_orders_per_minute: f64,
    pub(crate) new_orders: u64,
    pub(crate) transactions_per_second: f64,
    /// The 90th percentile and the mean of New-Order's response times.
    pub(crate) new_order_ms_p90: f64,
    pub(crate) new_order_ms_mean: f64,
    pub(crate) retries: u64,
    pub(crate) measured_seconds: f64,
    pub(crate) warm_up_transactions: u64,
    /// How often the flash queue went round before measuring.
    pub(crate) queue_wraps_before: Option<f64>,
    pub(crate) tier: Option<TierUse>,
    pub(crate) drives: Vec<DriveUse>,
    pub(crate) cpu_busy: f64,
    pub(crate) machine_busy: f64,
    /// How long a checkpoint took under load, in real time at time scale 1.
    pub(crate) checkpoint_seconds: f64,
    /// Log written between the last checkpoint and the kill, and transactions committed in it.
    pub(crate) log_bytes_to_redo: i64,
    pub(crate) transactions_to_redo: u64,
    /// From the start of the server after kill -9 to its first answer, in real time at time scale 1.
    pub(crate) restart_seconds: f64,
    pub(crate) consistent: bool,
    /// TPC-C conditions that do not hold, and acknowledged commits that are missing; empty when consistent.
    pub(crate) violations: Vec<String>,
    pub(crate) acknowledged_commits: usize,
}

impl BenchResult {
    fn row(&self, run: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.run == run)
    }

    /// The table, and the sentences below it.
    pub(crate) fn text(&self) -> String {
        let mut table = Table::new([
            "run",
            "new orders/min",
            "p90",
            "tier hits",
            "write reduction",
            "flash write",
            "disk busy",
            "flash busy",
            "checkpoint",
            "restart",
            "cpu",
            "consistent",
        ]);
        for row in &self.rows {
            table.row(cells(row));
        }
        let s = &self.settings;
        let mut text = table.render();
        text.push_str(&format!(
            "\n{} of TPC-C ({} warehouses), {} clients, shared buffers {}, flash {}; {}, seeks of {}; log: {}.\n\
             Time scale {}, processor at most {} busy; checkpoint and restart after kill -9 in real time.\n",
            Size(s.database_bytes),
            s.warehouses,
            s.clients,
            Size(s.shared_buffers_bytes),
            Size(s.flash_bytes),
            s.disk_description,
            Size(s.full_size_bytes),
            s.log,
            self.time_scale,
            percent(self.cpu_busy, 0),
        ));
        for line in self.comparisons() {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn comparisons(&self) -> Vec<String> {
        let Some(disk) = self.row("disk") else { return Vec::new() };
        let modes = ["through", "drained", "durable"].into_iter().filter_map(|mode| self.row(mode));
        modes
            .map(|row| {
                format!(
                    "{}: {:.2} times the throughput of disks alone; restarts {:.2} times as fast, with {:.2} times the transactions to redo.",
                    row.run,
                    row.new_orders_per_minute / disk.new_orders_per_minute.max(1e-9),
                    disk.restart_seconds / row.restart_seconds.max(1e-9),
                    row.transactions_to_redo as f64 / (disk.transactions_to_redo as f64).max(1.0),
                )
            })
            .collect()
    }

    /// What makes the figures doubtful, each with what to do.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let runs = self.rows.iter().map(|row| (row.run.as_str(), row.cpu_busy)).collect();
        let real = self.settings.disk_model == NONE && self.settings.flash_model == NONE;
        let time_scale = (!real).then_some(self.time_scale);
        let busy = Busy { runs, machine: self.machine_busy, time_scale };
        let mut warnings = busy.warnings();
        if !self.settings.standard_scale {
            warnings
                .push("the population is not TPC-C's: the figures say nothing about performance".to_owned());
        }
        warnings
    }
}

fn cells(row: &Row) -> [String; 12] {
    let none = || "-".to_owned();
    let tier = row.tier.as_ref();
    let busy = |role: &str| {
        row.drives
            .iter()
            .find(|drive| drive.role == role)
            .map_or_else(none, |drive| percent(drive.utilisation, 0))
    };
    [
        row.run.clone(),
        number(row.new_orders_per_minute, 0),
        format!("{:.0} ms", row.new_order_ms_p90),
        tier.and_then(|tier| tier.hit_ratio).map_or_else(none, |share| percent(share, 0)),
        tier.filter(|_| row.run != "through")
            .and_then(|tier| tier.write_reduction)
            .map_or_else(none, |share| percent(share, 0)),
        tier.and_then(|tier| tier.flash_write_bytes_mean)
            .map_or_else(none, |bytes| format!("{:.0} KiB", bytes / 1024.0)),
        if row.run == "flash" { none() } else { busy("data") },
        if row.run == "flash" { busy("data") } else { busy("flash") },
        duration(row.checkpoint_seconds),
        duration(row.restart_seconds),
        percent(row.cpu_busy, 0),
        if row.consistent { "yes" } else { "NO" }.to_owned(),
    ]
}
