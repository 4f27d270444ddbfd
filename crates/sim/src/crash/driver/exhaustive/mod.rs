//! The frame of the exhaustive mode: traces of a [`subject`]'s grammar, every stop of them, every choice of
//! what a cut may leave there.

pub(crate) mod counts;

pub(crate) mod tiny;

pub(crate) mod subject;

mod window;

mod stage;

pub(crate) mod name;

pub(crate) mod search;
