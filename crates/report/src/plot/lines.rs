//! Lines over time, or over any other quantity.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Area, Colour, DrawingError, RULE, SOFT, Value, Width, bold, framed, highest, room_for, text};
use crate::error::RenderError;
use crate::number::number;

/// Where the names of the lines stand: at least so far from the right, and in this size.
const RIGHT: u32 = 100;
const NAME_SIZE: f64 = 13.0;
const LEFT: u32 = 80;
const BOTTOM: u32 = 44;
const TOP: u32 = 14;
/// Names of lines are at least so far apart, in units.
const APART: i32 = 16;

/// Lines that share two axes, which begin at zero.
#[derive(Debug, Clone)]
pub struct LinePlot {
    /// Width in the page; the height follows from it.
    pub width: Width,
    /// What the plot is called by those who cannot see it.
    pub label: String,
    /// The axis along which the values are.
    pub x: Axis,
    /// The axis of the values.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// An axis from zero.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    /// What it counts, and in what unit.
    pub title: String,
    /// The unit, as it stands behind a value.
    pub unit: String,
    /// Where it ends; none for the highest value.
    pub max: Option<f64>,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Series {
    /// Stands at its end.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Its values, in the units of the axes; what is not finite is left out.
    pub points: Vec<(f64, f64)>,
}

impl LinePlot {
    /// The plot as SVG.
    ///
    /// # Errors
    /// If it cannot be laid out.
    pub fn svg(&self) -> Result<String, RenderError> {
        let height = if self.width == Width::Full { 320 } else { 240 };
        framed(self.width, height, &self.label, |area| self.draw(area))
    }

    fn draw(&self, area: &Area<'_>) -> Result<Vec<Value>, DrawingError> {
        let all = || self.series.iter().flat_map(Series::finite);
        let x_max = self.x.end(all().map(|p| p.0));
        let y_max = self.y.end(all().map(|p| p.1));
        let (small, soft) = (text(13.0, SOFT, HPos::Center), text(13.0, SOFT, HPos::Right));
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP)
            .margin_right(RIGHT.max(room_for(self.series.iter().map(|line| line.name.as_str()), NAME_SIZE)))
            .x_label_area_size(BOTTOM)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(0.0..x_max, 0.0..y_max * 1.02)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(RULE)
            .light_line_style(TRANSPARENT)
            // Not seen, but they keep the numbers off the lines.
            .axis_style(TRANSPARENT)
            .set_all_tick_mark_size(5)
            .x_label_style(small.clone())
            .y_label_style(soft)
            .axis_desc_style(small)
            .x_labels(8)
            .y_labels(6)
            .x_label_formatter(&|value| number(*value, decimals(x_max)))
            .y_label_formatter(&|value| number(*value, decimals(y_max)))
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .draw()?;
        let told = |series: &Series, (x, y)| {
            let (x, y) = (number(x, decimals(x_max)), number(y, if y_max < 10.0 { 2 } else { 0 }));
            format!("{}: {y} {} at {x} {}", series.name, self.y.unit, self.x.unit)
        };
        let mut values = Vec::new();
        for series in &self.series {
            let style = series.colour.rgb().stroke_width(2);
            chart.draw_series(LineSeries::new(series.finite(), style))?;
            for point in series.finite() {
                let (x, y) = chart.backend_coord(&point);
                values.push(Value { x, y, text: told(series, point) });
            }
        }
        let height = |value: f64| chart.backend_coord(&(0.0, value)).1;
        let end = chart.backend_coord(&(x_max, 0.0)).0 + 8;
        for (series, place) in self.series.iter().zip(label_places(&self.series, &height)) {
            let style = bold(NAME_SIZE, series.colour.rgb(), HPos::Left);
            area.draw(&Text::new(series.name.as_str(), (end, place), style))?;
        }
        Ok(values)
    }
}

impl Axis {
    fn end(&self, values: impl Iterator<Item = f64>) -> f64 {
        self.max.map_or_else(|| highest(values), |max| highest(std::iter::once(max)))
    }
}

impl Series {
    fn finite(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite())
    }
}

/// Decimals that tell the ticks of an axis up to `max` apart.
fn decimals(max: f64) -> usize {
    match max {
        max if max >= 5.0 => 0,
        max if max >= 0.5 => 1,
        _ => 2,
    }
}

/// Where the names stand at the right end of their lines, pushed apart so that none covers another.
fn label_places(series: &[Series], height: &dyn Fn(f64) -> i32) -> Vec<i32> {
    let mean_of_end = |series: &Series| {
        let points: Vec<_> = series.finite().collect();
        let tail = &points[points.len().saturating_sub(3)..];
        tail.iter().map(|p| p.1).sum::<f64>() / tail.len().max(1) as f64
    };
    let mut order: Vec<(usize, i32)> = series.iter().map(|s| height(mean_of_end(s))).enumerate().collect();
    order.sort_by_key(|(_, place)| *place);
    for i in 1..order.len() {
        order[i].1 = order[i].1.max(order[i - 1].1 + APART);
    }
    let mut places = vec![0; series.len()];
    for (index, place) in order {
        places[index] = place;
    }
    places
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn line(name: &str, points: &[(f64, f64)]) -> Series {
        Series { name: name.to_owned(), colour: Colour::Blue, points: points.to_vec() }
    }

    fn plot(series: Vec<Series>) -> String {
        let axis =
            |title: &str, unit: &str| Axis { title: title.to_owned(), unit: unit.to_owned(), max: None };
        LinePlot {
            width: Width::Full,
            label: "rates".to_owned(),
            x: axis("time, s", "s"),
            y: axis("pages a second", "pages/s"),
            series,
        }
        .svg()
        .unwrap()
    }

    /// What stands in the `text` elements.
    fn texts(svg: &str) -> Vec<&str> {
        let parts = svg.split("<text ").skip(1);
        parts.filter_map(|part| Some(part.split_once('>')?.1.split_once('<')?.0.trim())).collect()
    }

    #[test]
    fn axes_series_and_values_are_named_with_their_units() {
        let svg = plot(vec![line("one", &[(0.0, 10.0), (30.0, 3_700.0)]), line("two", &[(30.0, 20.0)])]);
        let texts = texts(&svg);
        for wanted in ["time, s", "pages a second", "one", "two", "0", "1,000", "3,000", "10", "30"] {
            assert!(texts.contains(&wanted), "{wanted}: {texts:?}");
        }
        assert!(svg.contains("<title>one: 3,700 pages/s at 30 s</title>"));
        assert!(svg.contains("aria-label=\"rates\""));
    }

    #[test]
    fn names_of_lines_that_end_together_do_not_cover_each_other() {
        let ends = [(0.0, 1.0), (1.0, 1.0)];
        let places = label_places(&[line("a", &ends), line("b", &ends)], &|v| (v * 100.0) as i32);
        assert!((places[0] - places[1]).abs() >= APART);
    }

    #[test]
    fn nothing_to_draw_is_drawn_as_such() {
        assert!(texts(&plot(Vec::new())).contains(&"time, s"));
        let odd = plot(vec![line("odd", &[(0.0, f64::NAN), (f64::INFINITY, 1.0), (1.0, 0.0)])]);
        assert_eq!(odd.matches("<title>").count(), 1, "{odd}");
    }

    #[test]
    fn markup_in_names_is_escaped() {
        let svg = plot(vec![line("<b>\"&", &[(1.0, 1.0)])]);
        assert!(!svg.contains("<b>") && svg.contains("&lt;b&gt;&quot;&amp;"), "{svg}");
    }
}
