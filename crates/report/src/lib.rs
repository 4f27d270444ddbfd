//! Rows of results as people see them: numbers and dates, the machine they come from, text tables, plots, and
//! pages of HTML.
//!
//! A caller says what is shown ([`Table`], [`LinePlot`], [`BarPlot`], [`Page`]), and not how: the layout of a
//! page is in `templates/`, its colours are in `page.css`. What a caller gives is text, and is escaped
//! wherever it stands.
//!
//! *Architecture invariant:* nothing here knows what was measured, nor how a program is told what to do.

#![forbid(unsafe_code)]

mod error;

mod number;

mod origin;

mod text;

mod plot;

mod page;

pub use error::RenderError;
pub use number::{duration, number, percent};
pub use origin::{Machine, now_utc};
pub use page::{Card, Content, Fact, Page, Section, Tile, Tone};
pub use plot::{Axis, Bar, BarPlot, Colour, LinePlot, Series, Width};
pub use text::{Table, facts, wrapped};
