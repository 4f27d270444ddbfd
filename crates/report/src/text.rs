//! Tables and paragraphs for a terminal or a file: plain characters, no colours, and as wide as they are,
//! since what reads a pipe wants a row in a line.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, TableComponent};

/// A table of text: the first column to the left, the others to the right.
#[derive(Debug, Clone)]
pub struct Table {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Columns of words.
    left: Vec<usize>,
}

impl Table {
    /// A table without rows.
    pub fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Table {
        Table { header: header.into_iter().map(Into::into).collect(), rows: Vec::new(), left: vec![0] }
    }

    /// Puts these columns, counted from 0, to the left as well: words, not numbers.
    pub fn left(mut self, columns: impl IntoIterator<Item = usize>) -> Table {
        self.left.extend(columns);
        self
    }

    /// Adds a row. Cells that it lacks are empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The lines of the table, with a rule below its header.
    pub fn render(&self) -> String {
        let mut table = plain();
        table.add_row(&self.header).add_rows(&self.rows);
        let widths = table.column_max_content_widths();
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat((*width).into())).collect();
        // Its own rule would go on below the padding.
        let mut table = plain();
        table.add_row(&self.header).add_row(rule).add_rows(&self.rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            let left = self.left.contains(&index);
            column.set_cell_alignment(if left { CellAlignment::Left } else { CellAlignment::Right });
        }
        lines(&mut table)
    }
}

/// Names with their values, one a line, values aligned.
pub fn facts(pairs: &[(&str, String)]) -> String {
    let mut table = plain();
    table.add_rows(pairs.iter().map(|(name, value)| [*name, value]));
    lines(&mut table)
}

/// Text in lines of at most `width` characters, each after `indent`. Words are not broken, and spaces between
/// them do not add up.
pub fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let options = textwrap::Options::new(width)
        .initial_indent(indent)
        .subsequent_indent(indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(&words.join(" "), options).iter().map(|line| format!("{line}\n")).collect()
}

fn plain() -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    // Columns stand two characters apart: one is this line, one the padding.
    table.set_style(TableComponent::VerticalLines, ' ');
    table
}

fn lines(table: &mut comfy_table::Table) -> String {
    let last = table.column_count().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, u16::from(index < last)));
    }
    if table.is_empty() { String::new() } else { table.trim_fmt() + "\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_names_left_and_values_right() {
        let mut table = Table::new(["name", "value"]);
        table.row(["a", "1"]);
        table.row(["longer", "23456"]);
        assert_eq!(table.render(), "name    value\n------  -----\na           1\nlonger  23456\n");
    }

    #[test]
    fn columns_of_words_stand_to_the_left() {
        let mut table = Table::new(["n", "value", "unit"]).left([2]);
        table.row(["a", "1", "s"]);
        table.row(["  b", "", "pages"]);
        assert_eq!(table.render(), "n    value  unit\n---  -----  -----\na        1  s\n  b         pages\n");
    }

    #[test]
    fn wide_characters_do_not_push_others_aside() {
        let mut table = Table::new(["name", "value"]);
        table.row(["\u{65e5}\u{672c}", "1"]);
        table.row(["e\u{301}", "2"]);
        let rendered = table.render();
        let rows: Vec<&str> = rendered.lines().skip(2).collect();
        assert_eq!(rows, ["\u{65e5}\u{672c}      1", "e\u{301}         2"]);
    }

    #[test]
    fn no_row_is_too_wide_for_a_line() {
        let mut table = Table::new(["name", "value"]);
        table.row(["x".repeat(300), "y z ".repeat(100)]);
        assert_eq!(table.render().lines().count(), 3);
        assert_eq!(facts(&[("name", "y z ".repeat(100))]).lines().count(), 1);
    }

    #[test]
    fn facts_align_their_values() {
        let pairs = [("a", "1".to_owned()), ("longer", "2 3".to_owned()), ("none", String::new())];
        assert_eq!(facts(&pairs), "a       1\nlonger  2 3\nnone\n");
        assert_eq!(facts(&[]), "");
    }

    #[test]
    fn paragraphs_are_indented_and_no_wider_than_asked() {
        assert_eq!(wrapped("one  two-three\nfour", 8, "  "), "  one\n  two-three\n  four\n");
        assert_eq!(wrapped("a b c d", 5, " "), " a b\n c d\n");
    }
}
