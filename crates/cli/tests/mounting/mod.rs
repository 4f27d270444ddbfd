//! What tests need that mount file systems.

use std::path::Path;
use std::process::Command;

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| String::from_utf8_lossy(&id.stdout).trim() == "0")
}

/// Why it cannot be tried here, with these programs.
pub(crate) fn missing(programs: &[&str]) -> Option<String> {
    let is_there = |program: &&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        found.is_ok_and(|found| found.status.success())
    };
    if !is_root() {
        return Some("only root makes loop devices".to_owned());
    }
    if let Some(program) = programs.iter().find(|program| !is_there(program)) {
        return Some(format!("{program} is not installed"));
    }
    let devices = ["/dev/fuse", "/dev/loop-control"];
    let device = devices.iter().find(|device| !Path::new(device).exists());
    device.map(|device| format!("there is no {device}"))
}

/// What a program says that succeeds.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
