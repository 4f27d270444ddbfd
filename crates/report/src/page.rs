//! A page of HTML that needs nothing else: no network, no scripts, no fonts, no files beside it.
//!
//! `templates/page.html` is its layout, and `page.css` its looks, with a light and a dark theme.

use askama::Template;

use crate::error::RenderError;
use crate::plot::{BarPlot, Colour, LinePlot};
use crate::text::Table;

/// A page. All of it is text, and none of it markup.
#[derive(Debug, Clone, Template)]
#[template(path = "page.html")]
pub struct Page {
    /// What the browser calls it.
    pub title: String,
    /// A line above the heading: what made it, and when.
    pub over: String,
    /// The one sentence that stays.
    pub heading: String,
    /// What it is about.
    pub lead: String,
    /// What comes then, from above.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a page has a dozen of them")]
pub enum Section {
    /// Figures beside each other, four in a row.
    Tiles(Vec<Tile>),
    /// A card as wide as the page.
    Card(Card),
    /// Cards in two columns.
    Columns(Vec<Card>),
}

/// A figure that is seen from afar.
#[derive(Debug, Clone)]
pub struct Tile {
    /// The figure with its unit.
    pub value: String,
    /// Whether it is good news.
    pub tone: Tone,
    /// What it is a figure of.
    pub text: String,
}

/// What belongs together, in a frame.
#[derive(Debug, Clone)]
pub struct Card {
    /// What it shows.
    pub heading: String,
    /// What one has to know to read it; may be empty.
    pub text: String,
    /// What is shown.
    pub content: Content,
}

/// What a card shows.
#[derive(Debug, Clone)]
pub enum Content {
    /// Lines.
    Lines(LinePlot),
    /// Bars.
    Bars(BarPlot),
    /// A table, and the colours of its rows, from above.
    Table(Table, Vec<Colour>),
    /// Names with what is said of them.
    Facts(Vec<Fact>),
}

/// A name with what is said of it.
#[derive(Debug, Clone)]
pub struct Fact {
    /// The name.
    pub name: String,
    /// A word or two in front of the value; may be empty.
    pub verdict: String,
    /// Whether the verdict is good news.
    pub tone: Tone,
    /// What is said.
    pub value: String,
}

impl Fact {
    /// One without a verdict.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Fact {
        Fact { name: name.into(), verdict: String::new(), tone: Tone::Plain, value: value.into() }
    }
}

/// Whether something is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Neither.
    Plain,
    /// It is.
    Good,
    /// It is not.
    Bad,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Good => "good",
            Tone::Bad => "bad",
        }
    }
}

impl Page {
    /// The whole file.
    ///
    /// # Errors
    /// If a plot cannot be drawn.
    pub fn html(&self) -> Result<String, RenderError> {
        self.render().map_err(|error| RenderError::new("page", error))
    }

    /// The class of a row of a table. A template hands on references.
    fn colour(&self, colours: &[Colour], row: &usize) -> &'static str {
        colours.get(*row).map_or("", |colour| colour.class())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plot::{Axis, Bar, Series, Width};

    const MARKUP: &str = "<b>\"&'";

    fn card(content: Content) -> Card {
        Card { heading: MARKUP.to_owned(), text: MARKUP.to_owned(), content }
    }

    /// Everything that a page can show, made of the same text.
    fn page() -> Page {
        let text = || MARKUP.to_owned();
        let axis = || Axis { title: text(), unit: text(), max: None };
        let series = vec![Series { name: text(), colour: Colour::Blue, points: vec![(1.0, 1.0)] }];
        let lines = LinePlot { width: Width::Full, label: text(), x: axis(), y: axis(), series };
        let bar = |colour| Bar { name: text(), colour, value: 1.0, text: text() };
        let bars = vec![bar(Colour::Orange), bar(Colour::Grey)];
        let bars = BarPlot { width: Width::Half, label: text(), bars };
        let mut table = Table::new([text()]);
        table.row([text()]);
        Page {
            title: text(),
            over: text(),
            heading: text(),
            lead: text(),
            sections: vec![
                Section::Tiles(vec![Tile { value: text(), tone: Tone::Bad, text: text() }]),
                Section::Card(card(Content::Lines(lines))),
                Section::Columns(vec![card(Content::Bars(bars))]),
                Section::Card(card(Content::Table(table, vec![Colour::Grey]))),
                Section::Card(card(Content::Facts(vec![Fact {
                    verdict: text(),
                    ..Fact::new(text(), text())
                }]))),
            ],
        }
    }

    #[test]
    fn text_is_never_markup() {
        let html = page().html().unwrap();
        assert!(!html.contains("<b>\"") && !html.contains("b>\"&'"), "{html}");
        // Each of the texts above is there: those in the drawings are escaped by plotters.
        assert_eq!((html.matches("&#60;b&#62;").count(), html.matches("&lt;b&gt;").count()), (24, 7));
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        // The name of a language, not an address that anybody goes to.
        let html = page().html().unwrap().replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for foreign in ["http:", "https:", "<script", "<link", "<img", "@import", "url("] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn each_colour_of_a_plot_has_its_shade_in_both_themes() {
        let html = page().html().unwrap();
        let drawings: String = html.split("<svg ").skip(1).collect();
        let (_, behind) = html.split_once("<style>").unwrap();
        let (style, _) = behind.split_once("</style>").unwrap();
        let mut colours: Vec<&str> = drawings.split("=\"#").skip(1).map(|part| &part[..6]).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), 6, "{colours:?}");
        for colour in colours {
            let rules = style.matches(&format!("=\"#{colour}\"]")).count();
            assert!(rules > 0, "nothing is said of {colour}");
        }
        for name in ["grey", "orange", "blue", "ink", "soft", "rule"] {
            assert_eq!(style.matches(&format!("--{name}: #")).count(), 2, "{name}");
        }
    }
}
