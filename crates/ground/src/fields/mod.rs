//! What lies at which byte: one list of fields for each structure, by which it is written and read.
//!
//! A list is a function that shows each field, with its offset, to a [`Visitor`]: to a [`Writer`], a
//! [`Reader`], or to [`Offsets`], by which a test compares the list with its [`table`] in a document. Bytes
//! that no field covers are left as they are: zeros in a structure that is new. Numbers are little-endian.
//!
//! ```
//! use mezzanine_ground::fields::{Reader, Visitor, Writer};
//!
//! #[derive(Default, PartialEq, Debug)]
//! struct Header {
//!     epoch: u32,
//!     front: u64,
//! }
//!
//! impl Header {
//!     fn show(&mut self, visitor: &mut impl Visitor) {
//!         visitor.always(0, *b"HEAD");
//!         visitor.field(4, &mut self.epoch);
//!         visitor.field(8, &mut self.front);
//!     }
//! }
//!
//! let mut bytes = [0; 16];
//! Header { epoch: 7, front: 9 }.show(&mut Writer::new(&mut bytes));
//! assert_eq!(bytes, *b"HEAD\x07\0\0\0\x09\0\0\0\0\0\0\0");
//! let mut read = Header::default();
//! read.show(&mut Reader(&bytes));
//! assert_eq!(read, Header { epoch: 7, front: 9 });
//! ```

pub mod table;

/// A number or bytes in a structure; numbers are little-endian.
pub trait Field: Copy {
    /// Its length.
    const BYTES: usize;

    /// Writes it over the whole of `place`.
    ///
    /// # Panics
    /// If `place` has another length.
    fn put(self, place: &mut [u8]);

    /// Reads it from the whole of `place`.
    ///
    /// # Panics
    /// If `place` has another length.
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

numbers!(u8, u32, u64, i64);

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
///
/// One that reads puts what it has read into the fields, and one that does anything else leaves them as they
/// are. So a list that shows a field in another form than the structure has it makes that form first, and
/// then the field from what the form has become: as [`Self::flag`] does.
pub trait Visitor {
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

    /// A number in fewer than eight bytes.
    ///
    /// # Panics
    /// If the number that is shown does not fit, also where another is about to be read in its place.
    fn narrow<const BYTES: usize>(&mut self, offset: usize, number: &mut u64) {
        let mut bytes = number.to_le_bytes();
        let (low, high) = bytes.split_at_mut(BYTES);
        assert!(high.iter().all(|&byte| byte == 0), "{number} does not fit into {BYTES} bytes");
        let mut place = <[u8; BYTES]>::get(low);
        self.field(offset, &mut place);
        place.put(low);
        *number = u64::from_le_bytes(bytes);
    }
}

/// Writes the fields that it is shown.
#[derive(Debug)]
pub struct Writer<'b> {
    bytes: &'b mut [u8],
    end: usize,
}

impl<'b> Writer<'b> {
    /// Writes into these bytes, at whose first the offsets begin.
    pub fn new(bytes: &'b mut [u8]) -> Self {
        Self { bytes, end: 0 }
    }
}

impl Visitor for Writer<'_> {
    /// # Panics
    /// If the field overlaps the one before, or does not lie within the bytes.
    #[inline]
    fn field<T: Field>(&mut self, offset: usize, field: &mut T) {
        assert!(offset >= self.end, "the field at {offset} overlaps the one before");
        self.end = offset + T::BYTES;
        field.put(&mut self.bytes[offset..self.end]);
    }
}

/// Reads the fields that it is shown, from bytes whose length the caller has checked.
#[derive(Debug)]
pub struct Reader<'b>(pub &'b [u8]);

impl Visitor for Reader<'_> {
    /// # Panics
    /// If the field does not lie within the bytes.
    #[inline]
    fn field<T: Field>(&mut self, offset: usize, field: &mut T) {
        *field = T::get(&self.0[offset..offset + T::BYTES]);
    }
}

/// Notes where the fields lie that it is shown.
#[derive(Debug, Default)]
pub struct Offsets(
    /// Offset and length of each.
    pub Vec<(usize, usize)>,
);

impl Visitor for Offsets {
    fn field<T: Field>(&mut self, offset: usize, _: &mut T) {
        self.0.push((offset, T::BYTES));
    }
}

/// The field at this offset alone.
///
/// # Panics
/// If it does not lie within the bytes.
pub fn field_at<T: Field>(bytes: &[u8], offset: usize) -> T {
    T::get(&bytes[offset..offset + T::BYTES])
}

/// Writes the field at this offset alone.
///
/// # Panics
/// If it does not lie within the bytes.
pub fn put_at<T: Field>(bytes: &mut [u8], offset: usize, field: T) {
    field.put(&mut bytes[offset..offset + T::BYTES]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Example {
        byte: u8,
        word: u32,
        long: u64,
        signed: i64,
        name: [u8; 3],
        setting: Option<u64>,
        flag: bool,
        number: u64,
    }

    impl Example {
        fn show(&mut self, visitor: &mut impl Visitor) {
            visitor.always(0, *b"EX");
            visitor.field(2, &mut self.byte);
            visitor.field(4, &mut self.word);
            visitor.field(8, &mut self.long);
            visitor.field(16, &mut self.signed);
            visitor.field(24, &mut self.name);
            visitor.setting(27, &mut self.setting);
            visitor.flag(35, &mut self.flag);
            visitor.narrow::<5>(39, &mut self.number);
        }
    }

    const EXAMPLE: Example = Example {
        byte: 0x11,
        word: 0x2122_2324,
        long: 0x3132_3334_3536_3738,
        signed: -2,
        name: *b"abc",
        setting: Some(0x41),
        flag: true,
        number: 0x51_5253_5455,
    };

    #[rustfmt::skip]
    const BYTES: [u8; 44] = [
        b'E', b'X', 0x11, 0,
        0x24, 0x23, 0x22, 0x21,
        0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,
        0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
        b'a', b'b', b'c',
        0x42, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0,
        0x55, 0x54, 0x53, 0x52, 0x51,
    ];

    #[test]
    fn one_list_writes_and_reads() {
        let mut bytes = [0; 44];
        EXAMPLE.clone().show(&mut Writer::new(&mut bytes));
        assert_eq!(bytes, BYTES);
        let mut read = Example::default();
        read.show(&mut Reader(&bytes));
        assert_eq!(read, EXAMPLE);
        assert_eq!(field_at::<u32>(&bytes, 4), EXAMPLE.word);
        put_at(&mut bytes, 4, 7u32);
        assert_eq!(field_at::<u32>(&bytes, 4), 7);
        assert_eq!((bytes[..4].to_vec(), bytes[8..].to_vec()), (BYTES[..4].to_vec(), BYTES[8..].to_vec()));
    }

    #[test]
    fn who_only_looks_changes_nothing() {
        let (mut example, mut offsets) = (EXAMPLE, Offsets::default());
        example.show(&mut offsets);
        assert_eq!(example, EXAMPLE);
        let fields = [(0, 2), (2, 1), (4, 4), (8, 8), (16, 8), (24, 3), (27, 8), (35, 4), (39, 5)];
        assert_eq!(offsets.0, fields);
    }

    #[test]
    fn a_setting_that_was_never_made_is_zero() {
        let mut bytes = [0xFF; 8];
        Writer::new(&mut bytes).setting(0, &mut None);
        assert_eq!(bytes, [0; 8]);
        let mut setting = Some(3);
        Reader(&bytes).setting(0, &mut setting);
        assert_eq!(setting, None);
    }

    #[test]
    #[should_panic(expected = "the field at 3 overlaps the one before")]
    fn fields_that_overlap_are_not_written() {
        let mut bytes = [0; 8];
        let mut writer = Writer::new(&mut bytes);
        writer.field(0, &mut 1u32);
        writer.field(3, &mut 2u32);
    }

    #[test]
    #[should_panic(expected = "does not fit into 5 bytes")]
    fn a_number_that_is_too_large_is_not_cut() {
        Writer::new(&mut [0; 8]).narrow::<5>(0, &mut (1 << 40));
    }
}
