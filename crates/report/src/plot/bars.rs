//! Horizontal bars with their values behind them.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Area, Colour, DrawingError, INK, Value, Width, bold, framed, highest, room_for, text};
use crate::error::RenderError;

/// Height of a bar with the room around it, and the part of it that is the bar.
const ROW: u32 = 44;
const BAR: f64 = 28.0 / ROW as f64;
/// Room for the names, and for the value behind the longest bar at least.
const NAME: u32 = 128;
const VALUE: u32 = 90;
/// Size of the values.
const VALUE_SIZE: f64 = 15.0;

/// Bars from a common line, one below the other.
#[derive(Debug, Clone)]
pub struct BarPlot {
    /// Width in the page; the height follows from the bars.
    pub width: Width,
    /// What the plot is called by those who cannot see it.
    pub label: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Stands before it.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Its length, in the unit of all of the plot; less than 0, and what is no number, has none.
    pub value: f64,
    /// The value with its unit, as it stands behind the bar.
    pub text: String,
}

impl BarPlot {
    /// The plot as SVG.
    ///
    /// # Errors
    /// If it cannot be laid out.
    pub fn svg(&self) -> Result<String, RenderError> {
        let height = ROW * u32::try_from(self.bars.len().max(1)).unwrap_or(1);
        framed(self.width, height, &self.label, |area| self.draw(area))
    }

    fn draw(&self, area: &Area<'_>) -> Result<Vec<Value>, DrawingError> {
        let max = highest(self.bars.iter().map(|bar| bar.value));
        // Downwards.
        let rows = self.bars.len().max(1) as f64..0.0;
        let mut chart = ChartBuilder::on(area)
            .margin_left(NAME)
            .margin_right(VALUE.max(room_for(self.bars.iter().map(|bar| bar.text.as_str()), VALUE_SIZE)))
            .build_cartesian_2d(0.0..max, rows)?;
        for (row, bar) in self.bars.iter().enumerate() {
            let middle = row as f64 + 0.5;
            let value = if bar.value.is_finite() { bar.value.max(0.0) } else { 0.0 };
            let corners = [(0.0, middle - BAR / 2.0), (value, middle + BAR / 2.0)];
            chart.draw_series([Rectangle::new(corners, bar.colour.rgb().filled())])?;
            let at = |value, beside| {
                let (x, y) = chart.backend_coord(&(value, middle));
                (x + beside, y)
            };
            area.draw(&Text::new(bar.name.as_str(), at(0.0, -12), text(15.0, INK, HPos::Right)))?;
            area.draw(&Text::new(bar.text.as_str(), at(value, 10), bold(VALUE_SIZE, INK, HPos::Left)))?;
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn bar(name: &str, value: f64) -> Bar {
        Bar { name: name.to_owned(), colour: Colour::Grey, value, text: format!("{value} \"&") }
    }

    fn plot(bars: Vec<Bar>) -> String {
        BarPlot { width: Width::Half, label: "x".to_owned(), bars }.svg().unwrap()
    }

    /// Widths of the rectangles.
    fn lengths(svg: &str) -> Vec<u32> {
        let bars = svg.split("<rect ").skip(1);
        bars.map(|bar| bar.split_once(" width=\"").unwrap().1.split_once('"').unwrap().0.parse().unwrap())
            .collect()
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let lengths = lengths(&plot(vec![bar("a", 10.0), bar("b", 5.0), bar("c", 0.0), bar("d", f64::NAN)]));
        assert!(lengths[0].abs_diff(480 - NAME - VALUE) <= 1, "{lengths:?}");
        assert!(lengths[1].abs_diff(lengths[0] / 2) <= 1, "{lengths:?}");
        assert_eq!(lengths[2..], [0, 0]);
    }

    #[test]
    fn long_values_have_room_behind_the_longest_bar() {
        let wide = Bar { text: "1,234,567.8 MB/s".to_owned(), ..bar("a", 10.0) };
        let end = NAME + lengths(&plot(vec![wide]))[0] + 10;
        // Digits are more than half as wide as they are high.
        assert!(f64::from(480 - end) > 16.0 * VALUE_SIZE * 0.55, "{end}");
    }

    #[test]
    fn markup_in_names_is_escaped() {
        let svg = plot(vec![bar("<b>", 1.0)]);
        assert!(svg.contains("&lt;b&gt;") && svg.contains("&quot;&amp;") && !svg.contains("<b>"), "{svg}");
    }

    #[test]
    fn no_bars_are_an_empty_plot() {
        assert_eq!(lengths(&plot(Vec::new())), []);
    }
}
