//! A page rots in the newest group of the tier, which a checkpoint relied on, and the server crashes before
//! anything follows that group. It looks like a torn write, and redo has nothing for its pages: they came
//! from older files, without a word.
#![allow(clippy::unwrap_used, missing_docs)]

use lasting::{BLOCKS, in_use, write_all};
use machine::{checkpoint, flash_offset, id, page, read};
use mezzanine_engine::SyncMode;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_ffi::pages::Found;
use mezzanine_ffi::startup::Adoption;

mod flash;
mod lasting;
mod machine;

/// The page that was written last.
const ROTTEN: u32 = BLOCKS - 1;

#[test]
fn a_page_that_rots_after_a_checkpoint_is_lost_alone() {
    only_with(&[Bug::PromiseUncounted], || {
        let lasting = in_use(SyncMode::Durable);
        let host = lasting.start(20);
        write_all(&host, 2);
        checkpoint(&host, 30);
        let at = flash_offset(&host, ROTTEN);
        drop(host);
        lasting.flash.flip_bit(8 * (at + 700));

        let (host, started) = lasting.try_start(30).unwrap();
        assert_eq!(started.adoption, Adoption::Adopted);
        let whole = (0..ROTTEN).all(|block| read(&host, &lasting.machine, block) == Some(2));
        whole && matches!(host.read(&id(ROTTEN), &mut page(0)), Found::Lost)
    });
}
