//! Whose a guard is, and whether it stands on a disk (what it is for: `backing`).
//!
//! One byte of a disk may rot, and without a tier that costs that byte. A guard that had to be there to the
//! bit would make it cost the file, whose newest pages are in the tier, or the header, which is in the
//! sidecar alone. So a guard that differs in one byte from what its sidecar says stands there. Nobody else
//! writes such a thing: the tier's name in it was drawn at random. Only the file's number at its end is
//! small, and one byte there makes it another file's; so a number counts as rotten only if no file ever had
//! it.

use mezzanine_engine::planted::{self, Bug};
use mezzanine_ground::fields::{Visitor, Writer, field_at};

use crate::config::{GUARD_BYTES_MAX, GUARD_NAME_BYTES};
use crate::sidecar::Sidecar;

/// Whether a disk of `len` bytes may be that of a file which its sidecar says is current, with a guard in its
/// first bytes: it is as long as the file, or, where that is shorter than the guard, between the two.
pub(crate) fn is_len_of_current(sidecar: &Sidecar, len: u64) -> bool {
    len == sidecar.length || is_stretched(sidecar, len)
}

/// Whether a disk of `len` bytes may have been stretched by a guard that is longer than the file.
pub(crate) fn is_stretched(sidecar: &Sidecar, len: u64) -> bool {
    let guard_len = sidecar.guard.len() as u64;
    sidecar.length < guard_len && (1..=guard_len).contains(&len)
}

/// Where the number of the file lies in a name.
const NUMBER_AT: usize = 16;

/// What follows a guard: the tier and the file whose it is. It is compared, and never read as a whole.
fn show_name(visitor: &mut impl Visitor, mut tier: [u8; 16], mut number: u32) {
    visitor.field(0, &mut tier);
    visitor.field(NUMBER_AT, &mut number);
}

fn guard_name(tier: &[u8; 16], number: u32) -> [u8; GUARD_NAME_BYTES] {
    let mut name = [0; GUARD_NAME_BYTES];
    show_name(&mut Writer::new(&mut name), *tier, number);
    name
}

/// Adds to a guard whose it is.
pub(crate) fn name_guard(guard: &mut Vec<u8>, tier: &[u8; 16], number: u32) {
    if !guard.is_empty() && guard.len() + GUARD_NAME_BYTES <= GUARD_BYTES_MAX {
        guard.extend_from_slice(&guard_name(tier, number));
    }
}

/// A guard that names the tier `from`, or none, names the tier `to` from now on.
pub(crate) fn rename_guard(guard: &mut Vec<u8>, from: &[u8; 16], to: &[u8; 16], number: u32) {
    if guard.ends_with(&guard_name(from, number)) {
        guard.truncate(guard.len() - GUARD_NAME_BYTES);
    }
    name_guard(guard, to, number);
}

/// Whether a file that begins with `head` begins with the guard of its sidecar, but for one byte that has
/// rotted. `was_given` says whether a file of the tier may have had a number.
pub(crate) fn is_rotten(sidecar: &Sidecar, head: &[u8], was_given: impl Fn(u32) -> bool) -> bool {
    let guard = &sidecar.guard;
    // One without a name is nearly as long as a sector; of a shorter one nothing is known.
    if guard.len() <= GUARD_NAME_BYTES || head.len() < guard.len() || planted::is(Bug::RottenGuardMissed) {
        return false;
    }
    let mut others = (0..guard.len()).filter(|&at| guard[at] != head[at]);
    let (Some(at), None) = (others.next(), others.next()) else { return false };
    let number_at = guard.len() - GUARD_NAME_BYTES + NUMBER_AT;
    let named = guard.ends_with(&guard_name(&sidecar.tier_uuid, sidecar.file));
    if !named || at < number_at || planted::is(Bug::OtherGuardTakenForRotten) {
        return true;
    }
    !was_given(field_at(head, number_at))
}

#[cfg(test)]
mod tests {
    use mezzanine_ground::fields::Offsets;
    use mezzanine_ground::fields::table::assert_is_as_listed;

    use super::*;

    #[test]
    fn every_field_of_a_name_lies_where_the_format_says() {
        let mut guard = b"guard".to_vec();
        name_guard(&mut guard, b"sixteen-byte-id.", 0x2122_2324);
        assert_eq!(guard, b"guardsixteen-byte-id.\x24\x23\x22\x21");
        rename_guard(&mut guard, b"sixteen-byte-id.", b"another-tier-id.", 0x2122_2324);
        assert_eq!(guard, b"guardanother-tier-id.\x24\x23\x22\x21");
    }

    #[test]
    fn the_document_says_where_each_field_of_a_name_lies() {
        let document = include_str!("../../../docs/format.md");
        let mut offsets = Offsets::default();
        show_name(&mut offsets, [0; 16], 0);
        assert_is_as_listed(document, "offset in a guard's end", &offsets.0, &[]);
    }
}
