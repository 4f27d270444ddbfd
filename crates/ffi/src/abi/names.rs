//! The names of pages in C.

use mezzanine_engine::{IdRange, PageId};

/// The name of a page: the parts of PostgreSQL's buffer tag.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MezzPage {
    /// Database.
    pub database: u32,
    /// Tablespace.
    pub tablespace: u32,
    /// Relation file number.
    pub relation: u32,
    /// Fork.
    pub fork: u32,
    /// Block.
    pub block: u32,
}

/// What pages a call is about.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum MezzScope {
    /// Every block of the fork from `block` on.
    ForkFrom = 0,
    /// Every fork of the relation.
    Relation = 1,
    /// Every relation of the database, in all tablespaces.
    Database = 2,
    /// The block alone.
    Block = 3,
}

impl From<&PageId> for MezzPage {
    fn from(id: &PageId) -> Self {
        let [database, tablespace, relation, fork, block] = id.relation_parts();
        Self { database, tablespace, relation, fork, block }
    }
}

impl MezzPage {
    pub(super) fn id(&self) -> PageId {
        PageId::relation(self.database, self.tablespace, self.relation, self.fork, self.block)
    }

    pub(super) fn range(&self, scope: MezzScope) -> IdRange {
        let &Self { database, tablespace, relation, fork, block } = self;
        match scope {
            MezzScope::ForkFrom => {
                IdRange::fork_blocks(database, tablespace, relation, fork, block, u64::MAX)
            }
            MezzScope::Relation => IdRange::relation(database, tablespace, relation),
            MezzScope::Database => IdRange::database(database),
            MezzScope::Block => IdRange::fork_blocks(database, tablespace, relation, fork, block, 1),
        }
    }
}
