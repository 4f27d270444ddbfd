//! The fragment cache beside its rivals: "Flash-Conscious Cache Population for Enterprise Database Workloads"
//! (SCE, 2014), on a model of its test bed, and a race from empty that was measured in a guest.

mod bed;

mod footprints;
mod micro;

mod eight_hours;
mod four_hours;

mod race;

pub(super) use bed::{BlockPoint, BlockRuns, as_run};
pub(super) use eight_hours::{
    figure_2, figure_2_points, figure_7, figure_7_points, headline, headline_points, table_1, table_1_points,
};
pub(super) use footprints::{figure_13, memory_model};
pub(super) use four_hours::{
    figure_8, figure_8_points, figure_9, figure_9_points, figure_10, figure_10_points, figure_11,
    figure_11_points, figure_12, figure_12_points,
};
pub(super) use micro::figure_1;
pub(super) use race::race;
