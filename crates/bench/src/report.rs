//! Rows of results.

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use mezzanine_report::{Machine, Table};

/// What a benchmark returns.
pub(crate) type Outcome = Result<Vec<Row>, Box<dyn Error>>;

/// How much work a run does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// A second, to see that the benchmark still works.
    Tiny,
    /// As published.
    Full,
}

impl Scale {
    pub(crate) fn pick(self, full: u64, tiny: u64) -> u64 {
        if self == Self::Full { full } else { tiny }
    }
}

/// One figure beside its rival.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) rival: Option<(String, f64)>,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, rival: None }
    }

    pub(crate) fn beside(mut self, rival: impl Into<String>, value: f64) -> Self {
        self.rival = Some((rival.into(), value));
        self
    }

    fn ratio(&self) -> Option<f64> {
        self.rival.as_ref().map(|(_, rival)| self.value / rival)
    }
}

/// The middle of several measurements.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn print(rows: &[Row], json: bool) {
    let machine = machine();
    if json {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        for row in rows {
            println!(
                "{}",
                serde_json::json!({
                    "name": row.name, "value": row.value, "unit": row.unit,
                    "rival": row.rival.as_ref().map(|rival| &rival.0),
                    "rival_value": row.rival.as_ref().map(|rival| rival.1),
                    "ratio": row.ratio(), "machine": machine, "unix_seconds": seconds,
                })
            );
        }
        return;
    }
    println!("{machine}");
    let mut table = Table::new(["benchmark", "figure", "unit", "ratio", "beside"]).left([2, 4]);
    for row in rows {
        table.row([
            row.name.clone(),
            format!("{:.1}", row.value),
            row.unit.to_owned(),
            row.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}")),
            row.rival.as_ref().map_or(String::new(), |(name, value)| format!("{name}: {value:.1}")),
        ]);
    }
    print!("{}", table.render());
}

/// Processor, cores and kernel.
fn machine() -> String {
    let Machine { processor, cores, kernel, .. } = Machine::this();
    format!("{processor}, {cores} cores, Linux {kernel}")
}
