//! A fingerprint of the sources that decide what comes out of a run in virtual time, for results that are
//! kept (`SOURCES` in `src/lib.rs`): the engine, the fragment cache, the models of devices and drives, traces
//! and workloads, and the simulator. It is the same from a checkout and from a released archive. Which
//! versions of libraries and of the compiler there are is not in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files and folders, relative to this crate, where cargo runs this.
const SOURCES: [&str; 10] = [
    "../device/models",
    "../device/src",
    "../engine/src",
    "../fragment/src",
    "../ground/src",
    "../ssd/src",
    "../trace/src",
    "../workload/src",
    "src",
    "src/experiment/runs.rs",
];

/// What of them has no part in a run: the crash worlds, three-tier caches, and what is made of figures when
/// they are there.
const APART: [&str; 3] = ["src/crash", "src/experiment", "src/three_tier.rs"];

/// FNV-1a: stable across builds, which the standard library's hashers do not promise.
struct Fingerprint(u64);

impl Fingerprint {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

fn main() -> io::Result<()> {
    let mut fingerprint = Fingerprint(0xcbf2_9ce4_8422_2325);
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        take(Path::new(source), &mut fingerprint)?;
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=MEZZANINE_SIM_CODE={:016x}", fingerprint.0);
    Ok(())
}

/// Takes in a file, or those of a folder in the order of their names.
fn take(path: &Path, fingerprint: &mut Fingerprint) -> io::Result<()> {
    if path.is_dir() {
        let mut inside = fs::read_dir(path)?
            .map(|entry| Ok(path.join(entry?.file_name())))
            .collect::<io::Result<Vec<PathBuf>>>()?;
        inside.retain(|path| !APART.iter().any(|apart| path == Path::new(apart)));
        inside.sort();
        return inside.iter().try_for_each(|path| take(path, fingerprint));
    }
    if path.extension().is_none_or(|extension| extension != "rs" && extension != "toml") {
        return Ok(());
    }
    let mut text = fs::read(path)?;
    // Some checkouts end lines in two bytes.
    text.retain(|byte| *byte != b'\r');
    let name: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    fingerprint.add(name.join("/").as_bytes());
    fingerprint.add(&(text.len() as u64).to_le_bytes());
    fingerprint.add(&text);
    Ok(())
}
