//! Numbers as text.

/// `12,345` or `0.25`: thousands apart, with so many decimals.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let mut out = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A share as per cent, with so many decimals: `0.734` is `73 %`.
pub fn percent(share: f64, decimals: usize) -> String {
    format!("{} %", number(share * 100.0, decimals))
}

/// Seconds for people: milliseconds below one.
pub fn duration(seconds: f64) -> String {
    if seconds < 0.9995 { format!("{:.0} ms", seconds * 1000.0) } else { format!("{seconds:.2} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!(number(1_234_567.0, 0), "1,234,567");
        assert_eq!(number(999.0, 0), "999");
        assert_eq!(number(-1234.5, 1), "-1,234.5");
    }

    #[test]
    fn shares_are_told_in_per_cent() {
        assert_eq!(percent(0.734, 0), "73 %");
        assert_eq!(percent(0.734, 1), "73.4 %");
    }

    #[test]
    fn times_are_told_in_milliseconds_until_they_take_a_second() {
        assert_eq!(duration(0.0041), "4 ms");
        assert_eq!(duration(0.9996), "1.00 s");
    }
}
