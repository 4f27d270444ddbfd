//! Requests on a device, without the kernel: that is in `guest/run`.
#![allow(clippy::unwrap_used)]

use mezzanine_device::MemoryDevice;
use mezzanine_device::memory::{Fault, Injection, Operation as Failing};

use super::*;

const LEN: u64 = 1 << 20;

fn asked(
    device: &MemoryDevice,
    operation: Operation,
    offset: u64,
    buffer: &mut [u8],
) -> Result<i32, Refused> {
    let options = UblkOptions { zeroes_are_holes: true, ..UblkOptions::default() };
    let descriptor = Descriptor { operation, offset, len: 4096 };
    carry_out(device, &options, descriptor, buffer)
}

#[test]
fn what_moves_bytes_says_how_many_and_what_is_durable_survives_a_power_cut() {
    let device = MemoryDevice::file(LEN);
    let write =
        |durable: bool, value: u8| asked(&device, Operation::Write { durable }, 8192, &mut [value; 4096]);
    assert!(matches!(write(false, 1), Ok(4096)) && device.unflushed() > 0);
    assert!(matches!(asked(&device, Operation::Flush, 0, &mut []), Ok(0)) && device.unflushed() == 0);
    for value in 2..10 {
        assert!(matches!(write(true, value), Ok(4096)));
        device.power_cut(value.into());
        let mut found = [0; 4096];
        assert!(matches!(asked(&device, Operation::Read, 8192, &mut found), Ok(4096)));
        assert_eq!(found, [value; 4096]);
    }
    let zeroes = Operation::WriteZeroes { durable: true, may_punch: true };
    assert!(matches!(asked(&device, zeroes, 8192, &mut []), Ok(0)));
    device.power_cut(1);
    assert_eq!(device.image()[8192..12288], [0; 4096]);
}

#[test]
fn what_is_too_long_or_unknown_does_not_reach_the_device() {
    let device = MemoryDevice::file(LEN);
    let before = device.image();
    let write = Operation::Write { durable: false };
    assert!(matches!(asked(&device, write, 0, &mut [1; 4095]), Err(Refused::TooLong)));
    assert!(matches!(asked(&device, Operation::Unknown(15), 0, &mut [1; 4096]), Err(Refused::Unknown)));
    assert_eq!(device.image(), before);
}

#[test]
fn what_the_device_fails_is_told_and_has_an_error_number() {
    let failures = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&failures);
    let device = Arc::new(MemoryDevice::file(LEN));
    let serving = Serving {
        device: Arc::clone(&device) as _,
        options: UblkOptions {
            on_failure: Box::new(move |_| *counted.lock().unwrap() += 1),
            ..Default::default()
        },
        gate: Gate::default(),
        pending: Mutex::default(),
        arrived: Condvar::new(),
        answers: Mutex::default(),
        waker: Waker::new().unwrap(),
    };
    for (kind, number) in
        [(DeviceErrorKind::NoSpace, 28), (DeviceErrorKind::Io, 5), (DeviceErrorKind::ReadOnly, 5)]
    {
        device.inject(Injection { operation: Failing::Write, after: 0, count: 1, fault: Fault::Error(kind) });
        let write = Descriptor { operation: Operation::Write { durable: false }, offset: 0, len: 4096 };
        assert_eq!(serving.carry_out(write, &mut AlignedBuf::zeroed(4096)), -number, "{kind:?}");
    }
    assert_eq!(*failures.lock().unwrap(), 3);
}

#[test]
fn requests_are_answered_under_their_tags_and_none_reaches_the_device_behind_a_closed_gate() {
    let device = Arc::new(MemoryDevice::file(LEN));
    let serving = Arc::new(Serving {
        device: Arc::clone(&device) as _,
        options: UblkOptions::default(),
        gate: Gate::default(),
        pending: Mutex::default(),
        arrived: Condvar::new(),
        answers: Mutex::default(),
        waker: Waker::new().unwrap(),
    });
    let ask = |tag: u16, value: u8| {
        let operation = Operation::Write { durable: false };
        let descriptor = Descriptor { operation, offset: u64::from(tag) * 512, len: 512 };
        let buffer = AlignedBuf::copy_of(&[value; 512]);
        locked(&serving.pending).requests.push_back(Request { tag, descriptor, buffer });
        serving.arrived.notify_one();
    };
    let answered = |count: usize| {
        while locked(&serving.answers).len() < count {
            thread::yield_now();
        }
        let mut answers = std::mem::take(&mut *locked(&serving.answers));
        answers.sort_by_key(|answer| answer.tag);
        answers.iter().map(|answer| (answer.tag, answer.result)).collect::<Vec<_>>()
    };
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let serving = Arc::clone(&serving);
            thread::spawn(move || serving.carry_out_requests())
        })
        .collect();
    (0..20).for_each(|tag| ask(tag, tag as u8 + 1));
    assert_eq!(answered(20), (0..20).map(|tag| (tag, 512)).collect::<Vec<_>>());
    serving.gate.close(std::time::Duration::ZERO);
    ask(0, 99);
    assert_eq!(answered(1), [(0, -5)]);
    assert_eq!(device.image()[..512], [1; 512]);
    assert_eq!(device.image()[19 * 512..20 * 512], [20; 512]);
    serving.end();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
