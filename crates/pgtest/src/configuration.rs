//! What a life is configured with: some of it takes turns with the lives, the rest is drawn by their seeds.

use std::fmt;
use std::path::Path;

use crate::random::Random;

const SYNC_MODES: [&str; 3] = ["durable", "drained", "through"];
const DESIGNS: [&str; 3] = ["face-gsc", "face-gr", "face-basic"];
const ADMISSIONS: [&str; 3] = ["both", "dirty", "clean"];

/// Configuration of one life.
#[derive(Debug, Clone)]
pub(crate) struct Configuration {
    pub(crate) sync_mode: &'static str,
    pub(crate) full_page_writes: bool,
    pub(crate) consistency_checking: bool,
    design: &'static str,
    admission: &'static str,
    flash_mib: u64,
    group_pages: u64,
    buffers_kib: u64,
}

impl Configuration {
    /// The configuration of a life of a run.
    pub(crate) fn draw(seed: u64, life: u64) -> Self {
        let mut random = Random::new(seed, life << 8);
        // Three and four have no common divisor: twelve lives have all combinations.
        Self {
            sync_mode: SYNC_MODES[(life % 3) as usize],
            full_page_writes: life % 2 == 1,
            consistency_checking: life / 2 % 2 == 1,
            design: random.of(&DESIGNS),
            // Clean pages alone make a tier that never has more than a cache has: a fifth of the lives will
            // do.
            admission: if random.below(5) == 0 {
                ADMISSIONS[2]
            } else {
                ADMISSIONS[random.below(2) as usize]
            },
            // So small that the queue comes round many times, and smaller than the tables.
            flash_mib: random.of(&[4, 6, 10]),
            group_pages: random.of(&[0, 4, 16]),
            buffers_kib: random.of(&[768, 1024, 2048]),
        }
    }

    /// Whether the files and the log suffice at any time.
    pub(crate) fn flash_may_be_lost(&self) -> bool {
        self.sync_mode != "durable" || self.admission == "clean"
    }

    /// Whether the tier never has a page that is newer than on disk.
    pub(crate) fn holds_clean_alone(&self) -> bool {
        self.sync_mode == "through" || self.admission == "clean"
    }

    /// The settings for postgresql.conf.
    pub(crate) fn settings(&self, directory: &Path) -> String {
        let switch = |on: bool| if on { "on" } else { "off" };
        format!(
            "
listen_addresses = ''
unix_socket_directories = '{directory}'
max_connections = 20
shared_buffers = {buffers}kB
# The log is kept whole: the oracle reads it.
wal_level = replica
max_wal_senders = 0
wal_keep_size = 1000000MB
min_wal_size = 2MB
max_wal_size = 24MB
checkpoint_timeout = 30s
log_checkpoints = on
log_line_prefix = '%m [%p] %b '
# Changes come from the load alone, so that nothing moves while it is checked.
autovacuum = off
bgwriter_delay = 10ms
full_page_writes = {full_page_writes}
wal_consistency_checking = '{consistency}'
shared_preload_libraries = 'mezzanine'
mezzanine.flash_path = '{directory}/flash'
mezzanine.flash_size = {flash}MB
mezzanine.sync_mode = '{mode}'
mezzanine.design = '{design}'
mezzanine.admission = '{admission}'
mezzanine.group_pages = {group}
",
            directory = directory.display(),
            buffers = self.buffers_kib,
            full_page_writes = switch(self.full_page_writes),
            consistency = if self.consistency_checking { "all" } else { "" },
            flash = self.flash_mib,
            mode = self.sync_mode,
            design = self.design,
            admission = self.admission,
            group = self.group_pages,
        )
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {} MiB, full_page_writes {}, wal_consistency_checking {}",
            self.sync_mode,
            self.design,
            self.admission,
            self.flash_mib,
            if self.full_page_writes { "on" } else { "off" },
            if self.consistency_checking { "all" } else { "off" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn twelve_lives_have_every_combination() {
        let combination = |life| {
            let drawn = Configuration::draw(7, life);
            (drawn.sync_mode, drawn.full_page_writes, drawn.consistency_checking)
        };
        assert_eq!((0..12).map(combination).collect::<HashSet<_>>().len(), 12);
    }
}
