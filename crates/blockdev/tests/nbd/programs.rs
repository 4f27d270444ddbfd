//! Other people's clients, where they are installed: libnbd's, QEMU's, fio's.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use mezzanine_blockdev::nbd::{Export, Limits};
use mezzanine_device::{Device, FileDevice, OpenOptions};
use mezzanine_ground::random::Random;

use crate::{Served, memory};

const MIB: u64 = 1 << 20;

/// What a program says, if it is there and does what it is told; one that is missing is named.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    let output = match Command::new(program).args(arguments).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is not installed");
            return None;
        }
        output => output.unwrap(),
    };
    let text = [&output.stdout[..], &output.stderr].concat();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&text));
    Some(output)
}

fn uri(socket: &Path, name: &str) -> String {
    format!("nbd+unix:///{name}?socket={}", socket.display())
}

#[test]
fn nbdinfo_sees_what_is_served() {
    let exports = vec![
        Export { name: "one".to_owned(), minimum_block: 512, ..Export::new(memory(MIB)) },
        Export { name: "two".to_owned(), read_only: true, rotational: true, ..Export::new(memory(2 * MIB)) },
    ];
    let served = Served::new(exports, Limits::default());
    let Some(output) = run("nbdinfo", &["--json", &uri(&served.socket, "one")]) else { return };
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "\"protocol\": \"newstyle-fixed\"",
        "\"export-size\": 1048576",
        "\"structured\": true",
        "\"description\": \"simulated drive\"",
        "\"can_multi_conn\": true",
        "\"can_fua\": true",
        "\"can_df\": true",
        "\"can_cache\": true",
        "\"block_size_minimum\": 512",
        "\"block_size_maximum\": 33554432",
        "\"base:allocation\"",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    let output = run("nbdinfo", &["--list", "--json", &uri(&served.socket, "")]).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["\"export-name\": \"two\"", "\"is_read_only\": true", "\"is_rotational\": true"] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
}

/// A file with holes goes in and comes out again; what was a hole takes no space.
#[test]
fn nbdcopy_brings_back_what_it_took() {
    let served = Served::of(memory(0));
    let directory = served.directory();
    let (there, back) = (directory.join("there"), directory.join("back"));
    let mut bytes = vec![0; 16 << 20];
    let mut random = Random::new(2);
    bytes[1 << 20..3 << 20].iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
    bytes[9 << 20..(9 << 20) + 4096].fill(5);
    std::fs::write(&there, &bytes).unwrap();
    let options = OpenOptions { len: Some(16 * MIB), ..OpenOptions::read_write_create() };
    let path = directory.join("image");
    let file = Arc::new(FileDevice::open(&path, &options).unwrap());
    let export = Export { zeroes_are_holes: true, ..Export::new(file) };
    let served = Served::new(vec![export], Limits::default());
    let uri = uri(&served.socket, "");
    let (there, back) = (there.display().to_string(), back.display().to_string());
    if run("nbdcopy", &["--connections=4", "--flush", &there, &uri]).is_none() {
        return;
    }
    run("nbdcopy", &["--connections=4", &uri, &back]).unwrap();
    assert!(std::fs::read(&back).unwrap() == bytes);
    assert!(std::fs::read(&path).unwrap() == bytes);
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap());
    assert!(blocks * 512 < 12 << 20, "{blocks} blocks of 16 MiB, most of them zeros");
}

#[test]
fn qemu_io_reads_writes_zeroes_and_gives_up_ranges() {
    let device = memory(8 * MIB);
    let served = Served::of(Arc::clone(&device) as Arc<dyn Device>);
    let uri = uri(&served.socket, "");
    let commands = [
        "write -P 1 0 1M",
        "write -f -P 2 4k 4k",
        "writev -P 3 64k 4k 4k",
        "write -z 512k 64k",
        "aio_write -P 4 2M 1M",
        "aio_read -P 1 128k 64k",
        "aio_flush",
        "discard 3M 1M",
        "flush",
        "read -P 2 4k 4k",
        "read -P 3 64k 8k",
        "read -P 0 512k 64k",
        "read -P 4 2M 1M",
    ];
    let mut arguments = vec!["-f", "raw", &uri];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    let Some(output) = run("qemu-io", &arguments) else { return };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("failed"), "{text}");
    assert_eq!(device.unflushed(), 0, "it flushes at the end");
    device.view(|image| assert!(image.range(4096..8192).iter().all(|&byte| byte == 2)));
}

/// What fio has written at random with many requests under way it finds again.
#[test]
fn fio_verifies_what_it_has_written() {
    let served = Served::of(memory(16 * MIB));
    let engines = Command::new("fio").arg("--enghelp").output();
    if !engines.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("nbd")) {
        println!("skipped: fio with its nbd engine is not installed");
        return;
    }
    let uri = format!("--uri={}", uri(&served.socket, ""));
    for (name, load) in [
        ("random", ["--rw=randwrite", "--bsrange=512-64k", "--blockalign=512", "--fsync=32"]),
        ("sequential", ["--rw=write", "--bs=128k", "--fsync=8", "--verify_pattern=0xdeadbeef"]),
    ] {
        let state = served.directory().display().to_string();
        let name = format!("--name={name}");
        let mut arguments = vec![&*name, "--ioengine=nbd", &uri, "--iodepth=16", "--size=16m"];
        let aux = format!("--aux-path={state}");
        let verify = if name.ends_with("random") { "--verify=crc32c" } else { "--verify=pattern" };
        arguments.extend(load);
        arguments.extend([verify, "--verify_fatal=1", "--do_verify=1", "--verify_state_save=0", &aux]);
        let output = run("fio", &arguments).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("err= 0"), "{text}");
        assert!(text.contains("READ:"), "it has read what it wrote: {text}");
    }
}

/// As a program in Python sees it, with libnbd's own checks of what clients may do.
#[test]
fn nbdsh_finds_the_errors_that_the_protocol_promises() {
    let exports = vec![Export { minimum_block: 512, ..Export::new(memory(MIB)) }];
    let served = Served::new(exports, Limits::default());
    let script = r#"
h.set_strict_mode(0)
import errno
def fails(call, number):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, error
    else:
        raise SystemExit("it did not fail")
h.pwrite(b"1" * 512, 512, nbd.CMD_FLAG_FUA)
assert h.pread(1024, 0) == bytearray(512) + b"1" * 512
fails(lambda: h.pread(512, 1), errno.EINVAL)
fails(lambda: h.pread(512, 1 << 20), errno.EINVAL)
fails(lambda: h.pwrite(b"2" * 512, 1 << 20), errno.ENOSPC)
h.zero(512, 512)
h.trim(512, 0)
h.cache(1024, 0)
h.flush()
h.shutdown()
print("all as promised")
"#;
    // The program `nbdsh` takes the first Python on the path, which need not be the one with the module.
    let has_module = |python: &&str| {
        let tried = Command::new(python).args(["-c", "import nbd"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_module) else {
        println!("skipped: nbdsh (libnbd's module for Python) is not installed");
        return;
    };
    let output = run(python, &["-m", "nbd", "-u", &uri(&served.socket, ""), "-c", script]).unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("all as promised"));
}
