//! The flush of the flash device, of which one is under way at a time. After one that failed none is ever
//! issued again: what was not durable by then counts as lost.

use mezzanine_ground::region::Word;

use crate::ids::Sequence;
use crate::planted;

/// Changes under the control lock.
#[repr(C)]
pub(crate) struct Flush {
    /// 1 while one is under way, and for ever after one that failed.
    under_way: Word,
    /// Groups before this one are durable when it is done.
    target: Word,
    owner: Word,
    /// Number of the next group when it began.
    opened: Word,
    /// Groups that were opened during the one before.
    opens: Word,
}

impl Flush {
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.get() != 0
    }

    /// One is handed out.
    pub(crate) fn begin(&self, target: Sequence, next_sequence: Sequence, owner: u32) {
        self.under_way.set(1);
        planted::inside("hand out FlushFlash: under way");
        self.target.set(target.number());
        self.opened.set(next_sequence.number());
        self.owner.set(owner.into());
    }

    /// It came to its end without an error.
    pub(crate) fn complete(&self, next_sequence: Sequence) {
        self.under_way.set(0);
        planted::inside("flushed: no longer under way");
        self.opens.set(next_sequence - Sequence::from_number(self.opened.get()));
    }

    /// Groups that were opened while the last one was under way.
    pub(crate) fn opens(&self) -> u64 {
        self.opens.get()
    }

    /// Takes it back from an owner that has died; what it was to make durable, if it was under way.
    pub(crate) fn abandon(&self, dead: u64) -> Option<Sequence> {
        let dies = self.is_under_way() && self.owner.get() == dead;
        dies.then(|| {
            self.under_way.set(0);
            Sequence::from_number(self.target.get())
        })
    }
}
