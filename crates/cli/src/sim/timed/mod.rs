//! `mezz sim run` without `--policy-only`: a database in virtual time.

mod args;
mod kept;
mod report;

pub(super) use args::TimedArgs;

use std::path::Path;

use mezzanine_engine::{Design, SyncMode, TierConfig};
use mezzanine_sim::timed::{Configuration, Outcome, Refusal, Setup, run_with as simulate};

use kept::KeptDrive;

use super::parameters::{self, Parameters};
use super::requests::RequestArgs;
use crate::failure::Failure;
use crate::output;

/// Options that have other names than the parameters of a simulation.
const OPTIONS: [(&str, &str); 5] = [
    ("think_us", "--think-ms"),
    ("page_bytes", "--page-size"),
    ("pool_bytes", "--pool"),
    ("flash_bytes", "--flash"),
    ("cpu_us_per_request", "--cpu-us"),
];

/// Options that mean nothing where there is no tier.
const OF_TIERS: [&str; 6] = ["flash", "admission", "sync-mode", "no-pull", "workers", "job-depth"];

/// What the option names, or what is usual.
pub(super) fn configuration(design: Option<&str>) -> Result<Configuration, Failure> {
    let usual = Setup::default().configuration;
    design.map_or(Ok(usual), |name| name.parse().map_err(|error| Failure::usage("--design", error)))
}

/// What the options come to.
pub(super) fn setup(
    args: &TimedArgs,
    design: Option<&str>,
    requests: &RequestArgs,
    parameters: &Parameters,
) -> Result<Setup, Failure> {
    let mut setup = Setup { configuration: configuration(design)?, ..args.setup(requests)? };
    let fixed = matches!(setup.configuration, Configuration::Tier(design) if design.has_slots());
    if fixed && args.sync_mode.is_none() {
        setup.sync_mode = SyncMode::Through;
    }
    apply(parameters, args.dirty_percent, &mut setup)?;
    Ok(setup)
}

pub(super) fn run(setup: &Setup, kept: Option<&Path>, series: bool, json: bool) -> Result<(), Failure> {
    let kept = kept.map(|path| KeptDrive::open(path, setup)).transpose()?;
    let flash_state = kept.as_ref().map(KeptDrive::state).transpose()?.flatten();
    let bar = output::spinner("simulating");
    let outcomes = simulate(setup, flash_state).and_then(|(outcome, flash_state)| {
        let mapped = setup.behind_translation_layer()?.map(|mapped| simulate(&mapped, None)).transpose()?;
        Ok((outcome, flash_state, mapped.and_then(|(mapped, _)| mapped.flash.inside)))
    });
    bar.finish_and_clear();
    let (outcome, flash_state, mapped) = outcomes.map_err(|refusal| refused(&refusal))?;
    if let (Some(kept), Some(state)) = (&kept, flash_state) {
        kept.keep(&state)?;
    }
    if json {
        report::json(setup, &outcome, mapped.as_ref())
    } else {
        report::text(setup, &outcome, mapped.as_ref(), series)
    }
}

/// What came out, as JSON.
pub(super) fn report_of(setup: &Setup, outcome: &Outcome) -> Result<serde_json::Value, Failure> {
    let failed = |e| Failure::refused("output", format!("not serialisable: {e}"));
    serde_json::to_value(report::of(setup, outcome, None)).map_err(failed)
}

/// Whether an option means nothing to a run of this configuration: of the tier, where there is none, or of
/// another design.
pub(super) fn is_foreign(configuration: Configuration, option: &str) -> bool {
    let is_tier = matches!(configuration, Configuration::Tier(_));
    let of_designs = parameters::is_one(option) || option == "dirty-percent";
    let mut config = Setup { configuration, ..Setup::default() }.tier_config();
    !is_tier && OF_TIERS.contains(&option) || of_designs && !takes(configuration, option, 1, &mut config)
}

/// Gives the tier the parameters of its design.
fn apply(parameters: &Parameters, dirty_percent: Option<u32>, setup: &mut Setup) -> Result<(), Failure> {
    let mut config = setup.tier_config();
    let dirty_percent = dirty_percent.map(|percent| ("dirty-percent", u64::from(percent)));
    let given: Vec<_> = parameters.given().chain(dirty_percent).collect();
    for &(name, value) in &given {
        let pages = setup.database_pages();
        let value = match (value, pages) {
            (u64::MAX, Some(pages)) => pages,
            (u64::MAX, None) => {
                let reason = "nobody knows how many pages the trace has before it is read";
                return Err(Failure::usage(format!("--{name}"), reason).next("give a number of pages"));
            }
            _ => value,
        };
        if !takes(setup.configuration, name, value, &mut config) {
            let reason = format!("no parameter of {} in virtual time", setup.configuration);
            return Err(
                Failure::usage(format!("--{name}"), reason).next("leave it out, or name another design")
            );
        }
    }
    if !given.is_empty() {
        setup.tier = Some(config);
    }
    Ok(())
}

/// Sets a parameter if the design has it.
fn takes(configuration: Configuration, name: &str, value: u64, config: &mut TierConfig) -> bool {
    let number = u32::try_from(value).unwrap_or(u32::MAX);
    match (configuration, name) {
        (Configuration::Tier(_), "returning-only") => config.returning_only = value != 0,
        (Configuration::Tier(_), "remembered-pages") => config.remembered_pages = Some(value),
        (Configuration::Tier(_), "group-pages") => {
            let (groups, pages) = (config.staging_groups, config.group_pages);
            config.group_pages = number;
            config.survivors_max = config.survivors_max.min(number / 2);
            // As many pages in staging memory as before, as far as there can be.
            config.staging_groups = (groups * pages / number.max(1)).clamp(2, groups.max(16));
        }
        (Configuration::Tier(Design::FaceGsc), "survivors-max") => config.survivors_max = number,
        (Configuration::Tier(Design::Lc), "correlated-period") => {
            config.policy.correlated_period = Some(value);
        }
        (Configuration::Tier(Design::Tac), "extent-pages") => config.policy.extent_pages = Some(value),
        (Configuration::Tier(Design::Tac), "ageing-period") => config.policy.ageing_period = Some(value),
        (Configuration::Tier(Design::Tac), "random-weight") => config.policy.random_weight = Some(value),
        (Configuration::Tier(Design::Tac), "extents") => config.policy.extents = Some(value),
        (Configuration::Tier(Design::Lc), "history") => config.policy.history = Some(value),
        (Configuration::Tier(Design::Lc), "dirty-percent") => config.policy.dirty_percent = Some(number),
        _ => return false,
    }
    true
}

/// Why there is no run, in the words of the options.
pub(super) fn refused(refusal: &Refusal) -> Failure {
    let option = OPTIONS.iter().find(|(parameter, _)| *parameter == refusal.parameter);
    let same = || format!("--{}", refusal.parameter.replace('_', "-"));
    let thing = option.map_or_else(same, |(_, option)| (*option).to_owned());
    let failure = match refusal.parameter {
        "memory" => Failure::refused("memory", &refusal.reason),
        // The trace names its file itself.
        "trace" => Failure::refused("the trace", &refusal.reason),
        _ => Failure::usage(thing, &refusal.reason),
    };
    if refusal.advice.is_empty() { failure } else { failure.next(&refusal.advice) }
}
