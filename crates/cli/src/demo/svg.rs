//! Plots as inline SVG. Colours come from the page's style sheet, so that they follow its light and dark
//! themes.

use std::fmt::Write as _;

use crate::output::number;

/// Width of a plot in user units, about as many as the page gives it pixels, so that text has one size
/// everywhere.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Width {
    /// The whole page.
    Full = 1030,
    /// One of two columns.
    Half = 480,
}

const LEFT: f64 = 56.0;
const RIGHT: f64 = 100.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;

/// One line of a line plot.
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    /// Class that gives the colour: `disk`, `tier` or `flash`.
    pub(crate) class: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// One bar.
pub(crate) struct Bar<'a> {
    pub(crate) name: &'a str,
    pub(crate) class: &'a str,
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// Text that is safe inside HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A round step such that about `wanted` of them reach from 0 to `max`.
fn round_step(max: f64, wanted: f64) -> f64 {
    let rough = (max / wanted).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let digit = rough / power;
    let round = if digit <= 1.0 {
        1.0
    } else if digit <= 2.0 {
        2.0
    } else if digit <= 5.0 {
        5.0
    } else {
        10.0
    };
    round * power
}

/// Lines over time that share one axis starting at zero. `x_label` and `y_label` carry the units.
pub(crate) fn line_plot(
    width: Width,
    series: &[Series<'_>],
    x_label: &str,
    y_label: &str,
    y_max: Option<f64>,
) -> String {
    let height = if matches!(width, Width::Full) { 320.0 } else { 240.0 };
    let (plot_width, plot_height) = (f64::from(width as u16) - LEFT - RIGHT, height - TOP - BOTTOM);
    let all = || series.iter().flat_map(|s| s.points.iter());
    let x_max = all().map(|p| p.0).fold(0.0, f64::max).max(1e-9);
    let highest = all().map(|p| p.1).fold(0.0, f64::max).max(1e-9);
    let step = round_step(y_max.unwrap_or(highest), 4.0);
    let y_top = y_max.unwrap_or_else(|| (highest / step).ceil() * step);
    let x = |value: f64| LEFT + value / x_max * plot_width;
    let y = |value: f64| TOP + (1.0 - value / y_top) * plot_height;

    let mut svg = open(width, height, y_label);
    let decimals = if step < 1.0 { 1 } else { 0 };
    let mut tick = 0.0;
    while tick <= y_top * 1.0001 {
        let at = y(tick);
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}"/><text class="tick" text-anchor="end" x="{:.1}" y="{:.1}">{}</text>"#,
            LEFT + plot_width,
            LEFT - 8.0,
            at + 4.0,
            number(tick, decimals)
        );
        tick += step;
    }
    let x_step = round_step(x_max, 6.0);
    let mut tick = 0.0;
    while tick <= x_max * 1.0001 {
        let _ = write!(
            svg,
            r#"<text class="tick" text-anchor="middle" x="{:.1}" y="{:.1}">{}</text>"#,
            x(tick),
            height - BOTTOM + 18.0,
            number(tick, if x_step < 1.0 { 1 } else { 0 })
        );
        tick += x_step;
    }
    let _ = write!(
        svg,
        r#"<text class="axis" text-anchor="middle" x="{:.1}" y="{:.1}">{}</text>"#,
        LEFT + plot_width / 2.0,
        height - 4.0,
        escape(x_label)
    );
    for s in series {
        let path: Vec<String> = s.points.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
        let _ = write!(svg, r#"<polyline class="line {}" points="{}"/>"#, s.class, path.join(" "));
        for p in &s.points {
            let _ = write!(
                svg,
                r#"<circle class="hover {}" cx="{:.1}" cy="{:.1}" r="7"><title>{}: {} at {} s</title></circle>"#,
                s.class,
                x(p.0),
                y(p.1),
                escape(s.name),
                number(p.1, if highest < 10.0 { 2 } else { 0 }),
                number(p.0, 0)
            );
        }
    }
    for (s, at) in series.iter().zip(label_places(series, &y)) {
        let _ = write!(
            svg,
            r#"<text class="name {}" x="{:.1}" y="{:.1}">{}</text>"#,
            s.class,
            LEFT + plot_width + 8.0,
            at + 4.0,
            escape(s.name)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// Where the names stand at the right end of their lines, pushed apart so that none covers another.
fn label_places(series: &[Series<'_>], y: &dyn Fn(f64) -> f64) -> Vec<f64> {
    const APART: f64 = 16.0;
    let mean_of_end = |s: &Series<'_>| {
        let tail = &s.points[s.points.len().saturating_sub(3)..];
        tail.iter().map(|p| p.1).sum::<f64>() / tail.len().max(1) as f64
    };
    let mut order: Vec<(usize, f64)> = series.iter().map(|s| y(mean_of_end(s))).enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    for i in 1..order.len() {
        order[i].1 = order[i].1.max(order[i - 1].1 + APART);
    }
    let mut places = vec![0.0; series.len()];
    for (index, place) in order {
        places[index] = place;
    }
    places
}

/// Horizontal bars with their values behind them. `label` names the plot for those who cannot see it.
pub(crate) fn bars(width: Width, items: &[Bar<'_>], label: &str) -> String {
    const ROW: f64 = 44.0;
    const NAME: f64 = 128.0;
    let height = ROW * items.len() as f64;
    let room = f64::from(width as u16) - NAME - 90.0;
    let max = items.iter().map(|bar| bar.value).fold(0.0, f64::max).max(1e-9);
    let mut svg = open(width, height, label);
    for (i, bar) in items.iter().enumerate() {
        let top = ROW * i as f64 + 8.0;
        let long = (bar.value / max * room).max(1.0);
        let radius = 4f64.min(long / 2.0);
        // Square at the base line, rounded at the end that carries the value.
        let _ = write!(
            svg,
            r#"<text class="bar-name" text-anchor="end" x="{:.1}" y="{:.1}">{}</text><path class="bar {}" d="M{NAME},{top:.1} h{:.1} q{radius:.1},0 {radius:.1},{radius:.1} v{:.1} q0,{radius:.1} -{radius:.1},{radius:.1} h-{:.1} z"><title>{}: {}</title></path><text class="value" x="{:.1}" y="{:.1}">{}</text>"#,
            NAME - 12.0,
            top + 19.0,
            escape(bar.name),
            bar.class,
            long - radius,
            28.0 - 2.0 * radius,
            long - radius,
            escape(bar.name),
            escape(&bar.label),
            NAME + long + 10.0,
            top + 19.0,
            escape(&bar.label)
        );
    }
    svg.push_str("</svg>");
    svg
}

fn open(width: Width, height: f64, label: &str) -> String {
    let class = if matches!(width, Width::Full) { "full" } else { "half" };
    let width = width as u16;
    format!(
        r#"<svg class="{class}" viewBox="0 0 {width} {height}" role="img" aria-label="{}">"#,
        escape(label)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_steps_are_round() {
        assert_eq!(round_step(1.0, 4.0), 0.5);
        assert_eq!(round_step(3700.0, 4.0), 1000.0);
    }

    #[test]
    fn names_of_lines_that_end_together_do_not_cover_each_other() {
        let line = |name| Series { name, class: "disk", points: vec![(0.0, 1.0), (1.0, 1.0)] };
        let places = label_places(&[line("a"), line("b")], &|v| v * 100.0);
        assert!((places[0] - places[1]).abs() >= 16.0);
    }

    #[test]
    fn markup_in_names_is_escaped() {
        let svg = bars(
            Width::Half,
            &[Bar { name: "<b>", class: "disk", value: 1.0, label: "\"&".to_owned() }],
            "x",
        );
        assert!(svg.contains("&lt;b&gt;") && svg.contains("&quot;&amp;") && !svg.contains("<b>"));
    }
}
