//! A host in a process of its own on files, killed with signal 9.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, thread};

use mezzanine_cached::{FileVoucher, Settings};
use mezzanine_device::{Device, FileDevice, OpenOptions};
use mezzanine_ground::random::Random;

use crate::life::{self, Devices, FRAGMENT, FRAGMENTS, Model, Opened, VOLUMES};

const FOLDER: &str = "MEZZANINE_KILLED_FOLDER";
const KILLS: u64 = 12;

fn devices(folder: &Path) -> Devices {
    let file = |name: &str, len: u64| -> Arc<dyn Device> {
        let options =
            OpenOptions { len: Some(len), exclusive_lock: true, ..OpenOptions::read_write_create() };
        Arc::new(FileDevice::open(folder.join(name), &options).unwrap())
    };
    Devices {
        flash: file("flash", life::cache_bytes()),
        disks: (0..VOLUMES).map(|n| file(&format!("disk{n}"), FRAGMENTS * FRAGMENT)).collect(),
        settings: Settings::default(),
    }
}

fn open(folder: &Path, devices: &Devices, number: u64) -> Opened {
    let vouches = |opening| FileVoucher::vouches(folder, opening).unwrap();
    life::open(devices, number, vouches, |opening| Box::new(FileVoucher::issue(folder, opening).unwrap()))
}

/// What the process that is killed does; nothing, unless it is started for that.
#[test]
fn a_process_that_works_until_it_is_killed() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else { return };
    let number: u64 = env::var("MEZZANINE_LIFE").unwrap().parse().unwrap();
    let devices = devices(&folder);
    let opened = open(&folder, &devices, number);
    assert!(opened.was_vouched, "life {number}");
    opened.check(&devices, None, "opened after a kill");
    // What the files have is what has been written, as far as this process knows.
    let model = Model::new();
    let known = |volume: usize, block: u64, version| {
        model.begun[life::index(volume, block)].store(version, std::sync::atomic::Ordering::SeqCst);
        model.ended[life::index(volume, block)].store(version, std::sync::atomic::Ordering::SeqCst);
    };
    let mut version = [0; 8];
    for volume in 0..VOLUMES {
        for block in 0..FRAGMENTS * life::BLOCKS {
            opened.volumes[volume].read_at(&mut version, block * life::BLOCK).unwrap();
            known(volume, block, u64::from_le_bytes(version));
        }
    }
    println!("\nworking {} {} {}", opened.found.fragments, opened.found.unstable, opened.opening);
    thread::scope(|scope| {
        let (opened, model) = (&opened, &model);
        for writer in 0..2 {
            scope.spawn(move || opened.write(writer, 2, number << 8 | writer, model, || false));
        }
        scope.spawn(move || opened.read(number << 8 | 9, model, || false));
    });
    unreachable!("nobody has killed it, and a request has failed");
}

#[test]
fn a_process_that_is_killed_leaves_a_warm_cache() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("killed-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    life::make(&*devices(&folder).flash);
    let mut random = Random::new(3);
    let (mut warm, mut unstable, mut number) = (Vec::new(), 0, 0);
    // How many settle between two kills is a matter of how fast the machine is, and most are written to
    // again.
    let enough = |warm: &[u64], unstable: u64| warm.iter().sum::<u64>() > KILLS / 2 && unstable > 0;
    while number < KILLS || !enough(&warm, unstable) && number < 20 * KILLS {
        number += 1;
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["kill::a_process_that_works_until_it_is_killed", "--exact", "--nocapture"])
            .env(FOLDER, &folder)
            .env("MEZZANINE_LIFE", number.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // It works, when it says so.
        let said = lines.find_map(|line| line.unwrap().strip_prefix("working ").map(str::to_owned));
        let said = said.unwrap_or_else(|| panic!("life {number} ended early: {:?}", child.wait()));
        let counts: Vec<u64> = said.split(' ').take(2).map(|count| count.parse().unwrap()).collect();
        warm.push(counts[0]);
        unstable += counts[1];
        // Longer and longer, where little happens in such a time.
        let longer = 1 + (number - 1) / KILLS;
        thread::sleep(Duration::from_millis(random.between(30, 300) * longer));
        assert!(child.try_wait().unwrap().is_none(), "life {number} has ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let devices = devices(&folder);
    let opened = open(&folder, &devices, number + 1);
    opened.check(&devices, None, "at the end");
    warm.push(opened.found.fragments);
    println!(
        "{number} kills of a cache of {} slots: warm {warm:?}, {unstable} fragments were dropped",
        life::SLOTS
    );
    assert!(enough(&warm, unstable), "warm {warm:?}, dropped {unstable}");
    drop((opened, devices));
    fs::remove_dir_all(&folder).unwrap();
}
