//! Two tiers on one region, each with a mapping of its own: what one stages in, the other finds; and who is
//! refused.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;

use common::{Flash, Host, page};
use mezzanine_device::SharedMemory;
use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    AttachError, Blank, Lookup, PageId, REGION_VERSION, RecoveryError, Region, StageIn, StageKind, Tier,
    TierConfig,
};

mod common;

struct Path(PathBuf);

impl Path {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        Self(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn host(path: &Path, config: &TierConfig) -> Host {
    let geometry = config.geometry().unwrap();
    let (memory, setup) = SharedMemory::create(&path.0, geometry.region_bytes()).unwrap();
    setup.share().unwrap();
    let superblock = Superblock::new(&geometry, [7; 16], [9; 16]);
    let mut flash = Flash(vec![0; geometry.flash_bytes() as usize]);
    let recovered = Tier::recover(Region::owning(memory), &superblock, 1, &mut flash).unwrap();
    let page_size = geometry.page_size();
    let (tier, superblock) = (recovered.tier, recovered.superblock);
    Host {
        tier,
        superblock,
        flash,
        disk: Default::default(),
        page_size,
        numbers: mezzanine_ground::random::Random::new(1),
    }
}

fn attach(path: &Path, owner: u32) -> Result<Tier, AttachError> {
    Tier::attach(Region::owning(SharedMemory::join(&path.0).unwrap()), owner)
}

#[test]
fn what_one_stages_in_the_other_finds() {
    let path = Path::new("attach-finds");
    let config = TierConfig { group_pages: 8, survivors_max: 3, ..TierConfig::new(8192, 1024) };
    let mut first = host(&path, &config);
    first.tier.publish(&first.superblock);
    let second = attach(&path, 2).unwrap();
    assert_eq!(second.geometry(), first.tier.geometry(), "nobody told it the configuration");
    assert_eq!((second.uuid(), second.published()), ([7; 16], Some(first.superblock.clone())));

    let mut out = page(8192, 0);
    for block in 0..500 {
        let id = PageId::volume(1, block);
        if block % 2 == 0 {
            first.write(id, &page(8192, block));
            assert!(!matches!(second.lookup(&id, &mut out), Lookup::Miss(_)), "block {block}");
        } else {
            while second.stage_in(&id, &page(8192, block), StageKind::Dirty, 0) == StageIn::Full {
                assert!(first.step(), "one process carries out what the other waits for");
            }
            assert_eq!(first.read(id), page(8192, block));
        }
    }
    first.sync();
    first.tier.check();
    second.check();
    assert_eq!(second.statistics(), first.tier.statistics());
}

#[test]
fn a_region_is_joined_only_when_it_is_ready() {
    let path = Path::new("attach-ready");
    let host = host(&path, &TierConfig::new(4096, 256));
    assert_eq!(attach(&path, 2).err(), Some(AttachError::NotReady));
    host.tier.publish(&host.superblock);
    assert!(attach(&path, 2).is_ok());
}

#[test]
fn a_panic_inside_a_critical_section_is_told_to_everyone() {
    let path = Path::new("attach-poisoned");
    let host = host(&path, &TierConfig::new(4096, 256));
    host.tier.publish(&host.superblock);
    let second = attach(&path, 2).unwrap();
    // Arguments are looked at before a lock is taken: a mistake of one process is not everyone's.
    let foreign = Superblock { tier_uuid: [8; 16], ..host.superblock.clone() };
    assert!(panics(|| host.tier.publish(&foreign)));
    assert!(!second.is_poisoned());
    // A tier with unsynced pages cannot be closed, which is found out under the control lock.
    while host.tier.stage_in(&PageId::volume(1, 1), &page(4096, 1), StageKind::Dirty, 0) == StageIn::Full {}
    assert!(panics(|| _ = host.tier.closed(&host.superblock)));
    assert!(second.is_poisoned() && host.tier.is_poisoned());
    assert!(panics(|| drop(second.next_job(2))));
    assert!(panics(|| _ = second.request_sync()));
    assert_eq!(attach(&path, 3).err(), Some(AttachError::Poisoned));
    // Lookups take no lock, and are told once somebody has certified the death.
    let mut out = vec![0; 4096];
    assert_eq!(second.lookup(&PageId::volume(1, 1), &mut out), Lookup::Memory);
    assert!(host.tier.abandon(3).is_err());
    assert!(panics(|| _ = second.lookup(&PageId::volume(1, 1), &mut [0; 4096])));
    assert!(panics(|| _ = second.lookup(&PageId::volume(1, 2), &mut [0; 4096])));
}

fn panics(call: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err()
}

#[test]
fn other_memory_is_refused_with_the_reason() {
    let config = TierConfig::new(4096, 256);
    let bytes = config.geometry().unwrap().region_bytes();
    let words = |change: &dyn Fn(&mut [u8]), length: usize| {
        let path = Path::new("attach-refused");
        let host = host(&path, &config);
        host.tier.publish(&host.superblock);
        let mut memory = SharedMemory::join(&path.0).unwrap();
        let mut copy = mezzanine_device::AlignedBuf::zeroed(length.next_multiple_of(4096));
        let kept = length.min(memory.bytes());
        copy[..kept].copy_from_slice(&memory.as_mut()[..kept]);
        change(&mut copy);
        Tier::attach(Region::owning(Copied(copy)), 2).err()
    };
    assert_eq!(words(&|_| {}, bytes), None);
    assert_eq!(words(&|header| header[0] ^= 1, bytes), Some(AttachError::NotARegion));
    assert_eq!(words(&|header| header[..8].fill(0), bytes), Some(AttachError::NotReady));
    let other = words(&|header| header[8] += 1, bytes);
    let next = REGION_VERSION + 1;
    assert!(
        matches!(other, Some(AttachError::OtherVersion { found: (version, _), .. }) if version == next),
        "{other:?}"
    );
    let other = words(&|header| header[16] ^= 1, bytes);
    assert!(matches!(other, Some(AttachError::OtherVersion { .. })), "{other:?}");
    assert_eq!(words(&|header| header[24] = 0, bytes), Some(AttachError::NotReady));
    // It was published once, so the second copy is in force.
    let damaged = words(&|header| header[64 + 4096 + 200] ^= 1, bytes);
    assert!(matches!(damaged, Some(AttachError::Damaged(_))), "{damaged:?}");
    let small = words(&|_| {}, bytes - 4096);
    assert_eq!(small, Some(AttachError::TooSmall { needed: bytes, mapped: bytes - 4096 }));
    assert!(small.unwrap().to_string().contains(&bytes.to_string()));
    let tiny = words(&|_| {}, 4096);
    assert!(matches!(tiny, Some(AttachError::TooSmall { mapped: 4096, .. })), "{tiny:?}");
}

struct Copied(mezzanine_device::AlignedBuf);

impl AsMut<[u8]> for Copied {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[test]
fn reserved_owner_numbers_are_refused() {
    let path = Path::new("attach-owner");
    let config = TierConfig::new(4096, 256);
    let host = host(&path, &config);
    host.tier.publish(&host.superblock);
    for owner in [0, 1 << 31, u32::MAX] {
        let error = attach(&path, owner).err().unwrap();
        assert!(
            matches!(error, AttachError::Owner(_)) && error.to_string().contains("from 1 to 2147483646"),
            "{error}"
        );
        let geometry = config.geometry().unwrap();
        let superblock = Superblock::new(&geometry, [7; 16], [9; 16]);
        let mut flash = Flash(vec![0; geometry.flash_bytes() as usize]);
        let refused = Tier::recover(Blank::heap(geometry.region_bytes()), &superblock, owner, &mut flash);
        assert!(matches!(refused.err(), Some(RecoveryError::Config(_))));
    }
}
