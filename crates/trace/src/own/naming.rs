//! How a trace names pages.
//!
//! A page id of the tier has 20 bytes (`mezzanine_engine::PageId`). In a trace they are taken apart into a
//! relation (a file, a fork of a table), which is spelt out once, and a block number in it. A
//! [`Request`](crate::Request) has both in one number: the relation in the upper 24 bits, the block in the
//! lower 40.

use mezzanine_engine::PageId;

/// Bits of a block number.
const BLOCK_BITS: u32 = 40;

/// The largest block number of a named page.
pub(super) const BLOCK_MAX: u64 = (1 << BLOCK_BITS) - 1;

/// The most relations of a trace. 2^24 would fit; this is more than any database has, and bounds what a
/// reader has to remember.
pub(super) const RELATIONS_MAX: usize = 1 << 20;

/// Bytes of a page id that name its relation.
pub(super) const PREFIX_BYTES: usize = 16;

/// How pages are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Naming {
    /// By numbers of 64 bits, the same for the whole trace. Relations are hints.
    Numbers,
    /// As volumes name them: number of the file, number of the block below 2^40.
    Volume,
    /// As PostgreSQL names them: database, tablespace, relation, fork, block.
    Postgres,
}

impl Naming {
    const ALL: [Naming; 3] = [Self::Numbers, Self::Volume, Self::Postgres];

    /// The name as tables and JSON print it.
    pub fn name(self) -> &'static str {
        ["numbers", "volume", "postgres"][self as usize]
    }

    pub(super) fn number(self) -> u32 {
        self as u32
    }

    pub(super) fn of(number: u32) -> Option<Naming> {
        Self::ALL.into_iter().find(|naming| naming.number() == number)
    }

    /// The relation's part and the block of a page id; `None` if an id of this kind cannot look like that.
    pub(super) fn split(self, id: &PageId) -> Option<([u8; PREFIX_BYTES], u64)> {
        let mut prefix = [0; PREFIX_BYTES];
        match self {
            Self::Numbers => None,
            Self::Volume => {
                prefix[..8].copy_from_slice(&id.as_bytes()[..8]);
                let is_of_volume = *id == PageId::volume(id.file(), id.block());
                (is_of_volume && id.block() <= BLOCK_MAX).then_some((prefix, id.block()))
            }
            Self::Postgres => {
                prefix.copy_from_slice(&id.as_bytes()[..PREFIX_BYTES]);
                Some((prefix, id.relation_parts()[4].into()))
            }
        }
    }

    /// The page id of which [`split`](Self::split) gave these parts; `None` if there is none.
    pub(super) fn join(self, prefix: &[u8; PREFIX_BYTES], block: u64) -> Option<PageId> {
        let mut bytes = [0; 20];
        bytes[..PREFIX_BYTES].copy_from_slice(prefix);
        match self {
            Self::Numbers => return None,
            Self::Volume => bytes[8..16].copy_from_slice(&block.to_be_bytes()),
            Self::Postgres => bytes[16..].copy_from_slice(&u32::try_from(block).ok()?.to_be_bytes()),
        }
        let id = PageId::from_bytes(bytes);
        (self.split(&id) == Some((*prefix, block))).then_some(id)
    }
}

/// The number of a named page in a [`Request`](crate::Request).
pub(super) fn page_number(relation: u32, block: u64) -> u64 {
    debug_assert!(block <= BLOCK_MAX, "block {block}");
    u64::from(relation) << BLOCK_BITS | block
}

/// Relation and block of a page's number.
pub(super) fn parts_of(page: u64) -> (u32, u64) {
    ((page >> BLOCK_BITS) as u32, page & BLOCK_MAX)
}

/// A table, an index or a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relation {
    /// The first bytes of its pages' ids; zeros where pages are named by numbers.
    pub(super) prefix: [u8; PREFIX_BYTES],
    pub(super) name: String,
}

impl Relation {
    /// What people call it; may be empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name or, if it has none, what the ids of its pages say, in a trace whose pages are named like
    /// that.
    pub fn describe(&self, naming: Naming) -> String {
        let first = match naming.join(&self.prefix, 0) {
            Some(id) if self.name.is_empty() => id,
            _ => return self.name.clone(),
        };
        match naming {
            Naming::Numbers => String::new(),
            Naming::Volume => format!("file {}", first.file()),
            Naming::Postgres => {
                let [database, tablespace, relation, fork, _] = first.relation_parts();
                format!("database {database}, tablespace {tablespace}, relation {relation}, fork {fork}")
            }
        }
    }
}
