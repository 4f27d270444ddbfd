//! `mezz tier` on tiers in older versions of the format: they are looked at and drained, and not formatted
//! over.
#![allow(clippy::unwrap_used)]

mod common;

#[path = "../../volume/tests/common/images.rs"]
mod images;

use common::{Scratch, mezz};
use images::{Image, older};

const PAGE: usize = 4096;

/// As in the tests of volumes.
fn page(block: u64, version: u64) -> Vec<u8> {
    let mut page = vec![(block * 31 + version * 7) as u8; PAGE];
    page[..8].copy_from_slice(&block.to_le_bytes());
    page[8..16].copy_from_slice(&version.to_le_bytes());
    page
}

#[test]
fn it_can_be_looked_at_and_drained() {
    for (version, name) in older() {
        let scratch = Scratch::new();
        let (file, flash) = (scratch.file("a.data"), scratch.file("a.mezz"));
        let image = Image::of(name);
        std::fs::write(&flash, &image.flash).unwrap();
        std::fs::write(&file, &image.file).unwrap();
        std::fs::write(format!("{file}.mezzanine"), &image.sidecar).unwrap();

        let seen = mezz(&["tier", "inspect", &flash, "--json"]).expect(0).json();
        assert_eq!(seen["format_version"], version, "{name}: {seen}");
        mezz(&["tier", "verify", &flash, "--all"]).expect(0);
        mezz(&["tier", "format", &flash, "--size", "16MiB"]).expect(3).complains(&[
            "a.mezz",
            &format!("version {version}"),
            "mezz tier drain",
        ]);
        assert!(std::fs::read(&flash).unwrap() == image.flash, "{name}: something changed");

        mezz(&["tier", "drain", &flash, &file]).expect(0);
        assert!(std::fs::read(&file).unwrap() == Image::contents(), "{name}: the file is not complete");
        let seen = mezz(&["tier", "inspect", &flash, "--json"]).expect(0).json();
        assert_eq!(
            (&seen["format_version"], &seen["state"]),
            (&4.into(), &"drained".into()),
            "{name}: {seen}"
        );
        mezz(&["tier", "format", &flash, "--size", "16MiB"]).expect(0);
    }
}
