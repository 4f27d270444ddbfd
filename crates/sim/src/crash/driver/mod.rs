//! What all crash worlds share, whatever lives in them.
//!
//! A world leads a [`life`], of sessions and operations in a [`course`]; a [`run`] is of many worlds, and
//! what is found in one is made shorter ([`shrink`]). [`exhaustive`] is the other way: every trace, every
//! cut.
//!
//! *Architecture invariant:* nothing here knows a volume or a database. What leads a life implements
//! [`life::World`], a kind of world [`life::Seeded`], what traces are played on
//! [`exhaustive::subject::Subject`].

pub(crate) mod report;

pub(crate) mod panics;

pub(crate) mod whole;

pub(crate) mod harm;

pub(crate) mod planned;

pub(crate) mod at_rest;

pub(crate) mod ages;

pub(crate) mod tiers;

pub(crate) mod drives;

pub(crate) mod weights;

pub(crate) mod excerpt;

pub(crate) mod terms;

pub(crate) mod course;

pub(crate) mod stop;

pub(crate) mod life;

pub(crate) mod watch;

pub(crate) mod shrink;

pub(crate) mod run;

pub(crate) mod threads;

pub(crate) mod exhaustive;

pub(crate) use drives::Drive;
pub(crate) use life::Life;
pub(crate) use planned::{Failing, Planned};
pub(crate) use report::Invariant;
pub(crate) use stop::Stop;
pub(crate) use terms::{Feature, Focus, Terms};
pub(crate) use whole::{NoPower, Whole};
