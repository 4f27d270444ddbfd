//! A flash device that answers no read for a while: a controller that is reset, a path that changes. Nothing
//! is lost by that, and nobody is told so.

#![allow(clippy::unwrap_used)]

mod common;

use common::one_file::{
    InUse, PAGES, WRITE_BACK, begin, durable, go_round, in_use, on_flash_alone, read, write,
};
use common::{PAGE, open, page};
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::SyncMode;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Design, Volume, VolumeErrorKind, VolumeState};

/// No read of this device goes well until it is healed; writes do.
fn falls_silent(flash: &MemoryDevice) {
    let fault = Fault::Error(DeviceErrorKind::Io);
    flash.inject(Injection { operation: Operation::Read, after: 0, count: u64::MAX, fault });
}

fn has_its_pages(with: &InUse) -> bool {
    (0..PAGES).all(|block| read(&with.file, block) == Ok(page(block, 1)))
}

/// A read said that the page was lost, and told to give it up or to go back to a backup. An operator who did
/// as he was told, a second later, gave up a good page: three reads back to back are soon done. A drain
/// said the same.
fn good_pages_are_not_given_up(design: Design) -> bool {
    let with = on_flash_alone(design);
    let InUse { flash, volume, file, .. } = &with;
    falls_silent(flash);
    let mut found = vec![0; PAGE];
    let offset = 5 * PAGE as u64;
    let errors = [
        file.read_at(&mut found, offset).unwrap_err(),
        file.read_at(&mut vec![0; 4 * PAGE], offset).unwrap_err(),
        file.write_at(&[1], offset).unwrap_err(),
        file.discard(offset + 512, 512).unwrap_err(),
        volume.drain().unwrap_err(),
        volume.stop_admission().unwrap_err(),
    ];
    let said = errors.iter().all(|error| {
        let said = error.to_string();
        error.kind() == VolumeErrorKind::Io
            && said.contains(
                "the flash device answers no read just now; see to the device and try again; nothing is known to be lost",
            )
            && !said.contains("give")
            && !said.contains("backup")
    });
    let given_up = file.give_up(offset).map_err(|error| error.kind());
    // What needs no read of flash goes on meanwhile.
    assert_eq!(volume.state(), VolumeState::Ok);
    write(file, 21, 2);
    file.sync().unwrap();
    flash.heal();
    let whole = has_its_pages(&with);
    if !(said && given_up == Err(VolumeErrorKind::Io) && whole) {
        return false;
    }
    assert_eq!(file.give_up(offset).unwrap_err().kind(), VolumeErrorKind::NotLost);
    assert_eq!(volume.statistics().pages_damaged, 0);
    volume.drain().unwrap();
    go_round(file, volume, 8).unwrap();
    has_its_pages(&with)
}

#[test]
fn a_page_of_a_silent_device_is_not_called_lost() {
    for design in WRITE_BACK {
        assert!(good_pages_are_not_given_up(design), "{design:?}");
    }
    only_with(&[Bug::SilentPagesLost], || good_pages_are_not_given_up(Design::FaceGr));
}

/// The device is silent when a tier is to be closed drained. It is closed in order, with its pages in it.
#[test]
fn a_tier_whose_device_is_silent_is_not_left_as_after_a_crash() {
    for design in WRITE_BACK {
        let InUse { flash, backing, volume, file } = on_flash_alone(design);
        falls_silent(&flash);
        assert_eq!(volume.close_drained().unwrap_err().kind(), VolumeErrorKind::Io, "{design:?}");
        drop((file, volume));
        flash.heal();
        let volume = open(&flash, &durable(design));
        let file = backing.attach(&volume).unwrap();
        assert!((0..PAGES).all(|block| read(&file, block) == Ok(page(block, 1))));
        volume.close_drained().unwrap();
        assert!(backing.disk.inspect(|disk| disk[5 * PAGE..6 * PAGE] == page(5, 1)));
    }
}

/// Disk answers for clean pages. Each read of one called its frame bad, so that a second of silence took up
/// to 256 good frames out of use, for as long as there was the tier.
fn good_frames_stay_in_use(design: Design) -> bool {
    let with = on_flash_alone(design);
    with.volume.drain().unwrap();
    falls_silent(&with.flash);
    assert!(has_its_pages(&with), "{design:?}: disk has them");
    with.flash.heal();
    go_round(&with.file, &with.volume, 8).unwrap();
    let voids = with.volume.statistics().tier.unwrap().voids;
    has_its_pages(&with) && voids == 0
}

#[test]
fn a_frame_of_a_silent_device_is_not_called_bad() {
    for design in WRITE_BACK {
        assert!(good_frames_stay_in_use(design), "{design:?}");
    }
    only_with(&[Bug::SilentFramesBad], || good_frames_stay_in_use(Design::FaceGr));
}

/// Pages are synced, and version 2 of them is not when the power fails, which tears one of these. In the next
/// opening `count` reads from the one `after` others on fail, and then the device is as well as ever.
/// Whether every page has one of the two versions once the volume is open, and whether a read failed.
fn what_was_synced_is_there(design: Design, block: u64, after: u64, count: u64) -> (bool, bool) {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = begin(&config);
    (0..PAGES).for_each(|block| write(&file, block, 1));
    file.sync().unwrap();
    (0..PAGES).for_each(|block| write(&file, block, 2));
    while volume.step() {}
    drop((file, volume));
    let image = flash.image();
    let torn = (0..image.len() / PAGE).find(|at| image[at * PAGE..(at + 1) * PAGE] == page(block, 2));
    let Some(torn) = torn else { return (false, false) };
    flash.write_at(&[0xEE; 512], (torn * PAGE + 1024) as u64).unwrap();
    let fault = Fault::Error(DeviceErrorKind::Io);
    flash.inject(Injection { operation: Operation::Read, after, count, fault });
    let opened = Volume::open(flash.clone() as _, config.clone());
    let met = flash.faults_struck() > 0;
    flash.heal();
    let volume = opened.unwrap_or_else(|_| open(&flash, &config));
    let file = backing.attach(&volume).unwrap();
    let right = (0..PAGES).all(|block| {
        read(&file, block).is_ok_and(|found| [1, 2].iter().any(|&version| found == page(block, version)))
    });
    (right, met)
}

/// Recovery takes a page that cannot be read for one that is not torn, for torn pages can be read.
#[test]
fn a_torn_group_of_a_silent_device_is_not_valid() {
    let all = |design: Design, torn: &[u64]| {
        let each_read = |block, count| {
            let opened = (0..).map(|after| what_was_synced_is_there(design, block, after, count));
            opened.take_while(|(_, met)| *met).all(|(right, _)| right)
        };
        torn.iter().all(|&block| (2..9).all(|count| each_read(block, count)))
    };
    for design in [Design::FaceBasic, Design::FaceGr, Design::FaceGsc] {
        // The others are in a group that is known to be durable: those are lost if they are damaged.
        let torn: Vec<u64> =
            (0..PAGES).filter(|&block| what_was_synced_is_there(design, block, 0, 0).0).collect();
        assert!(!torn.is_empty());
        assert!(all(design, &torn), "{design:?}");
    }
    only_with(&[Bug::SilentGroupBelieved], || all(Design::FaceGr, &[PAGES - 1]));
}

/// A volume is opened while the device answers nothing for a moment, once at each read: it is refused, or
/// knows the name of the file that it waits for.
fn the_name_of_a_file_is_known(sync_mode: SyncMode) -> bool {
    let mut config = durable(Design::FaceGr);
    config.tier.sync_mode = sync_mode;
    let InUse { flash, volume, file, .. } = in_use(&config);
    drop((file, volume));
    let image = flash.image();
    let known = open(&flash, &config).unattached();
    assert!(!known.is_empty() || sync_mode == SyncMode::Through);
    let fault = Fault::Error(DeviceErrorKind::Io);
    let opened = (0..).map(|after| {
        flash.load(&image);
        let before = flash.faults_struck();
        flash.inject(Injection { operation: Operation::Read, after, count: 8, fault });
        let opened = Volume::open(flash.clone() as _, config.clone());
        let met = flash.faults_struck() > before;
        flash.heal();
        met.then_some(opened)
    });
    opened.map_while(|opened| opened).all(|opened| match opened {
        Ok(volume) => volume.unattached() == known,
        Err(error) => {
            assert_eq!(error.kind(), VolumeErrorKind::Io);
            assert!(error.to_string().contains("try again"), "{error}");
            assert!(flash.image() == image, "nothing was changed");
            true
        }
    })
}

#[test]
fn an_opening_beside_silence_is_refused_or_forgets_nothing() {
    assert!(the_name_of_a_file_is_known(SyncMode::Through));
    only_with(&[Bug::SilentPathTableEmpty], || the_name_of_a_file_is_known(SyncMode::Durable));
}
