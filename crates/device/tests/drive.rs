//! Modelled drives in real time, alone and shared by processes. Times are compared loosely: a busy machine
//! may be late, but never early.
#![allow(clippy::unwrap_used)]

mod scratch;

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mezzanine_device::{
    Attachment, Device, DeviceErrorKind, DirectIo, Drive, FileDevice, MemoryDevice, OpenOptions, Request,
    model,
};
use mezzanine_ground::random::Random;
use scratch::Scratch;

fn drive(name: &str, scale: f64) -> Arc<Drive> {
    Drive::open_shared(model::find(name).unwrap(), None, scale).unwrap()
}

fn memory(len: u64) -> Arc<dyn Device> {
    Arc::new(MemoryDevice::new(len))
}

#[test]
fn an_operation_is_never_complete_before_the_model_says_so() {
    let drive = drive("cloud-volume", 1.0);
    let device = drive.attach(memory(1 << 20), 0);
    let began = Instant::now();
    for page in 0..20 {
        device.write_at(&[page as u8; 4096], page * 4096).unwrap();
    }
    assert!(began.elapsed() >= Duration::from_millis(20), "{:?}", began.elapsed());
    let statistics = drive.statistics();
    assert_eq!((statistics.writes, statistics.bytes_written), (20, 20 * 4096));
    assert_eq!(statistics.sequential_writes, 19);
    assert!((0.9..1.1).contains(&(statistics.write_response_us_mean() / 1000.0)), "{statistics:?}");
    let mut back = [0; 4096];
    device.read_at(&mut back, 4096 * 7).unwrap();
    assert_eq!(back, [7; 4096]);
}

#[test]
fn a_batch_enters_the_queue_at_once() {
    let drive = drive("cloud-volume", 1.0);
    let device = drive.attach(memory(1 << 20), 0);
    let buffer = [1; 4096];
    let mut batch: Vec<Request<'_>> = (0..9).map(|page| Request::write(&buffer, page * 8192)).collect();
    batch.push(Request::Flush);
    let began = Instant::now();
    assert!(device.run(&mut batch).iter().all(Result::is_ok));
    // Nine operations at 3,000 a second, the last with the rest of its millisecond: 3.7 ms and not 9 ms.
    assert!(began.elapsed() >= Duration::from_micros(3_600), "{:?}", began.elapsed());
    let statistics = drive.statistics();
    let mean = statistics.write_response_us_mean();
    assert!((2_000.0..2_700.0).contains(&mean), "mean {mean} us");
    assert_eq!(statistics.flushes, 1);
    assert!(matches!(batch[3], Request::Write { offset: 24_576, .. }), "the batch is left as it was");
}

/// The longest of them counts and not their sum, and a caller who comes late is not kept waiting.
#[test]
fn reads_ahead_pass_the_drives_time_together() {
    const READS: usize = 32;
    let drive = drive("nvme-local", 1000.0);
    let contents = memory(1 << 20);
    for page in 0..READS {
        contents.write_at(&[page as u8; 8192], page as u64 * 8192).unwrap();
    }
    let device = drive.attach(contents, 0);
    let mut ahead = device.reads_ahead(READS, 8192).unwrap();
    let began = Instant::now();
    (0..READS).for_each(|place| assert!(ahead.begin(place, place as u64 * 8192)));
    let begun = began.elapsed();
    for place in 0..READS {
        assert_eq!(ahead.finish(place), Some(&[place as u8; 8192][..]));
        assert_eq!(ahead.finish(place), None);
    }
    // A read takes 80 us, here 80 ms; one after the other they take 2.56 s.
    assert!(began.elapsed() >= Duration::from_millis(80), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_millis(1280), "{:?}", began.elapsed());
    assert!(begun < Duration::from_millis(1280), "nobody waits where they begin: {begun:?}");
    let before = drive.statistics();
    assert_eq!((before.reads, before.bytes_read), (READS as u64, READS as u64 * 8192));
    // What is taken long after is not taken late; what is given up was read all the same.
    assert!(ahead.begin(0, 0) && ahead.begin(1, 0));
    std::thread::sleep(Duration::from_millis(400));
    let asked = Instant::now();
    assert!(ahead.finish(0).is_some());
    let (took, after) = (asked.elapsed(), drive.statistics());
    assert_eq!(after.reads, before.reads + 2);
    let late = Duration::from_nanos((after.late_ns - before.late_ns) * 1000);
    assert!(late <= took, "late by {late:?} in a call of {took:?}");
}

#[test]
fn the_time_scale_can_be_changed_while_the_drive_runs() {
    let drive = drive("cheetah-15k", 0.0);
    let device = drive.attach(memory(1 << 20), 0);
    let began = Instant::now();
    for page in 0..200 {
        device.write_at(&[1; 4096], page * 4096).unwrap();
    }
    assert!(began.elapsed() < Duration::from_millis(500), "loading took {:?}", began.elapsed());
    assert_eq!(drive.statistics().operations(), 0, "what is not timed is not counted");
    // At a scale of 1,000 the read would take seconds; somebody lets it go.
    drive.set_time_scale(1000.0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| device.read_at(&mut [0; 4096], 1 << 19).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        drive.set_time_scale(0.0);
    });
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(began.elapsed() >= Duration::from_millis(100));
}

#[test]
fn a_disk_serves_a_deep_queue_faster_in_real_time_too() {
    // A tenth of real time, so that the test is short: the shape is what counts.
    let drive = drive("cheetah-15k", 0.1);
    let spread = drive.spread_to_cover(16 << 20, 1.0);
    let attachment = Attachment { spread, ..Attachment::default() };
    let device = drive.attach_as(memory(16 << 20), attachment);
    let mut numbers = Random::new(1);
    let mut per_second = |depth: usize, batches: usize| {
        let before = drive.statistics();
        for _ in 0..batches {
            let mut buffers = vec![[0_u8; 4096]; depth];
            let mut batch: Vec<Request<'_>> = buffers
                .iter_mut()
                .map(|buf| Request::Read { offset: numbers.below(4096) * 4096, buf })
                .collect();
            assert!(device.run(&mut batch).iter().all(Result::is_ok));
        }
        let after = drive.statistics().since(&before);
        assert_eq!(after.reads, (depth * batches) as u64);
        // By the busy time of the disk, so that a late machine does not count.
        after.reads as f64 * 1e9 / after.busy_ns as f64
    };
    let (lone, deep) = (per_second(1, 64), per_second(32, 8));
    assert!((150.0..230.0).contains(&lone), "{lone} reads a second at depth 1");
    assert!((250.0..450.0).contains(&deep), "{deep} reads a second at depth 32");
}

#[test]
fn a_database_that_keeps_to_a_small_part_of_the_disk_seeks_less() {
    let mean_us = |span: f64| {
        let drive = drive("cheetah-15k", 0.01);
        // As far apart as the part of the disk is wide, whatever that is.
        let spread = drive.spread_to_cover(16 << 20, span);
        let device = drive.attach_as(memory(16 << 20), Attachment { spread, span, ..Attachment::default() });
        let mut numbers = Random::new(3);
        let mut page = [0_u8; 4096];
        for _ in 0..300 {
            device.read_at(&mut page, numbers.below(4096) * 4096).unwrap();
        }
        let used = drive.statistics();
        used.busy_ns as f64 / used.reads as f64 / 1e3
    };
    let (whole, part) = (mean_us(1.0), mean_us(0.02));
    // Half a revolution is 2 ms; the seek of 3.4 ms shrinks with the root of the distance, to 0.2 + 3.2 *
    // 0.14 ms.
    assert!((4_700.0..6_300.0).contains(&whole), "{whole} us over the whole disk");
    assert!((2_200.0..3_400.0).contains(&part), "{part} us on a fiftieth of it");
}

#[test]
fn a_batch_larger_than_the_queue_of_the_drive_is_taken_in_parts() {
    let drive = drive("cheetah-15k-x4", 0.001);
    let device = drive.attach(memory(32 << 20), 0);
    let mut numbers = Random::new(2);
    let page = [3; 512];
    let mut batch: Vec<Request<'_>> =
        (0..2_000).map(|_| Request::write(&page, numbers.below(65_536) * 512)).collect();
    assert!(device.run(&mut batch).iter().all(Result::is_ok));
    let statistics = drive.statistics();
    assert_eq!((statistics.writes, statistics.bytes_written), (2_000, 2_000 * 512));
    assert!(statistics.write_response_ns > 0 && statistics.utilisation() > 0.0);
}

#[test]
fn devices_at_different_places_share_one_drive() {
    let drive = drive("cloud-volume", 1.0);
    let (first, second) = (drive.attach(memory(1 << 20), 0), drive.attach(memory(1 << 20), 1 << 30));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for device in [&first, &second] {
            scope.spawn(move || {
                let mut batch: Vec<Vec<u8>> = vec![vec![0; 4096]; 30];
                let mut batch: Vec<Request<'_>> =
                    batch.iter_mut().map(|buf| Request::Read { offset: 8192, buf }).collect();
                assert!(device.run(&mut batch).iter().all(Result::is_ok));
            });
        }
    });
    // Sixty operations at 3,000 a second for both together.
    assert!(began.elapsed() >= Duration::from_millis(20), "{:?}", began.elapsed());
    assert_eq!(drive.statistics().reads, 60);
}

const ROLE: &str = "MEZZANINE_DEVICE_TEST_ROLE";
const DIRECTORY: &str = "MEZZANINE_DEVICE_TEST_DIRECTORY";

/// Runs `child_process` of this test binary in a process of its own.
fn spawn(role: &str, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIRECTORY, directory)
        .spawn()
        .unwrap()
}

fn shared_drive(directory: &Path) -> Arc<Drive> {
    Drive::open_shared(model::find("cloud-volume").unwrap(), Some(&directory.join("state")), 1.0).unwrap()
}

fn shared_file(directory: &Path) -> Arc<dyn Device> {
    let options = OpenOptions { direct: DirectIo::Never, ..OpenOptions::read_write_create() };
    Arc::new(FileDevice::open(directory.join("bytes"), &options).unwrap())
}

/// Not a test of its own: what the processes started by other tests do.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let directory = std::path::PathBuf::from(std::env::var(DIRECTORY).unwrap());
    if role == "hot" {
        return use_until_killed(&directory);
    }
    let drive = shared_drive(&directory);
    let device = drive.attach(shared_file(&directory), 0);
    let number: u64 = role.parse().unwrap();
    let page = [number as u8; 4096];
    for round in 0..100 {
        device.write_at(&page, (number << 24) + round * 8192).unwrap();
    }
    if number == 9 {
        // Until somebody kills this process.
        loop {
            device.write_at(&page, 9 << 24).unwrap();
        }
    }
}

#[test]
fn processes_share_one_drive() {
    let scratch = Scratch::new("shared");
    let directory = scratch.path("");
    let drive = shared_drive(&directory);
    let children =
        [spawn("1", &directory), spawn("2", &directory), spawn("3", &directory), spawn("4", &directory)];
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let statistics = drive.statistics();
    assert_eq!((statistics.writes, statistics.bytes_written), (400, 400 * 4096));
    // 400 operations cost 133 ms of the shared channel, whoever asked for them.
    assert!((133_000_000..134_000_000).contains(&statistics.busy_ns), "{} ns busy", statistics.busy_ns);
    assert!(statistics.queue_depth_mean() > 0.0 && statistics.utilisation() < 1.0);
    let device = drive.attach(shared_file(&directory), 0);
    for number in 1..=4_u64 {
        let mut back = [0; 4096];
        device.read_at(&mut back, (number << 24) + 99 * 8192).unwrap();
        assert_eq!(back, [number as u8; 4096]);
    }
}

#[test]
fn a_killed_process_neither_hangs_the_others_nor_loses_what_had_completed() {
    let scratch = Scratch::new("killed");
    let directory = scratch.path("");
    let drive = shared_drive(&directory);
    let device = drive.attach(shared_file(&directory), 0);
    let mut child = spawn("9", &directory);
    let began = Instant::now();
    while drive.statistics().writes < 110 {
        assert!(began.elapsed() < Duration::from_secs(30), "the child does nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut back = [0; 4096];
    for round in 0..100 {
        device.read_at(&mut back, (9 << 24) + round * 8192).unwrap();
        assert_eq!(back, [9; 4096]);
    }
    device.flush().unwrap();
}

fn hot_drive(directory: &Path) -> Arc<Drive> {
    // So fast that its users spend their time under its lock.
    Drive::open_shared(model::find("cheetah-15k-x4").unwrap(), Some(&directory.join("hot")), 1e-5).unwrap()
}

fn use_until_killed(directory: &Path) {
    let drive = hot_drive(directory);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let device = drive.attach(memory(1 << 20), 0);
            scope.spawn(move || {
                let mut numbers = Random::new(thread);
                loop {
                    let mut buffers = [[0_u8; 512]; 8];
                    let mut batch: Vec<Request<'_>> = buffers
                        .iter_mut()
                        .map(|buf| Request::Read { offset: numbers.below(2048) * 512, buf })
                        .collect();
                    assert!(device.run(&mut batch).iter().all(Result::is_ok));
                }
            });
        }
    });
}

#[test]
fn users_killed_at_any_moment_leave_a_drive_that_works() {
    let scratch = Scratch::new("hot");
    let directory = scratch.path("");
    let drive = hot_drive(&directory);
    let device = drive.attach(memory(1 << 20), 0);
    let mut numbers = Random::new(20_261_120);
    for round in 0..15 {
        let mut children = [spawn("hot", &directory), spawn("hot", &directory)];
        let before = drive.statistics().reads;
        let began = Instant::now();
        while drive.statistics().reads < before + 200 {
            assert!(began.elapsed() < Duration::from_secs(30), "round {round}: nobody gets anything done");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(numbers.below(20_000)));
        for child in &mut children {
            child.kill().unwrap();
        }
        for _ in 0..50 {
            device.read_at(&mut [0; 512], numbers.below(2048) * 512).unwrap();
        }
        for child in &mut children {
            child.wait().unwrap();
        }
    }
}

#[test]
fn state_of_another_model_is_refused_while_it_is_in_use() {
    let scratch = Scratch::new("other-model");
    let path = scratch.path("state");
    let open = |name: &str| Drive::open_shared(model::find(name).unwrap(), Some(&path), 1.0);
    let first = open("cloud-volume").unwrap();
    first.set_time_scale(4.0);
    let error = open("cheetah-15k").err().unwrap();
    assert_eq!(error.kind(), DeviceErrorKind::InvalidState, "{error}");
    // The same model joins, and finds the time scale of the others.
    assert_eq!(open("cloud-volume").unwrap().time_scale(), 4.0);
    drop(first);
    // Nobody uses it any more: it starts afresh, whatever is in it.
    std::fs::write(&path, [0xff; 1000]).unwrap();
    assert_eq!(open("cheetah-15k").unwrap().time_scale(), 1.0);
}

#[test]
fn models_that_make_no_sense_are_refused_with_the_reason() {
    let text = include_str!("../models/samsung-840-pro.toml");
    assert!(model::Model::from_toml(text, "as shipped").is_ok());
    for (find, replace, reason) in [
        ("read_random_iops = 65_803", "read_random_iops = 0", "read_random_iops"),
        ("read_random_iops = 65_803", "read_random_iops = 1e9", "read_sequential_mb_per_s"),
        ("read_random_iops = 65_803", "read_random_iops = nan", "read_random_iops"),
        ("flush_us = 3820", "flush_us = -1", "flush_us"),
        ("flush_us = 3820", "flush_ms = 3.8", "flush_ms"),
        ("[drive]", "[disk]", "disk"),
        ("queue_depth = 32", "queue_depth = 1", "queue_depth"),
    ] {
        let error = model::Model::from_toml(&text.replace(find, replace), "changed").unwrap_err();
        assert_eq!(error.kind(), DeviceErrorKind::InvalidModel);
        assert!(error.to_string().contains(reason) && error.to_string().contains("changed"), "{error}");
    }
    let error = model::find("no-such-drive").unwrap_err();
    assert!(error.to_string().contains("samsung-840-pro"), "{error}");
    assert!(model::find("cheetah-15k-x33").is_err() && model::find("cheetah-15k-x0").is_err());
    assert_eq!(model::find("/nowhere/model.toml").unwrap_err().kind(), DeviceErrorKind::NotFound);
}
