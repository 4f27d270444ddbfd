//! A server's marker comes wrong from the disk, once or for good.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use machine::{Kept, Machine, checkpoint, give_memory, read, start, write};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::SyncMode;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::marker::{Marker, MarkerStore};
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::startup::Adoption;

mod machine;

const FLASH_BYTES: u64 = 16 << 20;
/// How a marker of a tier that was given up looked before markers had a checksum.
const UNCHECKED: &str = "# Says which flash tier holds pages of this cluster.\nformat = 1\n\
                         tier = \"07070707070707070707070707070707\"\nflash_path = \"/flash\"\n\
                         only_copies = false\ngiven_up = true\n";

/// A marker of which one bit is another in the next reads.
#[derive(Clone)]
struct Rotten {
    kept: Kept,
    /// Which bit of the text.
    bit: usize,
    reads_left: Arc<AtomicU32>,
}

impl Rotten {
    fn new(kept: &Kept, bit: usize, reads: u32) -> Self {
        Self { kept: kept.clone(), bit, reads_left: Arc::new(AtomicU32::new(reads)) }
    }
}

impl MarkerStore for Rotten {
    fn describe(&self) -> String {
        "data/mezzanine.tier".to_owned()
    }

    fn read(&self) -> io::Result<Option<String>> {
        let Some(text) = self.kept.read()? else { return Ok(None) };
        let rots =
            self.reads_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if rots.is_err() {
            return Ok(Some(text));
        }
        let mut bytes = text.into_bytes();
        bytes[self.bit / 8] ^= 1 << (self.bit % 8);
        String::from_utf8(bytes).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        self.kept.replace(text)
    }
}

/// The bit in which the key `given_up` becomes another one, and so what it says is nobody's.
fn bit_of_given_up(marker: &Kept) -> usize {
    marker.read().unwrap().unwrap().find("given_up").unwrap() * 8
}

fn open(machine: &Machine, flash: &Arc<MemoryDevice>, marker: impl MarkerStore + 'static) -> Host {
    let flash: Arc<dyn Device> = Arc::<MemoryDevice>::clone(flash);
    let server = Box::new(machine::Relations(Arc::clone(&machine.disk)));
    let mut host = Host::on_device(machine.settings(), flash, Box::new(marker), server).unwrap();
    give_memory(&mut host);
    host
}

/// A server that went on without its tier, whose device failed, and the device as it comes back: with a page
/// that disk has newer.
fn given_up() -> (Machine, Arc<MemoryDevice>, Kept) {
    let machine = Machine::new(SyncMode::Durable);
    let (flash, marker) = (Arc::new(MemoryDevice::new(FLASH_BYTES)), Kept::default());
    let host = open(&machine, &flash, marker.clone());
    host.start(&start(10)).unwrap();
    write(&host, 1, 1);
    checkpoint(&host, 20);
    drop(host);
    Marker::read(&marker).unwrap().unwrap().of_given_up().write(&marker).unwrap();
    machine.disk.pages.lock().unwrap().insert(*machine::id(1).as_bytes(), machine::page(2));
    (machine, flash, marker)
}

/// Starts the server, with one bit of its marker another one in so many reads: the version of the page that
/// it reads then.
fn started(reads: u32) -> Result<Option<u8>, Refusal> {
    let (machine, flash, marker) = given_up();
    let host = open(&machine, &flash, Rotten::new(&marker, bit_of_given_up(&marker), reads));
    let started = host.start(&start(20))?;
    assert!(matches!(started.adoption, Adoption::Adopted | Adoption::Formatted), "{:?}", started.adoption);
    Ok(read(&host, &machine, 1))
}

fn refused_by_name(refused: &Refusal) {
    assert!(refused.message.contains("data/mezzanine.tier"), "{refused}");
    assert!(refused.message.contains("damaged"), "{refused}");
    assert!(refused.hint.contains("Restore it from a backup"), "{refused}");
}

/// It was so once that a marker was believed after one read, and had nothing by which rot could be told. With
/// one bit of it wrong a tier that was given up counted again, and the server read a page as it had been
/// before.
#[test]
fn one_wrong_bit_of_the_marker_makes_no_page_older() {
    only_with(&[Bug::MarkerBelieved], || {
        let rotten = started(u32::MAX);
        if let Err(refused) = &rotten {
            refused_by_name(refused);
        }
        // Once, it costs nothing.
        rotten.is_err() && started(1).unwrap() == Some(2)
    });
    assert_eq!(started(0).unwrap(), Some(2));
}

#[test]
fn no_bit_of_the_marker_may_be_another() {
    let (_machine, _flash, marker) = given_up();
    let good = Marker::read(&marker).unwrap();
    for bit in 0..marker.read().unwrap().unwrap().len() * 8 {
        let refused = Marker::read(&Rotten::new(&marker, bit, u32::MAX)).expect_err("a rotten marker");
        assert!(refused.message.contains("data/mezzanine.tier"), "bit {bit}: {refused}");
        assert_eq!(Marker::read(&Rotten::new(&marker, bit, 1)).unwrap(), good, "bit {bit}, once");
    }
}

#[test]
fn nor_may_it_be_cut_short() {
    let (_machine, _flash, marker) = given_up();
    let text = marker.read().unwrap().unwrap();
    for len in 0..text.len() {
        marker.replace(&text[..len]).unwrap();
        Marker::read(&marker).expect_err("a marker that was cut short");
    }
}

/// What each read of a marker brings, in turn.
struct Reads(Mutex<VecDeque<Option<String>>>);

impl Reads {
    fn new(texts: &[Option<&str>]) -> Self {
        Self(Mutex::new(texts.iter().map(|text| text.map(str::to_owned)).collect()))
    }
}

impl MarkerStore for Reads {
    fn describe(&self) -> String {
        "marker".to_owned()
    }

    fn read(&self) -> io::Result<Option<String>> {
        Ok(self.0.lock().unwrap().pop_front().expect("no more than two reads"))
    }

    fn replace(&self, _text: &str) -> io::Result<()> {
        unreachable!("it is only read")
    }
}

#[test]
fn one_without_a_checksum_is_read_twice() {
    let other = UNCHECKED.replace("given_up", "fiven_up");
    let read = |texts: &[Option<&str>]| Marker::read(&Reads::new(texts));
    assert!(read(&[Some(UNCHECKED), Some(UNCHECKED)]).unwrap().unwrap().given_up);
    assert!(read(&[Some(UNCHECKED), Some(&other)]).unwrap_err().message.contains("another one each time"));
    // What it says is written with a checksum from then on.
    let kept = Kept::default();
    kept.replace(UNCHECKED).unwrap();
    Marker::read(&kept).unwrap().unwrap().of_given_up().write(&kept).unwrap();
    assert!(kept.read().unwrap().unwrap().contains("format = 2"));
    assert!(Marker::read(&kept).unwrap().unwrap().given_up);
}

#[test]
fn one_that_is_damaged_and_gone_is_no_marker_that_there_never_was() {
    assert_eq!(Marker::read(&Reads::new(&[None])).unwrap(), None);
    let refused = Marker::read(&Reads::new(&[Some(""), None])).unwrap_err();
    assert!(refused.message.contains("it was there, and is gone"), "{refused}");
}
