//! Shows the same rows as a table on the terminal and as a page with a plot: `page FOLDER` writes page.html
//! there.

use std::error::Error;
use std::path::PathBuf;

use mezzanine_report::{
    Bar, BarPlot, Card, Colour, Content, Fact, Machine, Page, Section, Table, Width, now_utc, number,
};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("the folder of the page is missing")?);
    let rows = [("disk", Colour::Grey, 1_240.0), ("flash", Colour::Blue, 38_500.0)];

    let mut table = Table::new(["device", "reads/s"]);
    for (name, _, rate) in rows {
        table.row([name.to_owned(), number(rate, 0)]);
    }
    print!("{}", table.render());

    let bars = rows.map(|(name, colour, value)| Bar {
        name: name.to_owned(),
        colour,
        value,
        text: number(value, 0),
    });
    let plot = BarPlot { width: Width::Full, label: "reads a second".to_owned(), bars: bars.to_vec() };
    let card = |heading: &str, text: &str, content| {
        Section::Card(Card { heading: heading.to_owned(), text: text.to_owned(), content })
    };
    let page = Page {
        title: "Reads".to_owned(),
        over: now_utc(),
        heading: "Flash reads faster".to_owned(),
        lead: "Random reads of two devices.".to_owned(),
        sections: vec![
            card("Reads", "A second, of 4 KiB each.", Content::Bars(plot)),
            card("All figures", "", Content::Table(table, rows.map(|(_, colour, _)| colour).to_vec())),
            card("Machine", "", Content::Facts(vec![Fact::new("Processor", Machine::this().processor)])),
        ],
    };
    std::fs::write(folder.join("page.html"), page.html()?)?;
    Ok(())
}
