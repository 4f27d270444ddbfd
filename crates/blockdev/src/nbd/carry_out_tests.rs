use std::ops::Range;
use std::sync::Arc;

use mezzanine_device::memory::{Fault, Injection, Operation};
use mezzanine_device::{Capabilities, MemoryDevice, Request};

use super::*;

const LEN: u64 = 4 << 20;

/// Memory of which only a part holds data, as of a file with holes.
struct Sparse {
    memory: MemoryDevice,
    data: Vec<Range<u64>>,
}

impl Device for Sparse {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        self.memory.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.memory.set_len(len)
    }

    fn describe(&self) -> String {
        "memory with holes".to_owned()
    }

    fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
        let found = self.data.iter().find(|data| data.end > offset);
        Ok(found.map(|data| data.start.max(offset)..data.end))
    }
}

fn filled() -> MemoryDevice {
    let memory = MemoryDevice::new(LEN);
    memory.write_at(&vec![7; LEN as usize], 0).expect("room");
    memory.flush().expect("power");
    memory
}

fn zeroes(offset: u64, len: u32, may_punch: bool, durable: bool) -> Command {
    Command::WriteZeroes { offset, len, durable, may_punch }
}

/// A device that gives up a range may leave what it likes there; memory leaves the old bytes half of the
/// time.
#[test]
fn zeroes_are_zeros_whatever_a_discard_leaves() {
    for punch in [true, false] {
        let memory = Arc::new(filled());
        let export =
            Export { zeroes_are_holes: punch, ..Export::new(Arc::clone(&memory) as Arc<dyn Device>) };
        for number in 0..20 {
            let (offset, len) = (number * 100_000 + 13, 70_001);
            let done = carry_out(&export, zeroes(offset, len, true, false), &mut Buffer::new());
            assert_eq!(done.expect("room"), Outcome::Done);
            let (from, to) = (offset as usize, offset as usize + len as usize);
            memory.inspect(|bytes| {
                assert!(bytes[from..to].iter().all(|&byte| byte == 0));
                assert_eq!((bytes[from - 1], bytes[to]), (7, 7));
            });
        }
    }
}

#[test]
fn zeroes_are_written_where_a_device_says_that_there_is_data_and_nowhere_else() {
    let device = Sparse { memory: filled(), data: vec![100..200, 300..LEN] };
    write_zeroes(&device, 50, 1000, true).expect("room");
    let image = device.memory.image();
    // What it calls holes it was not made to write; memory has old bytes there, a file would have zeros.
    let discarded = image[60] == 0;
    assert_eq!(image[250] == 0, discarded);
    assert!(image[100..200].iter().chain(&image[300..1050]).all(|&byte| byte == 0));
    assert_eq!((image[49], image[1050]), (7, 7));
}

/// A device that answers with an empty range is not asked for ever.
#[test]
fn a_device_that_finds_data_of_no_length_is_written_over() {
    let device = Sparse { memory: filled(), data: Vec::new() };
    struct Empty(Sparse);
    impl Device for Empty {
        fn capabilities(&self) -> Capabilities {
            self.0.capabilities()
        }
        fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
            self.0.run(batch)
        }
        fn set_len(&self, len: u64) -> Result<(), DeviceError> {
            self.0.set_len(len)
        }
        fn describe(&self) -> String {
            self.0.describe()
        }
        fn data_from(&self, offset: u64) -> Result<Option<Range<u64>>, DeviceError> {
            Ok(Some(offset..offset))
        }
    }
    let device = Empty(device);
    write_zeroes(&device, 0, 5000, true).expect("room");
    assert!(device.0.memory.image()[..5000].iter().all(|&byte| byte == 0));
    assert_eq!(block_status(&device, 0, 10, false).expect("power").len(), 4 + 8);
}

#[test]
fn what_fua_writes_no_power_cut_takes_back() {
    for command in [
        Command::Write { offset: 4096, len: 4096, durable: true },
        zeroes(4096, 4096, false, true),
        Command::Trim { offset: 0, len: 512, durable: true },
    ] {
        let memory = Arc::new(filled());
        let mut buffer = Buffer::new();
        buffer.take(4096).fill(9);
        let export = Export::new(Arc::clone(&memory) as Arc<dyn Device>);
        carry_out(&export, command, &mut buffer).expect("power");
        let before = memory.image();
        for seed in 0..30 {
            memory.power_cut(seed);
        }
        assert!(memory.image() == before, "{command:?}");
        // The same without it is taken back by some cut.
        if let Command::Write { offset, len, .. } = command {
            buffer.take(4096).fill(8);
            let lazy = Command::Write { offset, len, durable: false };
            let lost = (0..30).any(|seed| {
                carry_out(&export, lazy, &mut buffer).expect("power");
                memory.power_cut(seed);
                memory.image()[offset as usize] != 8
            });
            assert!(lost);
        }
    }
}

#[test]
fn a_flush_that_fails_is_an_error_of_what_had_to_be_durable() {
    let memory = Arc::new(filled());
    memory.inject(Injection {
        operation: Operation::Flush,
        after: 0,
        count: u64::MAX,
        fault: Fault::Error(DeviceErrorKind::NoSpace),
    });
    let export = Export::new(Arc::clone(&memory) as Arc<dyn Device>);
    let error = carry_out(&export, zeroes(0, 512, false, true), &mut Buffer::new()).expect_err("no flush");
    assert_eq!(error_number(&error), ErrorNumber::NoSpace);
    let error = carry_out(&export, Command::Flush, &mut Buffer::new()).expect_err("none afterwards");
    assert_eq!(error_number(&error), ErrorNumber::Io);
}

#[test]
fn holes_and_data_are_told_up_to_the_end_of_what_was_asked() {
    let device = Sparse { memory: MemoryDevice::new(LEN), data: vec![100..200, 300..LEN] };
    let told = |offset, len, one| {
        let payload = block_status(&device, offset, len, one).expect("power");
        assert_eq!(payload[..4], BASE_ALLOCATION_ID.to_be_bytes());
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four"));
        payload[4..].chunks(8).map(|pair| (word(&pair[..4]), word(&pair[4..]))).collect::<Vec<_>>()
    };
    assert_eq!(told(50, 300, false), [(50, 3), (100, 0), (100, 3), (50, 0)]);
    assert_eq!(told(50, 300, true), [(50, 3)]);
    assert_eq!(told(120, 50, false), [(50, 0)]);
}

#[test]
fn a_buffer_gives_back_what_only_a_large_request_needs() {
    let mut buffer = Buffer::new();
    buffer.take(100).fill(1);
    assert_eq!(buffer.filled(100), [1; 100]);
    buffer.take(8 << 20);
    buffer.shrink();
    assert!(buffer.0.is_empty());
    buffer.take(Buffer::KEPT_BYTES);
    buffer.shrink();
    assert_eq!(buffer.0.len(), Buffer::KEPT_BYTES);
}
