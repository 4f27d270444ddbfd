//! A process that is stopped while a write waits for its mark, for longer than a mark may take: what the
//! cache device has not done meanwhile is not its fault.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, thread};

use mezzanine_cached::{Settings, Survival};
use mezzanine_device::{Device, MemoryDevice};

use crate::held::{IfItFails, Shared, Sticky, Stubborn, wait};
use crate::life::{self, BLOCK, Devices, FRAGMENT, FRAGMENTS, VOLUMES};

const STOPPED: &str = "MEZZANINE_STOPPED";
/// What a mark may take of the time that the process runs.
const MARK_WITHIN: Duration = Duration::from_secs(8);
/// So long it does not run.
const STOPPED_FOR: Duration = Duration::from_secs(10);

/// What the process does that is stopped; nothing, unless it is started for that.
#[test]
fn a_process_that_is_stopped_while_a_write_waits() {
    if env::var_os(STOPPED).is_none() {
        return;
    }
    let flash = Sticky::new(life::cache_bytes());
    let disks = (0..VOLUMES).map(|_| Arc::new(MemoryDevice::new(FRAGMENTS * FRAGMENT)) as _).collect();
    let settings = Settings { mark_within: MARK_WITHIN, ..Settings::default() };
    let devices = Devices { flash: Arc::clone(&flash) as _, disks, settings };
    life::make(&*flash);
    let voucher = Arc::new(Stubborn::default());
    let opened = life::open(&devices, 1, |_| false, |_| Box::new(Shared(Arc::clone(&voucher))));
    wait("a settled fragment", || {
        opened.volumes[0].read_at(&mut [0; BLOCK as usize], 0).unwrap();
        let found = opened.cache.statistics().engine;
        found.settled > 0 && found.unstable == 0
    });
    flash.hold(true);
    thread::scope(|scope| {
        let _failed = IfItFails(|| flash.hold(false));
        scope.spawn(|| opened.volumes[0].write_at(&[7; BLOCK as usize], 0).unwrap());
        wait("a write that waits", || opened.cache.statistics().writes_waiting == 1);
        println!("\nwaiting");
        // The device answers as soon as the process goes on.
        let begun = Instant::now();
        let mut last = begun;
        loop {
            thread::sleep(Duration::from_millis(5));
            let now = Instant::now();
            if now - last > STOPPED_FOR / 2 {
                break;
            }
            last = now;
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody stops it");
        }
        flash.hold(false);
    });
    println!("survives {}", opened.cache.statistics().survival == Survival::Crash);
}

fn signal(child: u32, name: &str) {
    assert!(Command::new("kill").args([name, &child.to_string()]).status().unwrap().success());
}

#[test]
fn a_process_that_was_stopped_keeps_its_cache() {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["stopped::a_process_that_is_stopped_while_a_write_waits", "--exact", "--nocapture"])
        .env(STOPPED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line == "waiting"));
    signal(child.id(), "-STOP");
    thread::sleep(STOPPED_FOR);
    signal(child.id(), "-CONT");
    let said = lines.find(|line| line.starts_with("survives"));
    assert!(child.wait().unwrap().success());
    assert_eq!(said.as_deref(), Some("survives true"));
}
