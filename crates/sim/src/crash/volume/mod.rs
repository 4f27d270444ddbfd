//! Files on a volume under power cuts: the shipped volume over simulated devices, and a model of what its
//! files may contain. In some worlds parts of the machine are put back to earlier moments (`histories`), in
//! some threads carry out jobs beside the operations (`runners`).
//!
//! *Architecture invariant:* the simulated hardware ([`machine`]) and the model of what a file may contain
//! ([`model`]) share no code with the tier; the volume and the engine are the shipped ones.

pub mod pattern;

pub mod model;

pub mod meanwhile;

mod holes;

mod named;

mod costs;

pub mod machine;

pub mod scenario;

mod failing;

mod drives;

mod moments;

mod fibers;

mod turns;

mod runners;

pub mod world;

mod faults;

mod histories;

mod beside;

mod operations;

mod online;

mod replacement;

mod spares;

pub mod checkers;

pub mod life;

pub mod exhaustive;

pub use scenario::Scenario;
pub use world::World;
