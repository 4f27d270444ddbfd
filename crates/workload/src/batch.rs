//! Rows on their way into a table.

use crate::database::Value;

/// Rows of one table, their text in one buffer, so that a generator can fill it and hand it to another thread
/// without an allocation per cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowBatch {
    columns: usize,
    cells: Vec<Cell>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Null,
    Int(i64),
    Text { start: u32, end: u32 },
}

impl RowBatch {
    /// An empty batch for rows of `columns` cells.
    pub fn new(columns: usize) -> Self {
        assert!(columns > 0, "a row has at least one column");
        Self { columns, cells: Vec::new(), text: String::new() }
    }

    /// Cells per row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Complete rows.
    pub fn rows(&self) -> usize {
        self.cells.len() / self.columns
    }

    /// Bytes of text and 8 bytes per number: a measure of how full the batch is.
    pub fn bytes(&self) -> usize {
        self.text.len() + 8 * self.cells.len()
    }

    /// Appends a number.
    pub fn int(&mut self, number: impl Into<i64>) -> &mut Self {
        self.cells.push(Cell::Int(number.into()));
        self
    }

    /// Appends NULL.
    pub fn null(&mut self) -> &mut Self {
        self.cells.push(Cell::Null);
        self
    }

    /// Appends a number or NULL.
    pub fn optional_int(&mut self, number: Option<i64>) -> &mut Self {
        self.cells.push(number.map_or(Cell::Null, Cell::Int));
        self
    }

    /// Appends text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.text_with(|buffer| buffer.push_str(text))
    }

    /// Appends the text that `write` appends to the buffer. `write` must not touch what the buffer holds
    /// already.
    pub fn text_with(&mut self, write: impl FnOnce(&mut String)) -> &mut Self {
        let start = self.text.len();
        write(&mut self.text);
        let end = self.text.len();
        assert!(end >= start && end <= u32::MAX as usize, "a batch holds less than 4 GiB of text");
        self.cells.push(Cell::Text { start: start as u32, end: end as u32 });
        self
    }

    /// The cells of the rows, in order, one row after the other.
    pub fn cells(&self) -> impl Iterator<Item = Value<'_>> {
        self.cells.iter().map(|cell| match *cell {
            Cell::Null => Value::Null,
            Cell::Int(number) => Value::Int(number),
            Cell::Text { start, end } => Value::Text(&self.text[start as usize..end as usize]),
        })
    }
}
