//! Files that a tier knows by another number than they have, or under a name that another file had.

use mezzanine_device::Device;
#[cfg(feature = "planted")]
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{SidecarStore, SyncMode, Volume, VolumeConfig, VolumeError, VolumeErrorKind};

use crate::common::{Backing, PAGE, durable, formatted, page, through};
use crate::machine::{Machine, contents_of};

/// A copy of file and sidecar from right after the file's first attachment: the process died before any group
/// of the tier had the number that it got, and the next opening gave it another one, under which it was
/// written.
fn a_file_from_before_its_number_is_refused() -> Result<bool, VolumeError> {
    let machine = Machine::new(&durable(), false);
    drop(machine.open()?);
    let before = machine.moment("attached", Vec::new());
    let (volume, file) = machine.open()?;
    file.write_at(&page(0, 1), 0)?;
    file.sync()?;
    drop((file, volume));
    let mix = Machine::of(&machine.config, false, &machine.flash.image(), &before);
    let refused = match mix.open() {
        Err(error) => {
            assert_eq!(error.kind(), VolumeErrorKind::NewerTier, "{error}");
            assert!(error.to_string().contains("put the newest file and sidecar back"), "{error}");
            true
        }
        Ok((_volume, file)) => {
            assert_eq!(file.len(), 0, "the file has what the older copy has");
            false
        }
    };
    // The newest goes on.
    let (_volume, file) = machine.open()?;
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, 0)?;
    assert!(found == page(0, 1));
    Ok(refused)
}

/// Found by worlds whose parts are put back to earlier moments (`mezz sim crash --world histories`, seed 51):
/// the number in the sidecar was one that the tier did not know, so the file was taken for a new one, and
/// read as it was before it was written.
#[test]
fn a_file_is_refused_though_it_had_another_number_when_it_was_copied() {
    assert!(a_file_from_before_its_number_is_refused().unwrap());
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::OlderNumberForgotten));
        let refused = a_file_from_before_its_number_is_refused();
        set(None);
        assert!(!refused.unwrap(), "the planted fault went unnoticed");
    }
}

/// File and sidecar from when the tier was `durable`, beside the tier after it went over to `through` and the
/// process died: by what it is refused.
fn a_file_from_before_the_switch() -> Result<VolumeErrorKind, VolumeError> {
    let machine = Machine::new(&durable(), false);
    let (volume, file) = machine.open()?;
    file.write_at(&page(5, 1), 5 * PAGE as u64)?;
    file.sync()?;
    let before = machine.moment("durable", Vec::new());
    assert_eq!(before.field("state"), Some("dirty"));
    volume.set_sync_mode(SyncMode::Through)?;
    file.write_at(&page(5, 2), 5 * PAGE as u64)?;
    drop((file, volume));
    let mix = Machine::of(&through(), false, &machine.flash.image(), &before);
    Ok(mix.open().map(drop).expect_err("the pages of the file are nowhere").kind())
}

/// A tier in `through` is emptied after a crash, its table of files as well: the file was told that the tier
/// is the older of the two, and to put a newer one back.
#[test]
fn a_file_is_older_than_a_tier_that_needs_none_of_its_files_any_more() {
    assert_eq!(a_file_from_before_the_switch().unwrap(), VolumeErrorKind::NewerTier);
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::DirtyFileOfCleanTier));
        let kind = a_file_from_before_the_switch();
        set(None);
        assert_eq!(kind.unwrap(), VolumeErrorKind::OlderTier, "the planted fault went unnoticed");
    }
}

/// A tier in sync mode `through` whose file comes with an older sidecar, or without one, and so gets another
/// number. Then the tier is opened as `durable`, with the file as it was or `changed` since, and the process
/// dies; the next opening writes to it.
fn a_file_that_got_another_number(sidecar_kept: bool, changed: bool) -> Result<(), VolumeError> {
    let machine = Machine::new(&through(), false);
    let close = || machine.open().and_then(|(volume, _file)| volume.close());
    let change = |now: u8| machine.backing.disk.write_at(&[now; PAGE], 0).unwrap();
    close()?;
    let first = machine.backing.sidecar.read().unwrap().unwrap();
    change(2);
    close()?;
    match sidecar_kept {
        true => machine.backing.sidecar.replace(&first).unwrap(),
        false => machine.backing.sidecar.inner_remove(),
    }
    close()?;
    if changed {
        change(3);
    }
    let machine = Machine { config: durable(), ..machine };
    drop(machine.open()?);
    let (_volume, file) = machine.open()?;
    file.write_at(&page(0, 1), 0)?;
    file.sync()
}

/// Found by worlds of histories (seed 271828213083): the tier went on knowing the file by a number that its
/// sidecar did not name. Once it was `durable` it waited for that one and took no changes, and if a crash
/// came before the first it refused the file as an older copy of itself.
#[test]
fn a_tier_waits_for_no_other_copy_of_a_file_that_was_current() {
    for (sidecar_kept, changed) in [(true, true), (true, false), (false, true), (false, false)] {
        a_file_that_got_another_number(sidecar_kept, changed).unwrap();
        #[cfg(feature = "planted")]
        {
            set(Some(Bug::OrphansAwaited));
            let refused = a_file_that_got_another_number(sidecar_kept, changed).map_err(|error| error.kind());
            set(None);
            assert_eq!(refused, Err(VolumeErrorKind::FileNotAttached), "{sidecar_kept}");
        }
    }
}

/// A tier that nobody needs is replaced while it knows a file, the file is drained from the one that took its
/// place, and comes back to it.
fn a_file_that_another_tier_let_go() -> Result<Vec<u8>, VolumeError> {
    let machine = Machine::new(&durable(), false);
    let (volume, file) = machine.open()?;
    file.write_at(&page(0, 1), 0)?;
    volume.close_drained()?;
    let (volume, _file) = machine.open()?;
    volume.close()?;
    machine.backing.sidecar.inner_remove();
    let (_volume, file) = machine.open()?;
    file.write_at(&page(1, 2), PAGE as u64)?;
    file.sync()?;
    contents_of(&file)
}

/// Found by worlds of power cuts (seed 20270107823): the file had no sidecar, as after any drain, and the
/// tier, which had been drained and of which nobody needed anything, knew a file of this name and refused it.
#[test]
fn a_drained_tier_takes_a_file_back_that_was_drained_from_another() {
    let expected = [page(0, 1), page(1, 2)].concat();
    assert_eq!(a_file_that_another_tier_let_go().unwrap()[..2 * PAGE], expected);
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::OrphansAwaited));
        let refused = a_file_that_another_tier_let_go();
        set(None);
        assert_eq!(refused.unwrap_err().kind(), VolumeErrorKind::FileNotAttached);
    }
}

/// A tier that nobody needs knows two files, which come to it from elsewhere; the process dies when it has
/// taken the first.
fn files_that_another_tier_let_go(sidecars_kept: bool) -> Result<(), VolumeError> {
    let flash = formatted(&durable());
    let files = ["a", "b"].map(Backing::new);
    let open = || Volume::open(flash.clone(), durable());
    let used = || {
        let volume = open()?;
        files.iter().try_for_each(|file| file.attach(&volume).map(drop))?;
        volume.close()
    };
    used()?;
    let sidecars = files.each_ref().map(|file| file.sidecar.read().unwrap().unwrap());
    // The second opening finds other files than were closed, and gives them other numbers.
    files.iter().for_each(|file| file.sidecar.inner_remove());
    used()?;
    for (file, sidecar) in files.iter().zip(&sidecars) {
        match sidecars_kept {
            true => file.sidecar.replace(sidecar).unwrap(),
            false => file.sidecar.inner_remove(),
        }
    }
    drop(files[0].attach(&open()?)?);
    let volume = open()?;
    let attached = files.iter().map(|file| file.attach(&volume)).collect::<Result<Vec<_>, _>>()?;
    attached.iter().try_for_each(|file| file.write_at(&page(0, 1), 0))
}

/// Found by worlds of histories (seed 77001153786): the tier was in use again, so that it might have had the
/// only copies, and refused the other file as older than itself.
#[test]
fn a_drained_tier_takes_files_one_by_one_though_a_crash_comes_between() {
    for (sidecars_kept, kind) in
        [(true, VolumeErrorKind::NewerTier), (false, VolumeErrorKind::FileNotAttached)]
    {
        files_that_another_tier_let_go(sidecars_kept).unwrap();
        #[cfg(feature = "planted")]
        {
            set(Some(Bug::DrainedEpochForgotten));
            let refused = files_that_another_tier_let_go(sidecars_kept);
            set(None);
            assert_eq!(refused.unwrap_err().kind(), kind);
        }
        #[cfg(not(feature = "planted"))]
        let _ = kind;
    }
}

/// Flash of a tier in sync mode `through` is put back to before the last opening, in which two files got
/// their numbers in another order.
fn older_flash_of_a_clean_tier_is_emptied() -> Result<(), VolumeError> {
    let flash = formatted(&through());
    let [a, b, before_them] = ["a", "b", "c"].map(Backing::new);
    let used = |files: &[&Backing], config: VolumeConfig, nonce_seed: u64| {
        let config = VolumeConfig { nonce_seed: Some(nonce_seed), ..config };
        let volume = Volume::open(flash.clone(), config)?;
        files.iter().try_for_each(|file| file.attach(&volume).map(drop))?;
        volume.close()
    };
    used(&[&before_them], through(), 1)?;
    let before = flash.image();
    // An opening as `durable`, so that the sidecars of current files have numbers as well.
    used(&[&before_them, &b, &a], durable(), 2)?;
    flash.load(&before);
    used(&[&before_them, &a, &b], through(), 3)
}

/// Found by the same worlds (seed 22): the second file's number had been given to the first one, in an
/// opening that this copy of the tier never saw, and the file was refused as a copy of the other.
#[test]
fn a_clean_tier_takes_files_whose_numbers_another_copy_of_it_gave() {
    older_flash_of_a_clean_tier_is_emptied().unwrap();
    #[cfg(feature = "planted")]
    {
        set(Some(Bug::NumbersOfCopies));
        let refused = older_flash_of_a_clean_tier_is_emptied();
        set(None);
        assert_eq!(refused.unwrap_err().kind(), VolumeErrorKind::AlreadyAttached);
    }
}
