//! Parameters and cells in PostgreSQL's binary formats.
//!
//! The workload knows integers and text; PostgreSQL has several types of each, and gives the sum of `bigint`s
//! as `numeric`, whose binary format is a sign, a weight and digits of base 10,000.

use std::error::Error;

use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::database::Value;

type Fallible<T> = Result<T, Box<dyn Error + Sync + Send>>;

const NUMERIC_BASE: u128 = 10_000;
const NUMERIC_POSITIVE: u16 = 0x0000;
const NUMERIC_NEGATIVE: u16 = 0x4000;

/// A parameter, converted to whatever integer or text type the server has inferred.
#[derive(Debug)]
pub(super) struct Parameter<'v>(pub(super) Value<'v>);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Fallible<IsNull> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Text(text) => out.extend_from_slice(text.as_bytes()),
            Value::Int(number) => match *kind {
                Type::INT2 => out.extend_from_slice(&i16::try_from(number)?.to_be_bytes()),
                Type::INT4 => out.extend_from_slice(&i32::try_from(number)?.to_be_bytes()),
                Type::INT8 => out.extend_from_slice(&number.to_be_bytes()),
                Type::NUMERIC => out.extend_from_slice(&numeric(number)),
                _ => return Err(format!("the number {number} is given where {kind} is wanted").into()),
            },
        }
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        is_number(kind) || is_text(kind)
    }

    to_sql_checked!();
}

/// A cell of a row.
pub(super) struct Cell<'a>(pub(super) Value<'a>);

impl<'a> FromSql<'a> for Cell<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Fallible<Self> {
        Ok(Cell(match *kind {
            Type::INT2 => Value::Int(i16::from_be_bytes(raw.try_into()?).into()),
            Type::INT4 => Value::Int(i32::from_be_bytes(raw.try_into()?).into()),
            Type::INT8 => Value::Int(i64::from_be_bytes(raw.try_into()?)),
            Type::NUMERIC => Value::Int(from_numeric(raw)?),
            _ => Value::Text(std::str::from_utf8(raw)?),
        }))
    }

    fn from_sql_null(_: &Type) -> Fallible<Self> {
        Ok(Cell(Value::Null))
    }

    fn accepts(kind: &Type) -> bool {
        is_number(kind) || is_text(kind)
    }
}

fn is_number(kind: &Type) -> bool {
    matches!(*kind, Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC)
}

fn is_text(kind: &Type) -> bool {
    matches!(*kind, Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME)
}

/// An integer as `numeric`.
fn numeric(number: i64) -> Vec<u8> {
    let mut rest = u128::from(number.unsigned_abs());
    let mut digits = Vec::new();
    while rest > 0 {
        digits.push((rest % NUMERIC_BASE) as u16);
        rest /= NUMERIC_BASE;
    }
    let sign = if number < 0 { NUMERIC_NEGATIVE } else { NUMERIC_POSITIVE };
    let header = [digits.len() as u16, (digits.len() as u16).saturating_sub(1), sign, 0];
    header.into_iter().chain(digits.into_iter().rev()).flat_map(u16::to_be_bytes).collect()
}

/// A `numeric` that is an integer: number of digits, weight of the first, sign, decimals to show, digits.
/// Zeros at the end are left out.
fn from_numeric(raw: &[u8]) -> Fallible<i64> {
    let words: Vec<u16> = raw.chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect();
    let [count, weight, sign, _, digits @ ..] = words.as_slice() else {
        return Err("a numeric of less than 8 bytes".into());
    };
    if digits.len() != usize::from(*count) || ![NUMERIC_POSITIVE, NUMERIC_NEGATIVE].contains(sign) {
        return Err("a numeric that is no number".into());
    }
    if digits.is_empty() {
        return Ok(0);
    }
    let missing = usize::try_from(*weight as i16)
        .ok()
        .and_then(|weight| (weight + 1).checked_sub(digits.len()))
        .filter(|_| (*weight as i16) < 5)
        .ok_or("a numeric that is no integer of 64 bits")?;
    let value = digits
        .iter()
        .copied()
        .chain(std::iter::repeat_n(0, missing))
        .fold(0_i128, |sum, digit| sum * NUMERIC_BASE as i128 + i128::from(digit));
    Ok(i64::try_from(if *sign == NUMERIC_NEGATIVE { -value } else { value })?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn integers_survive_as_numeric() {
        for number in [0, 1, -1, 9_999, 10_000, -10_000, 123_456_789, 100_000_000, i64::MAX, i64::MIN] {
            assert_eq!(from_numeric(&numeric(number)).unwrap(), number);
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_server() {
        // SELECT numeric_send(1230000), numeric_send(-42): zeros at the end are left out.
        let sent = [0, 1, 0, 1, 0, 0, 0, 0, 0, 123];
        assert_eq!(from_numeric(&sent).unwrap(), 1_230_000);
        assert_eq!(numeric(-42), [0, 1, 0, 0, 0x40, 0, 0, 0, 0, 42]);
    }

    #[test]
    fn fractions_infinities_and_torn_values_are_no_integers() {
        // 1.5: two digits of weight 0. NaN. Ten to the thirty-second. Cut off.
        assert!(from_numeric(&[0, 2, 0, 0, 0, 0, 0, 1, 0, 1, 0x13, 0x88]).is_err());
        assert!(from_numeric(&[0, 0, 0, 0, 0xC0, 0, 0, 0]).is_err());
        assert!(from_numeric(&[0, 1, 0, 8, 0, 0, 0, 0, 0, 1]).is_err());
        assert!(from_numeric(&[0, 1, 0]).is_err());
    }
}
