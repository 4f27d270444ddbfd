//! `mezz demo`: a database with and without the tier.
//!
//! The demo itself does no database work: it starts a process per step (load, calibrate, run, reopen),
//! listens to it, kills it, and draws up the result. So what is killed is a whole database process, and what
//! it leaves behind is what a crash leaves behind.

pub(crate) mod child;

mod args;
mod plan;
mod process;
mod protocol;
mod report;
mod result;
mod stack;

use std::path::{Path, PathBuf};
use std::time::Duration;

use mezzanine_engine::TierConfig;
use mezzanine_report::{Machine, Table, duration, now_utc, number, percent};

pub(crate) use args::{DemoArgs, time_scale};
use plan::Plan;
use process::Process;
use protocol::{ChildSpec, Configuration, Event, Measured, Role};
use result::{DemoResult, Row, Settings};

use crate::benchmark::{Busy, Workspace, leave_to_handler, time_scale_for};
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

/// Share of the measured time that is run with delays before measuring, so that queues have formed.
const WARM_UP_SHARE: f64 = 0.15;

/// How long after the end of a child by a signal the same signal may reach this process.
const SIGNAL_LATE_MAX: Duration = Duration::from_secs(10);
/// Runs the demo and prints its result.
pub(crate) fn run(args: &DemoArgs, json: bool) -> Result<(), Failure> {
    run_to_end(args, json).inspect_err(|_| leave_to_handler(Duration::ZERO))
}

fn run_to_end(args: &DemoArgs, json: bool) -> Result<(), Failure> {
    let plan = Plan::new(args)?;
    check_report_place(&args.report)?;
    plan.announce();
    let parent = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let workspace = Workspace::create(&parent, "mezz-demo", args.keep)?;
    plan.check_space(&workspace.path)?;
    let mut demo =
        Demo { args, plan, workspace, database_bytes: 0, time_scale: 1.0, warm_up_transactions: None };
    demo.load()?;
    demo.time_scale = match args.time_scale {
        Some(scale) => scale,
        None => demo.calibrate()?,
    };
    // The tier comes first: how long its queue needs to go round decides how long all of them warm up.
    let order = [Configuration::FaceGsc, Configuration::Disk, Configuration::Flash];
    let mut rows = Vec::new();
    for configuration in order {
        rows.push(demo.measure(configuration)?);
    }
    rows.sort_by_key(|row| Configuration::ALL.iter().position(|c| c.name() == row.configuration));
    let result = demo.result(rows);
    // What took minutes to measure is told before what goes wrong with the report.
    let written = write_report(&args.report, &result);
    if json {
        output::json(&result)?;
    } else {
        output::print(&text(&result))?;
        if written.is_ok() {
            output::print(&format!("\nreport: {}\n", args.report.display()))?;
        }
    }
    for warning in warnings(&result) {
        output::note(&format!("warning: {warning}"));
    }
    written?;
    verdict(&result)
}

struct Demo<'a> {
    args: &'a DemoArgs,
    plan: Plan,
    workspace: Workspace,
    /// Size of the loaded database; 0 before it is loaded.
    database_bytes: u64,
    time_scale: f64,
    warm_up_transactions: Option<u64>,
}

impl Demo<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.workspace.path.join(name)
    }

    fn spec(&self, role: Role, configuration: Configuration, name: &str) -> ChildSpec {
        let cache = self.database_bytes as f64 * self.args.cache_share / f64::from(self.args.clients);
        ChildSpec {
            role,
            configuration,
            database: self.file(&format!("{name}.db")),
            flash: self.file(&format!("{name}.flash")),
            flash_bytes: self.flash_bytes(),
            acknowledged: self.file(&format!("{name}.acknowledged")),
            warehouses: self.plan.warehouses,
            tiny: self.args.tiny,
            seed: self.args.seed,
            clients: self.args.clients,
            cache_bytes_per_client: cache as u64,
            page_bytes: plan::PAGE_BYTES,
            disk_model: self.args.disk_model.clone(),
            flash_model: self.args.flash_model.clone(),
            log_model: self.args.log_model.clone(),
            time_scale: self.time_scale,
            warm_up_transactions: self.warm_up_transactions,
            warm_up_seconds: self.warm_up_seconds(),
            seconds: self.args.seconds,
        }
    }

    fn flash_bytes(&self) -> u64 {
        (self.database_bytes as f64 * self.args.flash_share) as u64
    }

    fn warm_up_seconds(&self) -> f64 {
        self.args.seconds * WARM_UP_SHARE
    }

    fn start(&self, spec: &ChildSpec) -> Result<Process, Failure> {
        Process::start(spec, &spec.database.with_extension("json"))
    }

    fn load(&mut self) -> Result<(), Failure> {
        let spec = self.spec(Role::Load, Configuration::Disk, "loaded");
        let bar = output::progress(1000, &format!("loading {} warehouses", self.plan.warehouses));
        let mut process = self.start(&spec)?;
        loop {
            match process.next()? {
                Event::Progress(share) => bar.set_position((share * 1000.0) as u64),
                Event::Loaded { database_bytes } => {
                    self.database_bytes = database_bytes;
                    break;
                }
                _ => {}
            }
        }
        bar.finish_and_clear();
        output::note(&format!(
            "loaded {} warehouses: {}; flash {}, SQLite's cache {}",
            self.plan.warehouses,
            Size(self.database_bytes),
            Size(self.flash_bytes()),
            Size((self.database_bytes as f64 * self.args.cache_share) as u64)
        ));
        Ok(())
    }

    /// A copy of the loaded database for one step.
    fn copy_database(&self, name: &str) -> Result<(), Failure> {
        let (from, to) = (self.file("loaded.db"), self.file(&format!("{name}.db")));
        std::fs::copy(&from, &to)
            .map(drop)
            .map_err(|e| Failure::refused(to.display(), format!("cannot copy the loaded database: {e}")))
    }

    fn remove(&self, name: &str) {
        if self.args.keep {
            return;
        }
        let Ok(entries) = std::fs::read_dir(&self.workspace.path) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&format!("{name}.")) {
                // What is left over goes with the directory at the end.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// The time scale at which the fastest configuration keeps the processor about as busy as is aimed at.
    fn calibrate(&mut self) -> Result<f64, Failure> {
        let bar = output::spinner("finding the time scale");
        self.copy_database("calibrate")?;
        let spec = ChildSpec {
            seconds: (self.args.seconds / 10.0).clamp(1.0, 4.0),
            ..self.spec(Role::Calibrate, Configuration::Flash, "calibrate")
        };
        let mut process = self.start(&spec)?;
        let cpu_busy = loop {
            if let Event::Calibrated { cpu_busy, .. } = process.next()? {
                break cpu_busy;
            }
        };
        drop(process);
        self.remove("calibrate");
        bar.finish_and_clear();
        Ok(time_scale_for(cpu_busy, 1.0))
    }

    /// Runs one configuration, kills it, opens it again and checks it.
    fn measure(&mut self, configuration: Configuration) -> Result<Row, Failure> {
        let name = configuration.name();
        self.copy_database(name)?;
        let spec = self.spec(Role::Run, configuration, name);
        let mut row = Row { configuration: name.to_owned(), ..Row::default() };
        let (measured, acknowledged) = self.run_until_killed(&spec, &mut row)?;
        std::fs::write(&spec.acknowledged, acknowledged)
            .map_err(|e| Failure::refused(spec.acknowledged.display(), format!("cannot write: {e}")))?;
        self.fill(&mut row, measured);
        self.reopen(&ChildSpec { role: Role::Reopen, ..spec }, &mut row)?;
        self.remove(name);
        output::note(&format!(
            "{name:<9} {:>7} tpmC   restart {:>7}   {}",
            number(row.transactions_per_minute, 0),
            duration(row.restart_seconds),
            if row.consistent { "consistent" } else { "NOT CONSISTENT" }
        ));
        Ok(row)
    }

    fn run_until_killed(&mut self, spec: &ChildSpec, row: &mut Row) -> Result<(Measured, Vec<u8>), Failure> {
        let name = spec.configuration.name();
        let tenths = ((spec.seconds + spec.warm_up_seconds) * 10.0) as u64;
        let mut bar = output::spinner(&format!("{name}: warming up without delays"));
        let mut process = self.start(spec)?;
        let measured = loop {
            match process.next()? {
                Event::Warmed { transactions, queue_wraps } => {
                    row.warm_up_transactions = transactions;
                    row.queue_wraps_before = queue_wraps;
                    self.warm_up_transactions.get_or_insert(transactions);
                }
                Event::WarmingSlowly => {
                    bar.finish_and_clear();
                    bar = output::progress(tenths, &format!("{name}: warming up with delays"));
                }
                Event::Measuring => bar.set_message(format!("{name}: measuring")),
                Event::Sample(sample) => {
                    bar.set_position(((sample.seconds + spec.warm_up_seconds) * 10.0) as u64);
                    if sample.seconds > 0.0 {
                        row.samples.push(sample);
                    }
                }
                Event::Measured(measured) => break measured,
                _ => {}
            }
        };
        bar.finish_and_clear();
        // Transactions go on after the measured time; the moment of the kill is arbitrary but comes from the
        // seed.
        let delay = 300 + (self.args.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54);
        std::thread::sleep(Duration::from_millis(delay));
        Ok((*measured, process.kill()?))
    }

    fn fill(&self, row: &mut Row, measured: Measured) {
        row.measured_seconds = measured.seconds;
        row.transactions_per_minute =
            measured.new_orders as f64 / measured.seconds.max(1e-9) * 60.0 * self.time_scale;
        row.transactions = measured.transactions;
        // Little's law: clients that never pause are always inside a transaction.
        let transactions: u64 = row.transactions.values().sum();
        let busy_ms = f64::from(self.args.clients) * measured.seconds * 1000.0 / self.time_scale;
        row.transaction_ms_mean = (transactions > 0).then(|| busy_ms / transactions as f64);
        row.cpu_busy = measured.cpu_busy;
        row.machine_busy = measured.machine_busy;
        row.queue_depth =
            measured.drives.iter().find(|drive| drive.role == "data").map_or(0.0, |drive| drive.queue_depth);
        row.drives = measured.drives;
        let Some(tier) = measured.tier else { return };
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        row.flash_hit_ratio = ratio(tier.hits, tier.lookups);
        row.write_reduction = ratio(tier.pages_to_disk, tier.pages_written).map(|share| 1.0 - share);
        row.flash_write_bytes_mean = ratio(tier.bytes_whole, tier.groups_whole);
        row.flash_write_bytes_mean_cut_short = ratio(tier.bytes_cut_short, tier.groups_cut_short);
        row.flash_groups_whole = Some(tier.groups_whole);
        row.flash_groups_cut_short = Some(tier.groups_cut_short);
        row.flash_bytes_written = Some(tier.flash_bytes_written);
        row.second_chances = Some(tier.second_chances);
    }

    fn reopen(&self, spec: &ChildSpec, row: &mut Row) -> Result<(), Failure> {
        let bar = output::spinner(&format!("{}: opening and checking after kill -9", row.configuration));
        let mut process = self.start(spec)?;
        loop {
            match process.next()? {
                Event::Ready => {
                    row.restart_seconds = process.started.elapsed().as_secs_f64() / self.time_scale
                }
                Event::Checked { acknowledged_commits, violations } => {
                    row.acknowledged_commits = acknowledged_commits;
                    row.consistent = violations.is_empty();
                    row.violations = violations;
                    break;
                }
                _ => {}
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn tier_description(&self) -> String {
        let config = TierConfig::for_flash_bytes(plan::PAGE_BYTES, self.flash_bytes());
        format!(
            "{}, pages of {} bytes in groups of {}, admission {}, sync mode {}",
            config.design, config.page_size, config.group_pages, config.admission, config.sync_mode
        )
    }

    fn result(&self, rows: Vec<Row>) -> DemoResult {
        let most = |value: fn(&Row) -> f64| rows.iter().map(value).fold(0.0, f64::max);
        let description = |name: &str| self.plan.descriptions.get(name).cloned().unwrap_or_default();
        DemoResult {
            seed: self.args.seed,
            warehouses: self.plan.warehouses,
            time_scale: self.time_scale,
            cpu_busy: most(|row| row.cpu_busy),
            machine_busy: most(|row| row.machine_busy),
            date: now_utc(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: Settings {
                database_bytes: self.database_bytes,
                page_bytes: plan::PAGE_BYTES,
                sqlite_cache_bytes: (self.database_bytes as f64 * self.args.cache_share) as u64,
                clients: self.args.clients,
                flash_bytes: self.flash_bytes(),
                flash_share: self.args.flash_share,
                disk_model: self.args.disk_model.clone(),
                disk_description: description(&self.args.disk_model),
                flash_model: self.args.flash_model.clone(),
                flash_description: description(&self.args.flash_model),
                log_model: self.args.log_model.clone(),
                log_description: description(&self.args.log_model),
                journal: "WAL mode".to_owned(),
                synchronous: "FULL".to_owned(),
                tier: self.tier_description(),
                seconds: self.args.seconds,
                warm_up_seconds: self.warm_up_seconds(),
            },
            machine: Machine::this(),
            rows,
        }
    }
}

/// Refuses what would fail only after minutes.
fn check_report_place(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || !parent.is_dir() {
        return Err(Failure::refused(path.display(), "the report cannot be written there")
            .next("give --report a file in a directory that exists"));
    }
    Ok(())
}

fn write_report(path: &Path, result: &DemoResult) -> Result<(), Failure> {
    let html = report::render(result).map_err(|e| {
        Failure::refused(path.display(), format!("no report was made: {e}"))
            .next("the figures are those above; run the command again with --json to keep all of them")
    })?;
    std::fs::write(path, html).map_err(|e| {
        Failure::refused(path.display(), format!("cannot write the report: {e}"))
            .next("choose another place with --report")
    })
}

/// Column headings of the table.
const HEADINGS: [&str; 10] = [
    "configuration",
    "tpmC",
    "flash hits",
    "write reduction",
    "mean flash write",
    "flash written",
    "restart",
    "queue depth",
    "cpu busy",
    "consistent",
];

fn cells(row: &Row) -> [String; 10] {
    let none = || "-".to_owned();
    let share = |value: Option<f64>| value.map_or_else(none, |v| format!("{:.1} %", v * 100.0));
    [
        row.configuration.clone(),
        number(row.transactions_per_minute, 0),
        share(row.flash_hit_ratio),
        share(row.write_reduction),
        row.flash_write_bytes_mean.map_or_else(none, |bytes| format!("{:.0} KiB", bytes / 1024.0)),
        row.flash_bytes_written.map_or_else(none, |bytes| Size(bytes).to_string()),
        duration(row.restart_seconds),
        format!("{:.1}", row.queue_depth),
        percent(row.cpu_busy, 0),
        if row.consistent { "yes" } else { "NO" }.to_owned(),
    ]
}

/// The table, on the terminal and in the report.
fn figures(result: &DemoResult) -> Table {
    let mut table = Table::new(HEADINGS);
    for row in &result.rows {
        table.row(cells(row));
    }
    table
}

/// The table, and the sentences below it.
fn text(result: &DemoResult) -> String {
    let mut text = figures(result).render();
    if let Some(row) =
        result.rows.iter().find(|row| row.flash_groups_cut_short.is_some_and(|groups| groups > 0))
    {
        text.push_str(&format!(
            "\nThe mean flash write counts the {} whole groups; a sync cut {} groups short, which were {:.0} KiB on average.\n",
            row.flash_groups_whole.unwrap_or(0),
            row.flash_groups_cut_short.unwrap_or(0),
            row.flash_write_bytes_mean_cut_short.unwrap_or(0.0) / 1024.0
        ));
    }
    if let Some(factor) = report::speed_up(result) {
        text.push_str(&format!(
            "\n{factor:.1} times the throughput of disks alone. Seed {}, {} warehouses, time scale {}, processor at most {:.0} % busy.\n",
            result.seed,
            result.warehouses,
            result.time_scale,
            result.cpu_busy * 100.0
        ));
    }
    text
}

/// What makes the figures doubtful, each with what to do.
fn warnings(result: &DemoResult) -> Vec<String> {
    let runs = result.rows.iter().map(|row| (row.configuration.as_str(), row.cpu_busy)).collect();
    let busy = Busy { runs, machine: result.machine_busy, time_scale: Some(result.time_scale) };
    let mut warnings = busy.warnings();
    if result.rows.iter().any(|row| row.transactions_per_minute == 0.0) {
        warnings.push("no New-Order was committed in one of the runs; repeat with more --seconds".to_owned());
    }
    warnings
}

fn verdict(result: &DemoResult) -> Result<(), Failure> {
    let Some(row) = result.rows.iter().find(|row| !row.consistent) else { return Ok(()) };
    Err(Failure::check(format!("demo, configuration {}", row.configuration), row.violations.join("; "))
        .next(format!("repeat with --seed {} --keep and look at the database", result.seed)))
}
