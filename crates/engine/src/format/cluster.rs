//! How a PostgreSQL cluster is named where a superblock names its database.

use mezzanine_ground::fields::{Reader, Visitor, Writer, field_at};

/// The first bytes of such a name.
const PREFIX: [u8; 7] = *b"PgSQL\0\0";
/// Then one byte: whether the pages carry PostgreSQL's checksums.
const CHECKSUMS_AT: usize = PREFIX.len();
const NAME_BYTES: usize = 16;

/// A cluster whose pages a tier holds, and the form that they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterName {
    /// By the control file; `initdb` makes it up.
    pub system_identifier: u64,
    /// Whether pages carry checksums.
    pub checksums: bool,
}

impl ClusterName {
    pub(super) fn show(&mut self, visitor: &mut impl Visitor) {
        let mut checksums = u8::from(self.checksums);
        // Most significant byte first.
        let mut system_identifier = self.system_identifier.to_be_bytes();
        visitor.always(0, PREFIX);
        visitor.field(CHECKSUMS_AT, &mut checksums);
        visitor.field(8, &mut system_identifier);
        self.checksums = checksums == 1;
        self.system_identifier = u64::from_be_bytes(system_identifier);
    }

    /// The name as [`Superblock::database_uuid`](super::Superblock::database_uuid) has it.
    pub fn database_uuid(&self) -> [u8; NAME_BYTES] {
        let mut uuid = [0; NAME_BYTES];
        { *self }.show(&mut Writer::new(&mut uuid));
        uuid
    }

    /// The cluster that is named there; `None` if it is a database of another kind.
    pub fn of(database_uuid: &[u8; NAME_BYTES]) -> Option<Self> {
        let of_cluster = database_uuid.starts_with(&PREFIX);
        if !of_cluster || field_at::<u8>(database_uuid, CHECKSUMS_AT) > 1 {
            return None;
        }
        let mut name = Self { system_identifier: 0, checksums: false };
        name.show(&mut Reader(database_uuid));
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_found_again_by_its_name_and_nothing_else_is_taken_for_one() {
        let name = ClusterName { system_identifier: 0x0123_4567_89ab_cdef, checksums: true };
        let uuid = name.database_uuid();
        assert_eq!(uuid, *b"PgSQL\0\0\x01\x01\x23\x45\x67\x89\xab\xcd\xef");
        assert_eq!(ClusterName::of(&uuid), Some(name));
        let plain = ClusterName { checksums: false, ..name };
        assert_eq!(ClusterName::of(&plain.database_uuid()), Some(plain));
        assert_eq!(ClusterName::of(&[0; 16]), None);
        assert_eq!(ClusterName::of(b"PgSQL\0\0\x02\x01\x23\x45\x67\x89\xab\xcd\xef"), None);
    }
}
