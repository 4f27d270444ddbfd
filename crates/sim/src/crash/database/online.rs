//! What an operator changes while the database runs: the length of the queue, and the sync mode.

use mezzanine_engine::SyncMode;

use super::server::Server;
use crate::crash::driver::Stop;

impl Server<'_> {
    /// Asks for a longer or shorter queue, or thinks better of it.
    pub(super) fn ask_for_resize(&mut self) {
        let geometry = self.tier.geometry();
        let (frames, most) = (self.tier.frames(), geometry.frames_max());
        let random = &mut self.world.life.random;
        if random.chance(1, 16) {
            self.tier.cancel_resize();
            return;
        }
        let wanted =
            if random.chance(1, 2) { frames + random.magnitude(32) } else { frames - random.below(frames) };
        // What cannot be is refused; nothing has changed then.
        let accepted = self.tier.begin_resize(wanted.min(most)).is_ok();
        self.world.life.tell(|| format!("{wanted} of {most} frames wanted instead of {frames}: {accepted}"));
    }

    /// Goes on in another sync mode.
    pub(super) fn switch_mode(&mut self, mode: SyncMode) -> Result<(), Stop> {
        self.tier.stop_admission();
        self.sync_tier()?;
        self.sync_disk()?;
        if mode == SyncMode::Through {
            self.drain(None, None)?;
        }
        self.write_superblock(self.superblock.with_sync_mode(mode))?;
        self.tier.set_sync_mode(mode);
        self.tier.resume_admission();
        self.world.life.tell(|| format!("sync mode {mode}"));
        self.world.life.coverage.switches += 1;
        Ok(())
    }

    /// The rear stands where the ring is to be cut: the superblock says so before the queue goes on.
    pub(super) fn finish_resize(&mut self) -> Result<(), Stop> {
        self.write_superblock(self.tier.resized(&self.superblock))?;
        self.tier.finish_resize();
        self.world.life.tell(|| format!("the queue has {} frames", self.tier.frames()));
        self.world.life.coverage.resizes += 1;
        Ok(())
    }
}
