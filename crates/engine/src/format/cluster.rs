//! How a PostgreSQL cluster is named where a superblock names its database.

/// The first bytes of such a name.
const PREFIX: [u8; 7] = *b"PgSQL\0\0";
/// Then one byte: whether the pages carry PostgreSQL's checksums.
const CHECKSUMS_AT: usize = PREFIX.len();
/// Then the system identifier, most significant byte first.
const SYSTEM_IDENTIFIER_AT: usize = CHECKSUMS_AT + 1;

/// A cluster whose pages a tier holds, and the form that they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterName {
    /// By the control file; `initdb` makes it up.
    pub system_identifier: u64,
    /// Whether pages carry checksums.
    pub checksums: bool,
}

impl ClusterName {
    /// The name as [`Superblock::database_uuid`](super::Superblock::database_uuid) has it.
    pub fn database_uuid(&self) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid[..CHECKSUMS_AT].copy_from_slice(&PREFIX);
        uuid[CHECKSUMS_AT] = self.checksums.into();
        uuid[SYSTEM_IDENTIFIER_AT..].copy_from_slice(&self.system_identifier.to_be_bytes());
        uuid
    }

    /// The cluster that is named there; `None` if it is a database of another kind.
    pub fn of(database_uuid: &[u8; 16]) -> Option<Self> {
        let (prefix, rest) = database_uuid.split_first_chunk()?;
        let (checksums, identifier) = rest.split_first()?;
        (*prefix == PREFIX && *checksums <= 1).then_some(())?;
        let system_identifier = u64::from_be_bytes(identifier.try_into().ok()?);
        Some(Self { system_identifier, checksums: *checksums == 1 })
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
