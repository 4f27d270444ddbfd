//! A counter that is acknowledged before it is flushed, once.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use mezzanine_device::{Device, MemoryDevice};
use mezzanine_recording::{Cut, History, Recorder, Search, Verdict, explain};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let (recording, image) = (Path::new(&folder).join("counter.rec"), Path::new(&folder).join("counter.img"));
    let _ = fs::remove_file(&recording);
    let recorder = Recorder::begin(Arc::new(MemoryDevice::new(64 << 10)), &recording)?;
    for count in 1..=20_u64 {
        recorder.write_at(&count.to_le_bytes(), 512 * count)?;
        if count != 13 {
            recorder.flush()?;
        }
        recorder.mark(&count.to_string())?;
    }
    recorder.save()?;

    let history = History::open(&recording)?;
    // In order if every count that was marked is there.
    let mut judge = |cut: &Cut| -> std::io::Result<Verdict> {
        history.make(cut, &image)?;
        let contents = fs::read(&image)?;
        for (_, mark) in history.marks(cut.at)? {
            let count: usize = mark.parse().map_err(std::io::Error::other)?;
            if usize::from(contents[512 * count]) != count {
                return Ok(Verdict::Broken(format!("{count} is missing")));
            }
        }
        Ok(Verdict::InOrder)
    };
    for (tried, cut) in (1..=200).zip(Search::new(&history, 1)) {
        if judge(&cut)? != Verdict::InOrder {
            let explained = explain(&history, &cut, &mut judge)?;
            println!("cut {tried}: {}", explained.why);
            if let Some(absent) = explained.absent {
                let mark = history.marks(u64::MAX)?.into_iter().find(|(number, _)| *number == absent.before);
                println!("a flush is absent after event {:?} and before mark {mark:?}", absent.after);
            }
            break;
        }
    }
    fs::remove_file(&recording)?;
    fs::remove_file(&image)?;
    Ok(())
}
