//! The table `[ssd.power_loss]` of a drive model, and what cannot be in it.
#![allow(clippy::unwrap_used)]

use mezzanine_device::Model;
use mezzanine_device::model::{self, Mechanism};
use mezzanine_ssd::{Anomaly, Ssd};

/// The model with this in its table.
fn with(name: &str, power_loss: &str) -> Model {
    let mut model = model::find(name).unwrap();
    let Mechanism::Ssd(table) = &mut model.mechanism else { panic!("{name} has no inside") };
    table.extend(toml::from_str::<toml::Table>(power_loss).unwrap());
    model
}

fn refusal(model: &Model) -> String {
    Ssd::of_model(model).unwrap_err().to_string()
}

#[test]
fn a_model_says_what_power_cuts_do_to_it() {
    let ssd = Ssd::of_model(&with("ssd-a", "power_loss = { anomalies = [\"shorn\", \"bit_corruption\"] }"));
    let config = ssd.unwrap().unwrap().config().clone();
    let shown: Vec<Anomaly> = Anomaly::ALL.into_iter().filter(|anomaly| config.shows(*anomaly)).collect();
    assert_eq!(shown, [Anomaly::Shorn, Anomaly::BitCorruption]);
}

#[test]
fn every_anomaly_has_the_name_that_is_documented() {
    let names = "lost, shorn, reordered, bit_corruption, corrupt_map, dead";
    let list: Vec<String> = names.split(", ").map(|name| format!("\"{name}\"")).collect();
    let ssd = Ssd::of_model(&with("ssd-a", &format!("power_loss = {{ anomalies = [{}] }}", list.join(", "))));
    let config = ssd.unwrap().unwrap().config().clone();
    assert!(Anomaly::ALL.into_iter().all(|anomaly| config.shows(anomaly)));
}

#[test]
fn a_volatile_cache_promises_no_order_unless_it_says_so() {
    let shows = |model: &Model| Ssd::of_model(model).unwrap().unwrap().config().shows(Anomaly::Reordered);
    assert!(shows(&model::find("ssd-a").unwrap()));
    assert!(!shows(&with("ssd-a", "power_loss = { anomalies = [] }")));
    assert!(!shows(&model::find("durassd").unwrap()), "of a durable cache nothing is lost at all");
}

#[test]
fn what_cannot_be_is_refused_by_its_name() {
    let durable = refusal(&with("durassd", "power_loss = { anomalies = [\"shorn\"] }"));
    assert!(durable.contains("power_loss is for caches that power cuts take away"), "{durable}");
    let unknown = refusal(&with("ssd-a", "power_loss = { anomalies = [\"flying\"] }"));
    assert!(unknown.contains("flying") && unknown.contains("bit_corruption"), "{unknown}");
    let misspelt = refusal(&with("ssd-a", "power_loss = { anomaly = [] }"));
    assert!(misspelt.contains("anomaly"), "{misspelt}");
    let mut unjournalled = with("ssd-a", "power_loss = { anomalies = [\"shorn\", \"dead\"] }");
    let Mechanism::Ssd(table) = &mut unjournalled.mechanism else { unreachable!() };
    table["ftl"]["journal"] = false.into();
    let unjournalled = refusal(&unjournalled);
    assert!(
        unjournalled.contains("anomalies has \"dead\"") && unjournalled.contains("journal = true"),
        "{unjournalled}"
    );
}
