//! What stands on a page: the version that its last change gave it, in every eight bytes, together with its
//! place.

use super::places::Place;
use crate::crash::volume::pattern;

/// Tells pages of the database from those of the volumes' files.
const FILE: u8 = 15;

/// Versions are 24 bits on the page.
pub const VERSION_MAX: u32 = (1 << 24) - 1;

/// What was found on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Exactly this version of this page.
    Version(u32),
    /// Nothing was ever written there.
    Zeros,
    /// Anything else: a mixture, another page, rubbish.
    Other,
}

/// Fills `page` with `version` of the page at `place`.
pub fn fill(page: &mut [u8], place: Place, version: u32) {
    pattern::fill(page, FILE, version, u64::from(place) * page.len() as u64);
}

/// What `page`, read for `place`, holds.
pub fn identify(page: &[u8], place: Place) -> Content {
    let offset = u64::from(place) * page.len() as u64;
    let Some(Some(version)) = pattern::versions(&page[..8], FILE, offset).first().copied() else {
        return if page.iter().all(|&byte| byte == 0) { Content::Zeros } else { Content::Other };
    };
    if pattern::is(page, FILE, version, offset) { Content::Version(version) } else { Content::Other }
}

/// `page`, read for `place`, in words.
pub fn describe(page: &[u8], place: Place) -> String {
    pattern::describe(page, FILE, u64::from(place) * page.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_version_only_whole_and_in_its_place() {
        let mut page = [0; 4096];
        assert_eq!(identify(&page, 3), Content::Zeros);
        fill(&mut page, 3, 77);
        assert_eq!(identify(&page, 3), Content::Version(77));
        assert_eq!(identify(&page, 4), Content::Other);
        let mut torn = page;
        fill(&mut page, 3, 78);
        torn[512..].copy_from_slice(&page[512..]);
        assert_eq!(identify(&torn, 3), Content::Other);
        assert_eq!(describe(&torn, 3), "version 77, then version 78");
    }
}
