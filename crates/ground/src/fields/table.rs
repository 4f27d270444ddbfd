//! Lists of fields and the tables of a document, for tests: each says the same as the other.
//!
//! A table in Markdown has columns for the offset, the length in bytes and what lies there. A row whose
//! offset or length is not a number says nothing about fields and is passed over.

/// A row of a table: offset, length, what lies there.
type Row = (usize, usize, String);

/// The rows of the first table of the document that has this in it.
fn rows(document: &str, text: &str) -> Vec<Row> {
    let number = |cell: &str| cell.replace(',', "").parse().ok();
    let row = |line: &str| -> Option<Row> {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        Some((number(cells.next()?)?, number(cells.next()?)?, cells.next()?.to_owned()))
    };
    let is_it = |section: &&str| section.starts_with('|') && section.contains(text);
    let table = document.split("\n\n").find(is_it);
    assert!(table.is_some(), "the document has no table with \"{text}\"");
    table.unwrap_or_default().lines().filter_map(row).collect()
}

/// Compares a list of fields, offset and length of each, with the first table of the document that has
/// `text` in it.
///
/// Every field lies within one row and no other, and at the offset of every row lies a field. Rows that say
/// `zero` have none. The fields of `apart`, by the beginnings of what the table says of them, are not in the
/// list: such as checksums, which cover the others.
///
/// # Panics
/// If the two differ, or there is no such table.
pub fn assert_is_as_listed(document: &str, text: &str, fields: &[(usize, usize)], apart: &[&str]) {
    let rows = rows(document, text);
    for (offset, bytes) in fields {
        let holds = |row: &&Row| row.0 <= *offset && offset + bytes <= row.0 + row.1 && row.2 != "zero";
        assert_eq!(rows.iter().filter(holds).count(), 1, "{text}: the field at {offset}");
    }
    for (offset, _, what) in rows {
        let is_listed = fields.iter().any(|field| field.0 == offset);
        let is_apart = what == "zero" || apart.iter().any(|begins| what.starts_with(begins));
        assert!(is_listed || is_apart, "{text}: no field lies at {offset}, {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::assert_is_as_listed;

    const DOCUMENT: &str = "# Two structures\n\n| offset | bytes | of another |\n|---|---|---|\n\
        | 0 | 4 | number |\n\nAnd:\n\n| offset | bytes | field |\n|---|---|---|\n| 0 | 4 | `EXAMPLE1` |\n\
        | 4 | 1,024 | two names |\n| 1,028 | 4 | zero |\n| 1,032 | 4 | checksum of the bytes before |\n\
        | 1,036 | | the rest |\n";

    fn compare(fields: &[(usize, usize)]) {
        assert_is_as_listed(DOCUMENT, "EXAMPLE1", fields, &["checksum of"]);
    }

    #[test]
    fn a_list_that_says_what_the_table_says_is_as_listed() {
        compare(&[(0, 4), (4, 512), (516, 512)]);
        assert_is_as_listed(DOCUMENT, "of another", &[(0, 4)], &[]);
    }

    #[test]
    #[should_panic(expected = "the field at 1028")]
    fn a_field_where_the_table_has_zeros_is_noticed() {
        compare(&[(0, 4), (4, 512), (516, 512), (1028, 4)]);
    }

    #[test]
    #[should_panic(expected = "the field at 4")]
    fn a_field_longer_than_its_row_is_noticed() {
        compare(&[(0, 4), (4, 1025)]);
    }

    #[test]
    #[should_panic(expected = "no field lies at 4, two names")]
    fn a_row_without_a_field_is_noticed() {
        compare(&[(0, 4)]);
    }

    #[test]
    #[should_panic(expected = "the document has no table with \"MEZZNONE\"")]
    fn a_table_that_is_missing_is_noticed() {
        assert_is_as_listed(DOCUMENT, "MEZZNONE", &[], &[]);
    }
}
