//! Plots as SVG.
//!
//! `plotters` lays out and draws. What it cannot say is put around its drawing by `templates/plot.svg`: what
//! the plot is called by those who cannot see it, and the values that appear where somebody points.
//!
//! The drawing has the colours of a light page, so that it can be looked at alone; the style sheet of a page
//! finds them by their value and puts those of its theme in their place.

mod bars;
mod lines;

use askama::Template;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub use bars::{Bar, BarPlot};
pub use lines::{Axis, LinePlot, Series};

use crate::error::RenderError;

/// Text that explains; axes and ticks.
const SOFT: RGBColor = RGBColor(0x5b, 0x60, 0x6a);
/// Text that is read first.
const INK: RGBColor = RGBColor(0x1d, 0x1f, 0x23);
/// Lines that guide the eye.
const RULE: RGBColor = RGBColor(0xe3, 0xe1, 0xdc);

/// Width of a plot in user units, about as many as a page gives it pixels, so that text has one size
/// everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// The whole page: 1030.
    Full,
    /// One of two columns: 480.
    Half,
}

impl Width {
    fn units(self) -> u32 {
        match self {
            Width::Full => 1030,
            Width::Half => 480,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Width::Full => "full",
            Width::Half => "half",
        }
    }
}

/// The colour of what belongs together, in plots, tables and text. Each has a shade for dark pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are what they are called")]
pub enum Colour {
    Grey,
    Orange,
    Blue,
}

impl Colour {
    /// The class in the style sheet.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Colour::Grey => "grey",
            Colour::Orange => "orange",
            Colour::Blue => "blue",
        }
    }

    fn rgb(self) -> RGBColor {
        match self {
            Colour::Grey => RGBColor(0x6b, 0x72, 0x80),
            Colour::Orange => RGBColor(0xc4, 0x50, 0x0c),
            Colour::Blue => RGBColor(0x2f, 0x5f, 0xc4),
        }
    }
}

/// A drawing with what stands around it.
#[derive(Template)]
#[template(path = "plot.svg")]
struct Framed<'a> {
    class: &'static str,
    width: u32,
    height: u32,
    label: &'a str,
    /// Markup.
    drawing: String,
    values: Vec<Value>,
}

/// What appears where somebody points.
struct Value {
    x: i32,
    y: i32,
    text: String,
}

type DrawingError = DrawingAreaErrorKind<std::io::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws with `draw`, which says what appears where.
fn framed(
    width: Width,
    height: u32,
    label: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<Vec<Value>, DrawingError>,
) -> Result<String, RenderError> {
    let failed = |error: DrawingError| RenderError::new("plot", std::io::Error::other(error.to_string()));
    let mut drawing = String::new();
    let area = SVGBackend::with_string(&mut drawing, (width.units(), height)).into_drawing_area();
    let values = draw(&area).map_err(failed)?;
    area.present().map_err(failed)?;
    drop(area);
    let framed = Framed { class: width.class(), width: width.units(), height, label, drawing, values };
    framed.render().map_err(|error| RenderError::new("plot", error))
}

/// The style of a text of so many units in height, which stands to the side `h` of its place.
fn text(size: f64, colour: RGBColor, h: HPos) -> TextStyle<'static> {
    // The backend divides by this, which makes of a font's height its size.
    let size = size * 1.24;
    let style = TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(h, VPos::Center));
    TextStyle { color: colour.to_backend_color(), ..style }
}

fn bold(size: f64, colour: RGBColor, h: HPos) -> TextStyle<'static> {
    let style = text(size, colour, h);
    TextStyle { font: style.font.style(FontStyle::Bold), ..style }
}

/// Units that the longest of these texts takes in bold letters of this size, and some beside it. Letters of
/// the fonts of browsers are this wide at most, but for few.
fn room_for<'t>(texts: impl Iterator<Item = &'t str>, size: f64) -> u32 {
    const LETTER: f64 = 0.66;
    let letters = texts.map(|text| text.chars().count()).max().unwrap_or(0);
    20 + (letters as f64 * LETTER * size).ceil() as u32
}

/// The largest of the values; above 0 in any case, so that an axis has a length.
fn highest(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| value.is_finite()).fold(0.0, f64::max).max(1e-9)
}
