//! Files as devices: the same bytes come back whatever the engine, the alignment and the way to the disk.
#![allow(clippy::unwrap_used)]

mod scratch;

use std::fs;
use std::os::unix::fs::symlink;

use mezzanine_device::{
    AlignedBuf, Device, DeviceErrorKind, DirectIo, FileDevice, IoEngine, OpenOptions, Request,
};
use mezzanine_ground::random::Random;
use scratch::Scratch;

fn options(direct: DirectIo, engine: IoEngine) -> OpenOptions {
    OpenOptions { direct, engine, ..OpenOptions::read_write_create() }
}

/// Every way to open a file that this machine has; at least the page cache with the thread pool.
fn all_ways(scratch: &Scratch) -> Vec<FileDevice> {
    let mut devices = Vec::new();
    for direct in [DirectIo::Never, DirectIo::IfPossible] {
        let without_threads = [IoEngine::Sequential, IoEngine::RingOrSequential];
        for engine in [IoEngine::ThreadPool, IoEngine::IoUring].into_iter().chain(without_threads) {
            let path = scratch.path(&format!("{direct:?}-{engine:?}"));
            match FileDevice::open(path, &options(direct, engine)) {
                Ok(device) => devices.push(device),
                Err(error) => {
                    assert_eq!((engine, error.kind()), (IoEngine::IoUring, DeviceErrorKind::Unsupported));
                }
            }
        }
    }
    assert!(devices.len() >= 2);
    devices
}

#[test]
fn random_batches_leave_the_bytes_of_a_plain_array() {
    const LEN: usize = 1 << 20;
    let scratch = Scratch::new("batches");
    for device in all_ways(&scratch) {
        let mut numbers = Random::new(20_261_120);
        let mut model = vec![0_u8; LEN];
        device.set_len(LEN as u64).unwrap();
        for round in 0..60 {
            // One slice of the file for each request, so that requests of a batch do not overlap.
            let count = 1 + numbers.below(40) as usize;
            let slice = LEN / count;
            let half = slice as u64 / 2;
            let aligned = round % 3 == 0;
            let ranges: Vec<(usize, usize)> = (0..count)
                .map(|index| {
                    let (mut skip, mut len) =
                        (numbers.below(half) as usize, 1 + numbers.below(half) as usize);
                    if aligned {
                        (skip, len) = (skip & !4095, (len & !4095).max(4096).min(slice & !4095));
                        if slice < 8192 {
                            (skip, len) = (0, 0);
                        }
                    }
                    let start = if aligned { (index * slice).next_multiple_of(4096) } else { index * slice };
                    (start + skip, len.min(slice.saturating_sub(skip + 4096)))
                })
                .collect();
            let sources: Vec<AlignedBuf> = ranges
                .iter()
                .map(|&(_, len)| {
                    let mut bytes = AlignedBuf::zeroed(len);
                    bytes.fill_with(|| numbers.below(256) as u8);
                    bytes
                })
                .collect();
            let mut writes: Vec<Request<'_>> = ranges
                .iter()
                .zip(&sources)
                .map(|(&(start, _), buf)| Request::write(buf, start as u64))
                .collect();
            if round % 5 == 0 {
                writes.push(Request::Flush);
            }
            for result in device.run(&mut writes) {
                result.unwrap();
            }
            for (&(start, len), source) in ranges.iter().zip(&sources) {
                model[start..start + len].copy_from_slice(source);
            }
            let mut back: Vec<AlignedBuf> = ranges.iter().map(|&(_, len)| AlignedBuf::zeroed(len)).collect();
            let mut reads: Vec<Request<'_>> = ranges
                .iter()
                .zip(&mut back)
                .map(|(&(start, _), buf)| Request::Read { offset: start as u64, buf })
                .collect();
            assert!(device.run(&mut reads).iter().all(Result::is_ok));
            for (back, source) in back.iter().zip(&sources) {
                assert_eq!(**back, **source, "{} direct: {}", device.describe(), device.is_direct());
            }
        }
        let mut whole = vec![0; LEN];
        device.read_at(&mut whole, 0).unwrap();
        assert!(whole == model, "{}: contents differ", device.describe());
        assert_eq!(device.len(), LEN as u64);
    }
}

#[test]
fn unaligned_transfers_neither_round_the_length_nor_touch_neighbours() {
    let scratch = Scratch::new("unaligned");
    for device in all_ways(&scratch) {
        device.write_at(&[1; 5000], 3).unwrap();
        assert_eq!(device.len(), 5003);
        device.write_at(&[2; 10], 4090).unwrap();
        assert_eq!(device.len(), 5003);
        let mut back = [9; 5003];
        device.read_at(&mut back, 0).unwrap();
        let mut expected = [1; 5003];
        expected[..3].fill(0);
        expected[4090..4100].fill(2);
        assert_eq!(back, expected);
        // The last block of the file is read although the file ends inside it.
        let mut tail = [0; 3];
        device.read_at(&mut tail, 5000).unwrap();
        assert_eq!(tail, [1; 3]);
    }
}

#[test]
fn reads_past_the_end_are_refused_or_filled_with_zeros_as_asked() {
    let scratch = Scratch::new("past-the-end");
    for device in all_ways(&scratch) {
        device.write_at(&[7; 4096], 0).unwrap();
        let mut buffer = AlignedBuf::zeroed(8192);
        for offset in [0, 4096, 1 << 40, u64::MAX - 100] {
            let error = device.read_at(&mut buffer, offset).unwrap_err();
            assert_eq!(error.kind(), DeviceErrorKind::UnexpectedEnd, "{error}");
            assert_eq!(error.range(), Some((offset, 8192)));
        }
        assert_eq!(device.read_at_or_zero(&mut buffer, 0).unwrap(), 4096);
        assert!(buffer[..4096].iter().all(|&byte| byte == 7) && buffer[4096..].iter().all(|&byte| byte == 0));
        assert_eq!(device.read_at_or_zero(&mut buffer, 1 << 40).unwrap(), 0);
        // In a batch each request has its own result.
        let (mut inside, mut outside) = (AlignedBuf::zeroed(4096), AlignedBuf::zeroed(4096));
        let mut batch = [
            Request::Read { offset: 4096, buf: &mut outside },
            Request::Read { offset: 0, buf: &mut inside },
        ];
        let results = device.run(&mut batch);
        assert_eq!(results[0].as_ref().unwrap_err().kind(), DeviceErrorKind::UnexpectedEnd);
        assert!(results[1].is_ok());
        let error = device.write_at(&[0; 512], u64::MAX - 3).unwrap_err();
        assert_eq!(error.kind(), DeviceErrorKind::OutOfRange);
    }
}

#[test]
fn discarded_ranges_read_as_zeros_or_stay_as_they_are() {
    let scratch = Scratch::new("discard");
    for device in all_ways(&scratch) {
        device.write_at(&[7; 16384], 0).unwrap();
        let mut back = [1; 16384];
        match device.discard(4096, 4096) {
            Ok(()) => {
                device.read_at(&mut back, 0).unwrap();
                assert!(back[4096..8192].iter().all(|&byte| byte == 0));
                assert!(back[..4096].iter().chain(&back[8192..]).all(|&byte| byte == 7));
            }
            Err(error) => {
                assert_eq!(error.kind(), DeviceErrorKind::Unsupported, "{error}");
                device.read_at(&mut back, 0).unwrap();
                assert_eq!(back, [7; 16384]);
            }
        }
        assert_eq!(device.len(), 16384);
    }
}

#[test]
fn a_file_opened_for_reading_refuses_every_change() {
    let scratch = Scratch::new("read-only");
    let path = scratch.path("file");
    fs::write(&path, [5; 100]).unwrap();
    let device = FileDevice::open(&path, &OpenOptions::default()).unwrap();
    for error in [
        device.write_at(&[1], 0).unwrap_err(),
        device.discard(0, 1).unwrap_err(),
        device.set_len(7).unwrap_err(),
    ] {
        assert_eq!(error.kind(), DeviceErrorKind::ReadOnly, "{error}");
    }
    assert!(!device.capabilities().can_resize);
    assert_eq!(fs::read(&path).unwrap(), [5; 100]);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let scratch = Scratch::new("refusals");
    let kind_of = |path: &str, options: &OpenOptions| {
        let error = FileDevice::open(scratch.path(path), options).err().unwrap();
        assert!(error.to_string().contains(path), "{error}");
        error.kind()
    };
    assert_eq!(kind_of("missing", &OpenOptions::read_write()), DeviceErrorKind::NotFound);
    assert_eq!(kind_of("missing/file", &OpenOptions::read_write_create()), DeviceErrorKind::NotFound);
    fs::create_dir(scratch.path("directory")).unwrap();
    assert_eq!(kind_of("directory", &OpenOptions::read_write()), DeviceErrorKind::Unsupported);
    fs::write(scratch.path("present"), [1; 10]).unwrap();
    let create_new = OpenOptions { create_new: true, ..OpenOptions::read_write() };
    assert_eq!(kind_of("present", &create_new), DeviceErrorKind::AlreadyExists);
    assert_eq!(fs::read(scratch.path("present")).unwrap(), [1; 10]);
}

#[test]
fn a_symbolic_link_is_followed_unless_refused() {
    let scratch = Scratch::new("symlink");
    fs::write(scratch.path("target"), [1; 10]).unwrap();
    symlink(scratch.path("target"), scratch.path("link")).unwrap();
    let follow = OpenOptions::read_write_create();
    assert!(FileDevice::open(scratch.path("link"), &follow).is_ok());
    let refuse = OpenOptions { no_follow: true, ..follow };
    let error = FileDevice::open(scratch.path("link"), &refuse).err().unwrap();
    assert_eq!(error.kind(), DeviceErrorKind::SymbolicLink, "{error}");
    symlink(scratch.path("nowhere"), scratch.path("dangling")).unwrap();
    let error = FileDevice::open(scratch.path("dangling"), &refuse).err().unwrap();
    assert_eq!(error.kind(), DeviceErrorKind::SymbolicLink, "{error}");
    assert!(!scratch.path("nowhere").exists());
}

#[test]
fn a_locked_file_is_busy_until_its_owner_closes_it() {
    let scratch = Scratch::new("busy");
    let locked = OpenOptions { exclusive_lock: true, ..OpenOptions::read_write_create() };
    let path = scratch.path("flash");
    let first = FileDevice::open(&path, &locked).unwrap();
    let error = FileDevice::open(&path, &locked).err().unwrap();
    assert_eq!(error.kind(), DeviceErrorKind::Busy, "{error}");
    // Whoever asks for no lock may still look.
    assert!(FileDevice::open(&path, &OpenOptions::default()).is_ok());
    drop(first);
    assert!(FileDevice::open(&path, &locked).is_ok());
}

#[test]
fn a_created_file_belongs_to_its_owner_alone_and_has_the_wanted_length() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("create");
    for preallocate in [false, true] {
        let path = scratch.path(&format!("file-{preallocate}"));
        let wanted = OpenOptions { len: Some(1 << 20), preallocate, ..OpenOptions::read_write_create() };
        let device = FileDevice::open(&path, &wanted).unwrap();
        assert_eq!(device.len(), 1 << 20);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // A longer file is never cut.
        let shorter = OpenOptions { len: Some(4096), ..wanted };
        assert_eq!(FileDevice::open(&path, &shorter).unwrap().len(), 1 << 20);
    }
}

#[test]
fn reserved_space_is_taken_and_what_was_there_stays() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new("reserve");
    let path = scratch.path("file");
    let device = FileDevice::open(&path, &OpenOptions::read_write_create()).unwrap();
    device.set_len(8192).unwrap();
    device.write_at(&[7; 4096], 0).unwrap();
    device.reserve(1 << 20).unwrap();
    assert_eq!(device.len(), 1 << 20);
    let taken = fs::metadata(&path).unwrap().blocks() * 512;
    assert!(taken >= 1 << 20, "{taken} bytes are taken");
    let mut bytes = [0; 8192];
    device.read_at(&mut bytes, 0).unwrap();
    assert_eq!((&bytes[..4096], &bytes[4096..]), (&[7; 4096][..], &[0; 4096][..]));
    device.reserve(4096).unwrap();
    assert_eq!(device.len(), 1 << 20, "a longer file is never cut");
}

#[test]
fn callers_from_many_threads_each_get_their_own_bytes() {
    let scratch = Scratch::new("threads");
    for device in all_ways(&scratch) {
        device.set_len(8 << 20).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let device = &device;
                scope.spawn(move || {
                    for round in 0..20_u8 {
                        let source = AlignedBuf::copy_of(&[round ^ thread as u8; 4096]);
                        let base = thread << 20;
                        let mut writes: Vec<Request<'_>> =
                            (0..32).map(|page| Request::write(&source, base + page * 4096)).collect();
                        assert!(device.run(&mut writes).iter().all(Result::is_ok));
                        let mut back = AlignedBuf::zeroed(32 * 4096);
                        device.read_at(&mut back, base).unwrap();
                        assert!(back.iter().all(|&byte| byte == round ^ thread as u8));
                        if round % 8 == 0 {
                            device.flush().unwrap();
                        }
                    }
                });
            }
        });
    }
}

/// A file system without holes says that all of it may be data; whoever looks finds zeros there.
#[test]
fn a_sparse_file_says_where_its_data_may_be() {
    let scratch = Scratch::new("sparse");
    let device = FileDevice::open(scratch.path("file"), &OpenOptions::read_write_create()).unwrap();
    assert_eq!(device.data_from(0).unwrap(), None, "an empty file");
    device.set_len(1 << 30).unwrap();
    device.write_at(&[1; 4096], 1 << 20).unwrap();
    let (mut at, mut ranges) = (0, Vec::new());
    while let Some(range) = device.data_from(at).unwrap() {
        assert!(at <= range.start && range.start < range.end && range.end <= 1 << 30, "{range:?}");
        at = range.end;
        ranges.push(range);
    }
    assert!(ranges.iter().any(|range| range.contains(&(1 << 20))), "{ranges:?}");
    assert_eq!(device.data_from(1 << 30).unwrap(), None, "behind the end");
    let mut back = [0; 4096];
    device.read_at(&mut back, 1 << 20).unwrap();
    assert_eq!(back, [1; 4096], "looking has moved nothing");
}
