//! What lies at which byte: one list of fields for each structure, by which it is written and read.
//!
//! A list is a function that shows each field, with its offset, to a visitor. Offsets are those of
//! docs/format.md; a test compares every list with its table there. Bytes that no field covers are zeros.

/// A number or bytes in a structure; numbers are little-endian.
pub(super) trait Field: Copy {
    /// Its length.
    const BYTES: usize;

    /// Writes it over the whole of `place`, which has its length.
    fn put(self, place: &mut [u8]);

    /// Reads it from the whole of `place`.
    fn get(place: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl Field for $number {
            const BYTES: usize = size_of::<Self>();

            #[inline]
            fn put(self, place: &mut [u8]) {
                self.to_le_bytes().put(place);
            }

            #[inline]
            fn get(place: &[u8]) -> Self {
                Self::from_le_bytes(Field::get(place))
            }
        }
    )+};
}

numbers!(u8, u32, u64);

impl<const N: usize> Field for [u8; N] {
    const BYTES: usize = N;

    #[inline]
    fn put(self, place: &mut [u8]) {
        place.copy_from_slice(&self);
    }

    #[inline]
    fn get(place: &[u8]) -> Self {
        let mut bytes = [0; N];
        bytes.copy_from_slice(place);
        bytes
    }
}

/// What a list of fields is shown to.
pub(super) trait Visitor {
    /// This field lies at this offset, behind all that were shown before.
    fn field<T: Field>(&mut self, offset: usize, field: &mut T);

    /// This is what is written at this offset. Who reads has looked at it before.
    fn always<T: Field>(&mut self, offset: usize, mut value: T) {
        self.field(offset, &mut value);
    }

    /// A setting: 0 for none, else one more than its value.
    fn setting(&mut self, offset: usize, setting: &mut Option<u64>) {
        let mut coded = setting.map_or(0, |value| value + 1);
        self.field(offset, &mut coded);
        *setting = coded.checked_sub(1);
    }

    /// A yes as 1 and a no as 0, in four bytes.
    fn flag(&mut self, offset: usize, flag: &mut bool) {
        let mut coded = u32::from(*flag);
        self.field(offset, &mut coded);
        *flag = coded != 0;
    }
}

/// Writes the fields that it is shown.
pub(super) struct Writer<'b> {
    bytes: &'b mut [u8],
    end: usize,
}

impl<'b> Writer<'b> {
    pub(super) fn new(bytes: &'b mut [u8]) -> Self {
        Self { bytes, end: 0 }
    }
}

impl Visitor for Writer<'_> {
    #[inline]
    fn field<T: Field>(&mut self, offset: usize, field: &mut T) {
        assert!(offset >= self.end, "the field at {offset} overlaps the one before");
        self.end = offset + T::BYTES;
        field.put(&mut self.bytes[offset..self.end]);
    }
}

/// Reads the fields that it is shown, from bytes whose length the caller has checked.
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl Visitor for Reader<'_> {
    #[inline]
    fn field<T: Field>(&mut self, offset: usize, field: &mut T) {
        *field = T::get(&self.0[offset..offset + T::BYTES]);
    }
}

/// The field at this offset alone.
pub(super) fn field_at<T: Field>(bytes: &[u8], offset: usize) -> T {
    T::get(&bytes[offset..offset + T::BYTES])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Field, Visitor};
    use crate::config::TierConfig;
    use crate::format::{GroupSummary, SegmentHeader, SlotEntry, SlotHead, Superblock};
    use crate::ids::PageId;

    /// Offset and length of each field that it is shown.
    #[derive(Default)]
    struct Offsets(Vec<(usize, usize)>);

    impl Visitor for Offsets {
        fn field<T: Field>(&mut self, offset: usize, _: &mut T) {
            self.0.push((offset, T::BYTES));
        }
    }

    /// A row of a table: offset, length, what lies there.
    type Row = (usize, usize, String);

    /// The rows of the first table of the document that has this in it.
    fn table(document: &str, text: &str) -> Vec<Row> {
        let number = |cell: &str| cell.replace(',', "").parse().ok();
        let row = |line: &str| -> Option<Row> {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            Some((number(cells.next()?)?, number(cells.next()?)?, cells.next()?.to_owned()))
        };
        let section =
            document.split("\n\n").find(|section| section.starts_with('|') && section.contains(text));
        section.expect(text).lines().filter_map(row).collect()
    }

    #[test]
    fn the_document_says_where_each_field_lies() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
        let document = std::fs::read_to_string(path).unwrap();
        let shown = |show: &dyn Fn(&mut Offsets)| {
            let mut offsets = Offsets::default();
            show(&mut offsets);
            offsets.0
        };
        let geometry = TierConfig::new(4096, 256).geometry().unwrap();
        let superblock = Superblock::new(&geometry, [1; 16], [2; 16]);
        let slot = SlotEntry { id: PageId::volume(1, 2), checksum: 0, epoch: 1, version: 1, lsn: 0 };
        let head = SlotHead { epoch: 1, number: 1, note: [0; crate::layout::NOTE_BYTES] };
        let lists = [
            ("`MEZZTIER`", shown(&|offsets| superblock.clone().show(offsets).unwrap())),
            ("`MEZZGRP1`", shown(&|offsets| GroupSummary::default().show(offsets))),
            ("`MEZZSEG1`", shown(&|offsets| SegmentHeader::default().show(offsets))),
            ("`MEZZSLT1`", shown(&|offsets| head.clone().show(&[1; 16], offsets))),
            ("offset in a slot", shown(&|offsets| { slot }.show(offsets))),
        ];
        for (text, fields) in lists {
            let rows = table(&document, text);
            for (offset, bytes) in &fields {
                let holds =
                    |row: &&Row| row.0 <= *offset && offset + bytes <= row.0 + row.1 && row.2 != "zero";
                assert_eq!(rows.iter().filter(holds).count(), 1, "{text}: the field at {offset}");
            }
            for (offset, _, what) in rows {
                let is_listed = fields.iter().any(|field| field.0 == offset);
                let apart =
                    what == "zero" || what.starts_with("checksum of") || what.starts_with("1 in the copy");
                assert!(is_listed || apart, "{text}: no field lies at {offset}, {what}");
            }
        }
    }
}
