//! Several versions of a page in the queue ("Flash-based Database Cache", "Write Reduction in mvFIFO").

use mezzanine_engine::{Design, TierConfig};

use super::answers::Answers;
use super::published::Source;
use super::verdict::{Ours, Part};
use crate::policy::{Access, Queue};

/// Frames of the queue, and how often the page leaves memory dirty, other pages in between.
const FRAMES: u64 = 4096;
const VERSIONS: u32 = 4;

pub(super) fn example(_: &Source, answers: &mut Answers) {
    let config = TierConfig { design: Design::FaceBasic, ..TierConfig::new(4096, FRAMES) };
    let mut queue = Queue::new(&config.geometry().expect("the defaults are valid"));
    let mut others = 1..;
    for _ in 0..VERSIONS {
        queue.run(&[Access::write(0)]);
        queue.run(&others.by_ref().take(FRAMES as usize / 16).map(Access::read).collect::<Vec<_>>());
    }
    // Until everything that was there has left; what came in since is clean.
    queue.run(&others.take(2 * FRAMES as usize).map(Access::read).collect::<Vec<_>>());
    let counted = queue.statistics();
    let said = format!(
        "{} versions of a page left memory, {} was written to disk",
        counted.staged_dirty, counted.disk_writes
    );
    let holds = counted.staged_dirty == u64::from(VERSIONS) && counted.disk_writes == 1;
    answers.set("one-write", Ours::Shape(vec![Part { said, holds }]));
}
