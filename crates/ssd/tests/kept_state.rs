//! A drive that is made ready, or was switched off in order, begins at time 0 with what it holds.
#![allow(clippy::unwrap_used)]

use mezzanine_device::DeviceErrorKind;
use mezzanine_device::model::{self, OperationKind, Timing};
use mezzanine_ssd::{Condition, Ssd};

fn small(blocks: u32) -> Ssd {
    let ssd = Ssd::of_model(&model::find("durassd").unwrap()).unwrap().unwrap();
    Ssd::new(ssd.config().with_blocks_per_plane(blocks).unwrap()).unwrap()
}

#[test]
fn nothing_of_the_time_before_is_waited_for() {
    let ssd = small(24);
    let write = |state: &mut [u64], now: u64| {
        ssd.submit(state, now, ssd.operation(OperationKind::Write, 0, 4096))
            .unwrap()
            .ticket
            .completion()
            .unwrap()
    };
    let mut fresh = ssd.idle();
    let expected = write(&mut fresh, 0);
    for condition in [Condition::Filled, Condition::Steady] {
        let mut state = ssd.idle();
        ssd.prepare(&mut state, condition, 1);
        assert_eq!(write(&mut state, 0), expected, "{condition:?}");
        for number in 1..5000 {
            write(&mut state, number);
        }
        ssd.rest(&mut state);
        assert_eq!(write(&mut state, 0), expected, "{condition:?}, switched off and on");
        ssd.check(&mut state).unwrap();
    }
}

#[test]
fn a_state_comes_back_from_its_file_and_what_is_none_is_refused() {
    let folder = std::env::temp_dir().join(format!("mezzanine-kept-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("drive");
    let ssd = small(24);
    assert!(ssd.load(7, &path).unwrap().is_none(), "nothing was kept yet");
    let mut state = ssd.idle();
    ssd.prepare(&mut state, Condition::Filled, 1);
    ssd.save(7, &state, &path).unwrap();
    assert_eq!(ssd.load(7, &path).unwrap().unwrap(), state);
    // A drive that was never used takes next to nothing, and takes the place of the other.
    ssd.save(7, &ssd.idle(), &path).unwrap();
    assert_eq!(ssd.load(7, &path).unwrap().unwrap(), ssd.idle());
    ssd.save(7, &state, &path).unwrap();

    let refused = |ssd: &Ssd, fingerprint, says: &str| {
        let error = ssd.load(fingerprint, &path).unwrap_err();
        assert_eq!(error.kind(), DeviceErrorKind::InvalidState);
        assert!(error.to_string().contains(says), "{error}");
    };
    refused(&ssd, 8, "another model");
    refused(&small(25), 7, "another model");
    let good = std::fs::read(&path).unwrap();
    for at in [8, 16, 24, 32, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(&path, bad).unwrap();
        refused(&ssd, 7, if at < 24 { "another model" } else { "damaged" });
    }
    for (len, says) in [(0, "no state"), (31, "no state"), (32, "damaged"), (good.len() - 1, "damaged")] {
        std::fs::write(&path, &good[..len]).unwrap();
        refused(&ssd, 7, says);
    }
    std::fs::write(&path, vec![b'x'; 4096]).unwrap();
    refused(&ssd, 7, "no state");
    std::fs::remove_dir_all(&folder).unwrap();
}
