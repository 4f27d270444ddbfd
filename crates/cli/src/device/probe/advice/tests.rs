//! The rules of advice, over every combination of what can be found.

use super::super::findings::PageFigures;
use super::*;

/// A device of which everything was shown.
fn perfect() -> Findings {
    let page = |bytes: u64| PageFigures {
        bytes,
        fsync_rarely: Some(4e7 / bytes as f64),
        fsync_each: Some(400.0),
        reads: Some(4e8 / bytes as f64),
    };
    Findings {
        kind: TargetKind::NewFile,
        complete: true,
        direct: true,
        rotational: false,
        volatile_cache: Some(true),
        fua: Some(true),
        atomic_write_bytes: Some(16_384),
        file_atomic_write_bytes: Some(16_384),
        aligned_bytes: 16_384,
        never_merges: true,
        barriers_off: false,
        flushes: FlushPath::Sent,
        figures: Figures {
            fsync_us: Some(2400.0),
            fsync_each: Some(400.0),
            fsync_never: Some(16_000.0),
            log_fdatasync: Some(400.0),
            log_dsync: Some(800.0),
            pages: vec![page(4096), page(8192), page(16_384)],
            groups: vec![(1, 3.0), (4, 12.0), (16, 45.0), (64, 150.0), (256, 400.0)],
        },
    }
}

fn of<'a>(advice: &'a [Advice], setting: &str) -> &'a Advice {
    let found = advice.iter().find(|advice| advice.setting == setting);
    found.unwrap_or_else(|| panic!("nothing is said of {setting}"))
}

/// Whether it is advised to give up what keeps pages whole.
fn gives_up(advice: &Advice) -> bool {
    !matches!(advice.value.as_str(), "on" | "ON")
}

/// Findings in all combinations of what decides about protection.
fn all() -> Vec<Findings> {
    let mut all = vec![perfect()];
    let mut vary = |change: &dyn Fn(&Findings) -> Vec<Findings>| {
        all = all.iter().flat_map(change).collect();
    };
    vary(&|f| {
        let kinds = [TargetKind::NewFile, TargetKind::BlockDevice, TargetKind::Model];
        kinds.map(|kind| Findings { kind, ..f.clone() }).to_vec()
    });
    vary(&|f| [true, false].map(|complete| Findings { complete, ..f.clone() }).to_vec());
    vary(&|f| [true, false].map(|direct| Findings { direct, ..f.clone() }).to_vec());
    vary(&|f| [true, false].map(|never_merges| Findings { never_merges, ..f.clone() }).to_vec());
    vary(&|f| {
        [None, Some(true), Some(false)]
            .map(|volatile_cache| Findings { volatile_cache, ..f.clone() })
            .to_vec()
    });
    let units = [None, Some(0), Some(512), Some(4096), Some(8192), Some(16_384), Some(65_536)];
    vary(&|f| units.map(|atomic_write_bytes| Findings { atomic_write_bytes, ..f.clone() }).to_vec());
    vary(&|f| {
        units.map(|file_atomic_write_bytes| Findings { file_atomic_write_bytes, ..f.clone() }).to_vec()
    });
    vary(&|f| [0, 4096, 16_384].map(|aligned_bytes| Findings { aligned_bytes, ..f.clone() }).to_vec());
    vary(&|f| {
        let paths = [
            FlushPath::Sent,
            FlushPath::NotNeeded,
            FlushPath::Missing,
            FlushPath::Unknown,
            FlushPath::Modelled,
        ];
        paths.map(|flushes| Findings { flushes, ..f.clone() }).to_vec()
    });
    all
}

#[test]
fn protection_is_given_up_only_where_it_was_shown_to_be_needless() {
    let (mut given_up, mut looked_at) = (0, 0);
    for f in all() {
        let advice = advise(&f);
        assert!(!gives_up(of(&advice, "full_page_writes")), "never: {f:?}");
        assert_eq!(of(&advice, "write barriers").value, "on");
        let doublewrite = of(&advice, "innodb_doublewrite");
        looked_at += 1;
        if !gives_up(doublewrite) {
            continue;
        }
        given_up += 1;
        let covers = |said: Option<u64>| said.is_some_and(|said| said >= 4096);
        assert!(covers(f.atomic_write_bytes) && covers(f.file_atomic_write_bytes), "{f:?}");
        assert!(f.aligned_bytes >= 4096 && f.never_merges && f.direct && f.complete, "{f:?}");
        assert_eq!(f.kind, TargetKind::NewFile, "{f:?}");
        assert!(!matches!(f.flushes, FlushPath::Missing | FlushPath::Unknown), "{f:?}");
        // For no larger page than all of them cover, and never as more than a possibility.
        let said: u64 =
            doublewrite.value.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
        let least = f.atomic_write_bytes.min(f.file_atomic_write_bytes).min(Some(f.aligned_bytes));
        assert!(said > 0 && Some(said) <= least, "{f:?}: {}", doublewrite.value);
        assert_eq!(doublewrite.verdict, Verdict::Consider);
        assert!(doublewrite.why.contains("O_DIRECT") && doublewrite.why.contains("Cut the power"));
    }
    assert!(given_up > 0 && given_up < looked_at / 100, "{given_up} of {looked_at}");
}

#[test]
fn each_single_thing_that_is_missing_keeps_the_doublewrite_buffer_and_is_named() {
    let p = perfect;
    let cases = [
        (Findings { kind: TargetKind::Model, ..p() }, "a model"),
        (Findings { kind: TargetKind::BlockDevice, ..p() }, "probe a new file"),
        (Findings { complete: false, ..p() }, "ended early"),
        (Findings { direct: false, ..p() }, "direct I/O"),
        (Findings { atomic_write_bytes: None, ..p() }, "does not tell"),
        (Findings { atomic_write_bytes: Some(512), ..p() }, "does not promise"),
        (Findings { file_atomic_write_bytes: None, ..p() }, "does not say so for its files"),
        (Findings { file_atomic_write_bytes: Some(0), ..p() }, "does not say so for its files"),
        (Findings { aligned_bytes: 0, ..p() }, "partition"),
        (Findings { never_merges: false, ..p() }, "nomerges"),
        (Findings { flushes: FlushPath::Missing, ..p() }, "flushes reach"),
        (Findings { flushes: FlushPath::Unknown, ..p() }, "flushes reach"),
    ];
    for (findings, reason) in cases {
        let advice = advise(&findings);
        let doublewrite = of(&advice, "innodb_doublewrite");
        assert_eq!((doublewrite.value.as_str(), doublewrite.verdict), ("ON", Verdict::Keep), "{reason}");
        assert!(doublewrite.why.contains(reason), "{reason}: {}", doublewrite.why);
    }
}

#[test]
fn a_fast_flush_is_said_to_prove_nothing_whatever_was_found() {
    for mut f in all() {
        f.figures.fsync_us = Some(15.0);
        let advice = advise(&f);
        assert!(of(&advice, "write barriers").risk.contains("proves nothing"));
        assert!(of(&advice, "sync_mode").risk.contains("proves nothing"));
        assert_ne!(of(&advice, "sync_mode").value, "durable");
    }
}

#[test]
fn open_datasync_needs_fua_flushes_that_are_sent_and_a_gain() {
    let method = |f: &Findings| of(&advise(f), "wal_sync_method").value.clone();
    assert_eq!(method(&perfect()), "open_datasync");
    for f in [
        Findings { fua: Some(false), ..perfect() },
        Findings { fua: None, ..perfect() },
        Findings { flushes: FlushPath::Missing, ..perfect() },
        Findings { flushes: FlushPath::Unknown, ..perfect() },
        Findings { barriers_off: true, ..perfect() },
        Findings { complete: false, ..perfect() },
        Findings { kind: TargetKind::Model, flushes: FlushPath::Modelled, ..perfect() },
        Findings { figures: Figures { log_dsync: Some(440.0), ..perfect().figures }, ..perfect() },
        Findings { figures: Figures { log_dsync: None, ..perfect().figures }, ..perfect() },
    ] {
        assert_eq!(method(&f), "fdatasync", "{f:?}");
    }
}

#[test]
fn flash_that_is_not_shown_to_get_flushes_is_not_trusted() {
    let mode = |f: &Findings| of(&advise(f), "sync_mode").value.clone();
    assert_eq!(mode(&perfect()), "drained");
    let not_needed = Findings { flushes: FlushPath::NotNeeded, volatile_cache: Some(false), ..perfect() };
    assert_eq!(mode(&not_needed), "drained");
    for f in [
        Findings { flushes: FlushPath::Missing, ..perfect() },
        Findings { flushes: FlushPath::Unknown, ..perfect() },
        Findings { barriers_off: true, ..perfect() },
        Findings { complete: false, ..perfect() },
    ] {
        assert_eq!(mode(&f), "through", "{f:?}");
    }
    let lost = advise(&Findings { flushes: FlushPath::Missing, ..perfect() });
    assert_eq!(of(&lost, "write barriers").verdict, Verdict::Repair);
    let off = advise(&Findings { barriers_off: true, ..perfect() });
    assert_eq!(of(&off, "write barriers").verdict, Verdict::Repair);
}

#[test]
fn smaller_pages_and_other_groups_have_to_be_faster() {
    let advice = advise(&perfect());
    assert!(of(&advice, "innodb_page_size").value.starts_with("4096"));
    assert_eq!(of(&advice, "group_pages").value, "256");
    let mut slow = perfect();
    for page in &mut slow.figures.pages {
        (page.fsync_rarely, page.reads) = (Some(430.0), Some(530.0));
    }
    slow.figures.groups = vec![(1, 3.0), (64, 150.0), (256, 160.0)];
    let advice = advise(&slow);
    assert_eq!(of(&advice, "innodb_page_size").value, "16384");
    assert!(of(&advice, "group_pages").value.starts_with("64"));
}

#[test]
fn nothing_measured_is_no_gain() {
    let nothing = Findings { complete: false, figures: Figures::default(), ..perfect() };
    for advice in advise(&nothing) {
        assert_eq!(advice.gain, NOT_MEASURED, "{advice:?}");
        assert_ne!(advice.verdict, Verdict::Consider, "{advice:?}");
    }
}
