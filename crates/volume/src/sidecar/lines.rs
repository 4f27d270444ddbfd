//! Lines of a text, one field each: by one list of them a sidecar is written and read.
//!
//! As lists of fields do for bytes ([`mezzanine_ground::fields`]), a list of lines shows each field to a
//! visitor; a line has a name in the place of an offset. Who reads says what is wrong with a line, for it was
//! written by somebody else.

use std::fmt::Write;

use hex::FromHex as _;

/// What is wrong with a line.
pub(super) type Wrong = String;

/// What a line says.
pub(super) trait Value: Sized {
    /// As it is written; nothing has no line.
    fn write(&self) -> String;

    /// Reads what the line of this name says; nothing if there is no such line.
    fn read(name: &str, text: &str) -> Result<Self, Wrong>;
}

impl Value for String {
    /// Line breaks would end the line.
    fn write(&self) -> String {
        self.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    fn read(_: &str, text: &str) -> Result<Self, Wrong> {
        Ok(text.to_owned())
    }
}

impl Value for u64 {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        text.parse().map_err(|_| format!("its field '{name}' is no number"))
    }
}

impl Value for u32 {
    fn write(&self) -> String {
        self.to_string()
    }

    fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        Self::try_from(u64::read(name, text)?).map_err(|_| format!("its field '{name}' is too large"))
    }
}

/// A number that may have no line.
impl Value for Option<u64> {
    fn write(&self) -> String {
        self.as_ref().map(u64::write).unwrap_or_default()
    }

    fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        if text.is_empty() { Ok(None) } else { u64::read(name, text).map(Some) }
    }
}

impl Value for [u8; 16] {
    fn write(&self) -> String {
        hex::encode(self)
    }

    fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        Self::from_hex(text).map_err(|_| format!("its field '{name}' is no identity"))
    }
}

impl Value for Vec<u8> {
    fn write(&self) -> String {
        hex::encode(self)
    }

    fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        hex::decode(text).map_err(|_| format!("its field '{name}' is no hex"))
    }
}

/// Parts with commas between them.
fn listed<T>(text: &str, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    text.split(',').filter(|part| !part.is_empty()).map(one).collect()
}

impl Value for Vec<u32> {
    fn write(&self) -> String {
        self.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        listed(text, |number| number.parse().ok())
            .ok_or_else(|| format!("its field '{name}' is no list of numbers"))
    }
}

/// Blocks and checksums.
impl Value for Vec<(u64, u32)> {
    fn write(&self) -> String {
        let one = |(block, checksum): &(u64, u32)| format!("{block}:{checksum:08x}");
        self.iter().map(one).collect::<Vec<_>>().join(",")
    }

    fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        let one = |page: &str| {
            let (block, checksum) = page.split_once(':')?;
            Some((block.parse().ok()?, u32::from_str_radix(checksum, 16).ok()?))
        };
        listed(text, one).ok_or_else(|| format!("its field '{name}' is no list of blocks and checksums"))
    }
}

/// The first of a range, and its end.
impl Value for Option<(u64, u64)> {
    fn write(&self) -> String {
        self.map(|(first, end)| format!("{first} {end}")).unwrap_or_default()
    }

    fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        if text.is_empty() {
            return Ok(None);
        }
        let range = |text: &str| {
            let (first, end) = text.split_once(' ')?;
            Some((first.parse().ok()?, end.parse().ok()?))
        };
        range(text).map(Some).ok_or_else(|| format!("its field '{name}' is no range"))
    }
}

/// What the list of lines is shown to.
pub(super) trait Visitor {
    /// The line of this name says this, behind all that were shown before.
    fn line<T: Value>(&mut self, name: &'static str, value: &mut T) -> Result<(), Wrong>;
}

/// Writes the lines that it is shown.
pub(super) struct Writer(pub(super) String);

impl Visitor for Writer {
    fn line<T: Value>(&mut self, name: &'static str, value: &mut T) -> Result<(), Wrong> {
        let said = value.write();
        if !said.is_empty() {
            let _ = writeln!(self.0, "{name} {said}");
        }
        Ok(())
    }
}

/// Finds the lines that it is shown, wherever they stand.
pub(super) struct Reader<'t>(pub(super) &'t str);

impl Visitor for Reader<'_> {
    fn line<T: Value>(&mut self, name: &'static str, value: &mut T) -> Result<(), Wrong> {
        let mut lines = self.0.lines();
        let said = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        *value = T::read(name, said.unwrap_or(""))?;
        Ok(())
    }
}
