//! The bottom tier: a disk, of which nothing counts but how often it is accessed.

#[derive(Debug, Default)]
pub(super) struct Disk {
    /// What each page holds; 0 before the first write. It grows with the pages.
    contents: Vec<u64>,
    pub(super) fetches: u64,
    pub(super) write_backs: u64,
}

impl Disk {
    pub(super) fn fetch(&mut self, page: u32) -> u64 {
        self.fetches += 1;
        self.contents.get(page as usize).copied().unwrap_or(0)
    }

    pub(super) fn write_back(&mut self, page: u32, content: u64) {
        self.write_backs += 1;
        *slot_of(&mut self.contents, page) = content;
    }
}

/// The entry of a page in an array that grows with the pages.
pub(super) fn slot_of<T: Clone + Default>(entries: &mut Vec<T>, page: u32) -> &mut T {
    if entries.len() <= page as usize {
        entries.resize(page as usize + 1, T::default());
    }
    &mut entries[page as usize]
}
