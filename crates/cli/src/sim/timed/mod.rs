//! `mezz sim run` without `--policy-only`: a database in virtual time.

mod args;
mod report;

pub(super) use args::TimedArgs;

use mezzanine_engine::{Design, TierConfig};
use mezzanine_sim::timed::{Configuration, Refusal, Setup, run as simulate};

use super::parameters::Parameters;
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

pub(super) fn run(
    args: &TimedArgs,
    design: Option<&str>,
    requests: &RequestArgs,
    parameters: &Parameters,
    json: bool,
) -> Result<(), Failure> {
    let mut setup = args.setup(requests)?;
    if let Some(design) = design {
        setup.configuration = design.parse().map_err(|error| Failure::usage("--design", error))?;
    }
    apply(parameters, &mut setup)?;
    let bar = output::spinner("simulating");
    let outcome = simulate(&setup);
    bar.finish_and_clear();
    let outcome = outcome.map_err(|refusal| failure(&refusal))?;
    if json { report::json(&setup, &outcome) } else { report::text(&setup, &outcome, args.series) }
}

/// Gives the tier the parameters of its design.
fn apply(parameters: &Parameters, setup: &mut Setup) -> Result<(), Failure> {
    let mut config = setup.tier_config();
    let mut is_given = false;
    for (name, value) in parameters.given() {
        if !takes(setup.configuration, name, value, &mut config) {
            let reason = format!("no parameter of {} in virtual time", setup.configuration);
            return Err(
                Failure::usage(format!("--{name}"), reason).next("leave it out, or name another design")
            );
        }
        is_given = true;
    }
    if is_given {
        setup.tier = Some(config);
    }
    Ok(())
}

/// Sets a parameter if the design has it.
fn takes(configuration: Configuration, name: &str, value: u64, config: &mut TierConfig) -> bool {
    let number = u32::try_from(value).unwrap_or(u32::MAX);
    match (configuration, name) {
        (Configuration::Tier(Design::FaceBasic | Design::FaceGr | Design::FaceGsc), "group-pages") => {
            let (groups, pages) = (config.staging_groups, config.group_pages);
            config.group_pages = number;
            config.survivors_max = config.survivors_max.min(number / 2);
            // As many pages in staging memory as before, as far as there can be.
            config.staging_groups = (groups * pages / number.max(1)).clamp(2, groups.max(16));
        }
        (Configuration::Tier(Design::FaceGsc), "survivors-max") => config.survivors_max = number,
        _ => return false,
    }
    true
}

fn failure(refusal: &Refusal) -> Failure {
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
