//! `mezz tier`: what is made can be looked at, checked and emptied; what is not recognised is left alone.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, mezz};

fn formatted(scratch: &Scratch) -> String {
    let flash = scratch.file("flash");
    mezz(&["tier", "format", &flash, "--size", "16MiB"]).expect(0);
    flash
}

#[test]
fn a_new_tier_is_empty_and_sound() {
    let scratch = Scratch::new();
    let flash = scratch.file("flash");
    let made = mezz(&[
        "tier",
        "format",
        &flash,
        "--size",
        "16MiB",
        "--page-size",
        "8KiB",
        "--sync-mode",
        "through",
        "--json",
    ])
    .expect(0)
    .json();
    assert_eq!((made["page_bytes"].as_u64(), made["sync_mode"].as_str()), (Some(8192), Some("through")));
    assert!(made["flash_bytes"].as_u64().unwrap() <= 16 << 20);
    assert!(made["memory_bytes_per_frame"].as_f64().unwrap() > 0.0);
    let seen = mezz(&["tier", "inspect", &flash, "--json"]).expect(0).json();
    assert_eq!(seen["state"], "drained");
    assert_eq!(seen["frames"], made["frames"]);
    assert_eq!(seen["recovery"]["pages"], 0);
    let checked = mezz(&["tier", "verify", &flash, "--json"]).expect(0).json();
    assert_eq!((checked["ok"].as_bool(), checked["superblocks_damaged"].as_u64()), (Some(true), Some(0)));
    for verb in ["inspect", "verify"] {
        assert!(mezz(&["tier", verb, &flash]).expect(0).stdout.contains("drained"));
    }
}

#[test]
fn what_is_formatted_for_pages_that_return_says_so() {
    let scratch = Scratch::new();
    let format = |name: &str, more: &[&str]| {
        let flash = scratch.file(name);
        let made = mezz(&[&["tier", "format", &flash, "--size", "16MiB", "--json"], more].concat());
        (flash, made)
    };
    let (_, every) = format("every", &[]);
    let every = every.expect(0).json();
    assert_eq!((every["returning_only"].as_bool(), every["remembered_pages"].as_u64()), (Some(false), None));
    let (_, half) = format("half", &["--returning-only"]);
    let half = half.expect(0).json();
    let frames = half["frames"].as_u64().unwrap();
    assert_eq!(
        (half["returning_only"].as_bool(), half["remembered_pages"].as_u64()),
        (Some(true), Some(frames / 2))
    );
    let (flash, many) = format("many", &["--returning-only", "--remembered-pages", "100000"]);
    let many = many.expect(0).json();
    // Memory is in whole pages, so that a few remembered pages may take none.
    assert!(many["memory_bytes_per_frame"].as_f64() > every["memory_bytes_per_frame"].as_f64());
    let seen = mezz(&["tier", "inspect", &flash, "--json"]).expect(0).json();
    assert_eq!(
        (seen["returning_only"].as_bool(), seen["remembered_pages"].as_u64()),
        (Some(true), Some(100_000))
    );
    assert!(mezz(&["tier", "inspect", &flash]).expect(0).stdout.contains("100000 are remembered"));
    format("alone", &["--remembered-pages", "5"]).1.expect(2).complains(&["--returning-only"]);
    format("none", &["--returning-only", "--remembered-pages", "0"])
        .1
        .expect(2)
        .complains(&["remembered_pages", "use 1"]);
}

#[test]
fn the_flash_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    let flash = formatted(&scratch);
    assert_eq!(std::fs::metadata(flash).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_not_recognised_is_not_overwritten() {
    let scratch = Scratch::new();
    let file = scratch.file("holiday.jpg");
    let content = vec![0x5a; 20 << 20];
    std::fs::write(&file, &content).unwrap();
    mezz(&["tier", "format", &file]).expect(3).complains(&["holiday.jpg", "not", "--force"]);
    mezz(&["tier", "format", &file, "--size", "40MiB"]).expect(3).complains(&["holiday.jpg", "--force"]);
    assert_eq!(std::fs::read(&file).unwrap(), content, "refused means unchanged");
    mezz(&["tier", "format", &file, "--force"]).expect(0);
    mezz(&["tier", "inspect", &file]).expect(0);
}

#[test]
fn a_tier_is_made_only_where_it_fits() {
    let scratch = Scratch::new();
    let flash = scratch.file("flash");
    mezz(&["tier", "format", &flash]).expect(2).complains(&["flash", "--size"]);
    mezz(&["tier", "format", &flash, "--size", "10kB"]).expect(2).complains(&[
        "flash",
        "10.0 kB",
        "--size of at least",
    ]);
    mezz(&["tier", "format", &flash, "--size", "16MiB", "--page-size", "5000"])
        .expect(2)
        .complains(&["page_size", "8192"]);
    mezz(&["tier", "format", &flash, "--size", "8EB"]).expect(2);
    mezz(&["tier", "format", &flash, "--size", "4000TB"]).expect(3).complains(&["flash", "space"]);
    mezz(&["tier", "format", &scratch.file("no/such/flash"), "--size", "16MiB"])
        .expect(3)
        .complains(&["no/such/flash"]);
    assert!(!std::path::Path::new(&flash).exists(), "nothing is left behind");
}

#[test]
fn missing_foreign_and_newer_files_are_told_apart() {
    let scratch = Scratch::new();
    mezz(&["tier", "inspect", &scratch.file("missing")]).expect(3).complains(&[
        "missing",
        "not exist",
        "mezz tier format",
    ]);
    let foreign = scratch.file("foreign");
    std::fs::write(&foreign, vec![7; 1 << 20]).unwrap();
    mezz(&["tier", "inspect", &foreign]).expect(3).complains(&["foreign", "no flash tier"]);
    mezz(&["tier", "verify", &foreign]).expect(3);
    mezz(&["tier", "inspect", &scratch.0.display().to_string()]).expect(3).complains(&["directory"]);
    let link = scratch.file("link");
    std::os::unix::fs::symlink(formatted(&scratch), &link).unwrap();
    mezz(&["tier", "inspect", &link]).expect(3).complains(&["symbolic link"]);
}

#[test]
fn a_truncated_tier_is_refused_unchanged() {
    let scratch = Scratch::new();
    let flash = formatted(&scratch);
    let file = std::fs::OpenOptions::new().write(true).open(&flash).unwrap();
    file.set_len(1 << 20).unwrap();
    for verb in ["inspect", "verify"] {
        mezz(&["tier", verb, &flash]).expect(1).complains(&["truncated", "flash"]);
    }
    assert_eq!(std::fs::metadata(&flash).unwrap().len(), 1 << 20);
}

#[test]
fn one_damaged_superblock_is_survived_and_two_are_reported() {
    use std::os::unix::fs::FileExt as _;
    let scratch = Scratch::new();
    let flash = formatted(&scratch);
    let file = std::fs::OpenOptions::new().write(true).open(&flash).unwrap();
    file.write_all_at(&[0xff; 16], 40).unwrap();
    let checked = mezz(&["tier", "verify", &flash, "--json"]).expect(0).json();
    assert_eq!(checked["superblocks_damaged"], 1);
    file.write_all_at(&[0xff; 16], 4096 + 40).unwrap();
    for verb in ["inspect", "verify"] {
        mezz(&["tier", verb, &flash]).expect(1).complains(&["superblock", "damaged"]);
    }
}

#[test]
fn a_tier_in_use_is_not_touched() {
    let scratch = Scratch::new();
    let flash = formatted(&scratch);
    let file = std::fs::File::open(&flash).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    for verb in [&["inspect"][..], &["verify"], &["format", "--force"]] {
        let arguments = [&["tier", verb[0], flash.as_str()][..], &verb[1..]].concat();
        mezz(&arguments).expect(3).complains(&["flash", "open"]);
    }
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    use std::os::unix::fs::FileExt as _;
    let scratch = Scratch::new();
    let flash = formatted(&scratch);
    let file = std::fs::OpenOptions::new().write(true).open(&flash).unwrap();
    // The version follows the eight bytes of the magic number in both superblocks.
    for superblock in [0, 4096] {
        file.write_all_at(&99u32.to_le_bytes(), superblock + 8).unwrap();
    }
    let before = std::fs::read(&flash).unwrap();
    for verb in ["inspect", "verify"] {
        mezz(&["tier", verb, &flash]).expect(3).complains(&["flash", "version 99", "newer"]);
    }
    mezz(&["tier", "format", &flash]).expect(3).complains(&["99", "--force"]);
    assert_eq!(std::fs::read(&flash).unwrap(), before, "nothing is changed");
}

#[test]
fn a_read_only_file_is_not_formatted() {
    let scratch = Scratch::new();
    // Nobody, not even root, writes to a file of the process table.
    mezz(&["tier", "format", "/proc/version", "--size", "16MiB"]).expect(3).complains(&["/proc/version"]);
    mezz(&["tier", "format", &scratch.0.display().to_string(), "--size", "16MiB"])
        .expect(3)
        .complains(&["directory"]);
}

#[test]
fn tac_writes_through_and_nothing_else() {
    let scratch = Scratch::new();
    let flash = scratch.file("flash");
    let format = ["tier", "format", &flash, "--size", "16MiB", "--design", "tac"];
    mezz(&[&format[..], &["--sync-mode", "durable"]].concat())
        .expect(2)
        .complains(&["durable", "use through"]);
    let made = mezz(&[&format[..], &["--extent-pages", "8", "--json"]].concat()).expect(0).json();
    assert_eq!((made["design"].as_str(), made["sync_mode"].as_str()), (Some("tac"), Some("through")));
    let checked = mezz(&["tier", "verify", &flash, "--json"]).expect(0).json();
    assert_eq!(checked["ok"].as_bool(), Some(true));
}
