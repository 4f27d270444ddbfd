//! The patch queue of `postgres/patches/17`, part of the binary: what is built does not depend on where
//! `mezz` lies.

/// A patch of the queue.
pub(crate) struct Patch {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! queue {
    ($($name:literal),+ $(,)?) => {
        &[$(Patch { name: $name, text: include_str!(concat!("../../../../../postgres/patches/17/", $name)) }),+]
    };
}

/// In the order of application.
pub(crate) const QUEUE: &[Patch] = queue![
    "0001-Let-a-library-install-a-tier-under-shared-buffers.patch",
    "0002-Tell-the-buffer-tier-of-pages-that-leave-shared-buff.patch",
    "0003-Tell-the-buffer-tier-of-reads-writes-and-drops-in-sm.patch",
    "0004-Tell-the-buffer-tier-of-checkpoints-recovery-and-bac.patch",
    "0005-Note-in-pg_control-that-data-files-alone-are-out-of-.patch",
    "0006-Give-the-workers-of-a-buffer-tier-slots-of-their-own.patch",
    "0007-Let-pg_rewind-and-pg_createsubscriber-know-of-a-buff.patch",
    "0008-Let-redo-pass-over-pages-that-a-buffer-tier-has-lost.patch",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_queue_is_the_directory_in_its_order() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../postgres/patches/17");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".patch"))
            .collect();
        files.sort();
        assert_eq!(files, QUEUE.iter().map(|patch| patch.name).collect::<Vec<_>>());
    }
}
