//! Sizes as people write them: `10GB` is 10^10 bytes, `10GiB` is 10 * 2^30.

use std::fmt;
use std::str::FromStr;

/// Units in the order in which they are tried for printing; decimal and binary ones are never mixed up: a
/// bare `G` is refused.
const UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// A number of bytes given on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let advice = "write a number with a unit, as 10GB (10^10 bytes), 10GiB (10 * 2^30 bytes) or 4096B";
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim_start());
        if number.is_empty() {
            return Err(format!("no number; {advice}"));
        }
        let factor = if unit.is_empty() {
            1
        } else {
            UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, factor)| *factor)
                .ok_or_else(|| format!("unknown unit '{unit}'; {advice}"))?
        };
        let too_large = || format!("too large; {advice}");
        if !number.contains('.') {
            let whole: u64 = number.parse().map_err(|_| too_large())?;
            return whole.checked_mul(factor).map(Size).ok_or_else(too_large);
        }
        let fraction: f64 = number.parse().map_err(|_| format!("'{number}' is not a number; {advice}"))?;
        let bytes = fraction * factor as f64;
        // Beyond 2^53 a fraction no longer says which byte is meant.
        if bytes > (1u64 << 53) as f64 {
            return Err(too_large());
        }
        Ok(Size(bytes.round() as u64))
    }
}

/// Printed with three significant digits in decimal units, as drives are sold.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        for (name, factor) in [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)] {
            let value = bytes / factor;
            if value >= 0.9995 {
                let decimals = if value >= 99.95 {
                    0
                } else if value >= 9.995 {
                    1
                } else {
                    2
                };
                return write!(f, "{value:.decimals$} {name}");
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn decimal_and_binary_units_differ() {
        assert_eq!("10GB".parse(), Ok(Size(10_000_000_000)));
        assert_eq!("10GiB".parse(), Ok(Size(10 << 30)));
        assert_eq!("4096".parse(), Ok(Size(4096)));
        assert_eq!("1.5 MiB".parse(), Ok(Size(3 << 19)));
        assert_eq!("18446744073709551615".parse(), Ok(Size(u64::MAX)));
    }

    #[test]
    fn what_is_ambiguous_or_too_large_is_refused() {
        for text in
            ["", "GB", "10G", "10gb", "-1GB", "1.2.3MB", "18446744073709551616", "20000000TB", "99999999.5TB"]
        {
            let error = text.parse::<Size>().unwrap_err();
            assert!(error.contains("10GiB"), "{text}: {error}");
        }
    }

    #[test]
    fn printed_with_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (262_144, "262 kB"),
            (43_500_000, "43.5 MB"),
            (999_999, "1.00 MB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
