//! Modelled drives with contents, whose power fails.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mezzanine_blockdev::nbd::Server;
use mezzanine_device::drive::{LosesPower, ModelledContents};
use mezzanine_device::memory::CutReport;
use mezzanine_device::model::{Mechanism, Model};
use mezzanine_device::{Device, MemoryDevice, PoweredDrive};
use mezzanine_ssd::{Loss, Ssd, SsdDevice};
use serde::Serialize;

use super::args::{Moment, ServeArgs};
use super::{IS_INTERRUPTED, LOOK_EVERY, image};
use crate::device::find_model;
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

/// What a volatile write cache holds of which nothing is known, in bytes.
const CACHE_BYTES: u64 = 32 << 20;

/// One power cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PowerCut {
    /// Since the drive had started.
    seconds: f64,
    writes: u64,
    seed: u64,
    #[serde(flatten)]
    taken: Taken,
}

/// What a power cut has taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Taken {
    /// Of the writes that were not durable.
    Writes { kept: u64, lost: u64, torn: u64 },
    /// Of the units that a drive maps: that have an older version, or none that was ever written.
    Units {
        older_units: u64,
        damaged_units: u64,
        /// Why the drive does not start any more.
        dead: Option<String>,
    },
}

/// A modelled drive that can be served.
pub(super) trait ServedDrive {
    fn device(&self) -> Arc<dyn Device>;

    fn is_rotational(&self) -> bool;

    fn has_power(&self) -> bool;

    /// Waits for the end, and cuts the power when its time has come.
    fn serve(&self, args: &ServeArgs, server: &Server) -> Result<Vec<PowerCut>, Failure>;

    /// Writes the contents to the image, if there is one.
    fn save(&self, args: &ServeArgs) -> Result<(), Failure>;
}

/// Contents that survive in an image.
trait Contents: LosesPower + 'static {
    fn taken(report: Self::Report) -> Taken;

    /// Whether nothing can be read any more.
    fn is_dead(&self) -> bool {
        false
    }

    /// Shows them from the first byte to the last.
    fn each_piece(&self, show: image::Show<'_>) -> io::Result<()>;
}

impl Contents for ModelledContents {
    fn taken(CutReport { kept, lost, torn }: CutReport) -> Taken {
        Taken::Writes { kept, lost, torn }
    }

    fn each_piece(&self, show: image::Show<'_>) -> io::Result<()> {
        self.memory().view(|image| image.pieces::<{ image::PIECE_BYTES }>().try_for_each(show))
    }
}

impl Contents for SsdDevice {
    fn taken(loss: Loss) -> Taken {
        Taken::Units { older_units: loss.older, damaged_units: loss.damaged, dead: loss.dead }
    }

    fn is_dead(&self) -> bool {
        Self::is_dead(self)
    }

    fn each_piece(&self, show: image::Show<'_>) -> io::Result<()> {
        let mut piece = vec![0; image::PIECE_BYTES];
        let mut unreadable = false;
        for at in (0..self.len()).step_by(piece.len()) {
            let piece_len = (self.len() - at).min(image::PIECE_BYTES as u64) as usize;
            unreadable |= self.peek(at, &mut piece[..piece_len]);
            show(&piece[..piece_len])?;
        }
        if unreadable {
            output::note("what the drive cannot read is zeros in the image");
        }
        Ok(())
    }
}

/// A drive, and the switch of its power.
struct ModelledDrive<D> {
    powered: Arc<PoweredDrive<D>>,
    rotational: bool,
}

pub(super) fn modelled(args: &ServeArgs) -> Result<Box<dyn ServedDrive>, Failure> {
    let model = find_model(args.model.as_deref().unwrap_or_default())?;
    let len = contents_len(args, &model)?;
    if args.inside {
        return Ok(Box::new(from_inside(args, &model, len)?));
    }
    let refused = |error: &dyn std::error::Error| Failure::refused(&model.name, chain(error));
    let cache_bytes = cache_bytes(args, &model)?;
    let rotational = matches!(model.mechanism, Mechanism::Hdd(_));
    let drive = mezzanine_ssd::open_drive(model.clone(), None, args.time_scale).map_err(|e| refused(&e))?;
    let contents = Arc::new(MemoryDevice::new(len));
    load(args, &*contents)?;
    let powered = Arc::new(PoweredDrive::new(&drive, contents, cache_bytes));
    Ok(Box::new(ModelledDrive { powered, rotational }))
}

/// A drive whose own controller has the contents.
fn from_inside(args: &ServeArgs, model: &Model, len: u64) -> Result<ModelledDrive<SsdDevice>, Failure> {
    let whole = Ssd::of_model(model).map_err(|error| Failure::refused(&model.name, chain(&error)))?;
    let Some(whole) = whole else {
        let failure = Failure::refused("--inside", format!("the model {} has no table [ssd]", model.name));
        return Err(failure.next("name one that has: durassd, ssd-a or ssd-b, or a file of your own"));
    };
    let unit = u64::from(whole.config().geometry.unit_bytes);
    if len % unit != 0 {
        let failure = Failure::refused("--size", format!("the drive maps units of {unit} bytes"));
        return Err(failure.next(format!("give a multiple of them: {}", (len / unit * unit).max(unit))));
    }
    let smaller = whole.config().with_capacity(len).and_then(Ssd::new);
    let ssd = smaller.map_err(|error| Failure::refused(format!("--size {}", Size(len)), error))?;
    let ssd = ssd.named(&model.name);
    output::note(&format!(
        "the drive is made of {} of flash in {} planes, and takes up to {} of memory once all of that has been \
         written to",
        Size(ssd.config().geometry.bytes()),
        ssd.config().geometry.planes(),
        Size(SsdDevice::memory_bytes_max(&ssd))
    ));
    let drive = SsdDevice::new(ssd);
    load(args, &drive)?;
    let powered =
        PoweredDrive::of(drive.in_real_time(args.time_scale), format!("a modelled {}", model.title));
    Ok(ModelledDrive { powered: Arc::new(powered), rotational: false })
}

fn load(args: &ServeArgs, contents: &dyn Device) -> Result<(), Failure> {
    let Some(path) = args.image.as_ref().filter(|path| path.exists()) else { return Ok(()) };
    image::load(path, contents).map_err(|error| Failure::refused(path.display(), chain(&error)))
}

/// How long a modelled drive is: as asked for, which the image must agree with, or as the image.
fn contents_len(args: &ServeArgs, model: &Model) -> Result<u64, Failure> {
    let image = match &args.image {
        Some(path) => image::len(path).map_err(|error| Failure::refused(path.display(), error))?,
        None => None,
    };
    let asked = args.size.map(|size| size.0);
    let len = match (asked, image) {
        (Some(asked), Some(image)) if asked != image => {
            let path = args.image.as_deref().unwrap_or(Path::new("")).display().to_string();
            return Err(Failure::refused(path, format!("it is {image} bytes long, and --size says {asked}"))
                .next("leave out --size, or name another image"));
        }
        (None, None) => {
            return Err(Failure::usage("--size", "nothing says how long the drive is")
                .next("give --size, or an --image that exists"));
        }
        (Some(len), _) | (None, Some(len)) => len,
    };
    if len < 4096 || len % 512 != 0 {
        return Err(Failure::refused("--size", format!("{len} bytes are no drive"))
            .next("give a multiple of 512 bytes, 4096 at least"));
    }
    if len > model.capacity_bytes {
        let reason = format!("the drive {} has {} alone", model.name, Size(model.capacity_bytes));
        return Err(
            Failure::refused(format!("--size {}", Size(len)), reason).next("give less, or another model")
        );
    }
    Ok(len)
}

/// What a power cut can take, in bytes.
fn cache_bytes(args: &ServeArgs, model: &Model) -> Result<u64, Failure> {
    if !model.volatile_cache {
        return match args.cache {
            Some(_) => {
                Err(Failure::usage("--cache", format!("the drive {} has no volatile cache", model.name)))
            }
            None => Ok(0),
        };
    }
    if let Some(size) = args.cache {
        return Ok(size.0);
    }
    let ssd = Ssd::of_model(model);
    let ssd = ssd.map_err(|error| Failure::refused(&model.name, chain(&error)))?;
    Ok(ssd.map_or(CACHE_BYTES, |ssd| ssd.config().cache.buffer_bytes))
}

impl<D: Contents> ModelledDrive<D> {
    /// What the cut takes. Nobody is left who was connected before it.
    fn lose(&self, seed: u64, after: Duration, server: &Server) -> PowerCut {
        server.disconnect_all();
        let writes = self.powered.writes();
        let taken = D::taken(self.powered.lose(seed));
        while server.connections() > 0 {
            server.disconnect_all();
            std::thread::sleep(Duration::from_millis(1));
        }
        PowerCut { seconds: after.as_secs_f64(), writes, seed, taken }
    }
}

impl<D: Contents> ServedDrive for ModelledDrive<D> {
    fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.powered) as Arc<dyn Device>
    }

    fn is_rotational(&self) -> bool {
        self.rotational
    }

    fn has_power(&self) -> bool {
        self.powered.is_on()
    }

    fn serve(&self, args: &ServeArgs, server: &Server) -> Result<Vec<PowerCut>, Failure> {
        let mut cuts = Vec::new();
        if let Some(Moment::InWrite(write)) = args.power_cut_after {
            self.powered.cut_in_write(write);
        }
        let mut started = Instant::now();
        loop {
            let is_interrupted = IS_INTERRUPTED.load(Ordering::Acquire);
            let left = match args.power_cut_after {
                // What a cut takes that came before the signal is decided, and no other comes.
                _ if is_interrupted => {
                    self.powered.cut_in_no_write();
                    Duration::ZERO
                }
                Some(Moment::After(time)) => time.saturating_sub(started.elapsed()),
                _ => LOOK_EVERY,
            };
            if left.is_zero() && !is_interrupted {
                self.powered.cut();
            }
            if !self.powered.wait_for_cut(left.min(LOOK_EVERY)) {
                if is_interrupted {
                    break;
                }
                continue;
            }
            let cut = self.lose(args.seed.wrapping_add(cuts.len() as u64), started.elapsed(), server);
            output::note(&cut.text());
            let is_dead = cut.taken.is_dead();
            cuts.push(cut);
            if !args.restart || is_dead || is_interrupted {
                break;
            }
            self.save(args)?;
            self.powered.restore();
            started = Instant::now();
            output::note("the drive has started again");
        }
        Ok(cuts)
    }

    fn save(&self, args: &ServeArgs) -> Result<(), Failure> {
        let Some(path) = args.image.as_ref().filter(|_| !args.read_only) else { return Ok(()) };
        if self.powered.device().is_dead() {
            output::note(&format!(
                "{} is as it was before the cut: of a dead drive nothing can be read",
                path.display()
            ));
            return Ok(());
        }
        image::save(path, |show| self.powered.device().each_piece(show)).map_err(|error| {
            Failure::refused(path.display(), format!("the contents cannot be saved: {error}"))
        })
    }
}

impl Taken {
    fn is_dead(&self) -> bool {
        matches!(self, Self::Units { dead: Some(_), .. })
    }

    /// How much is not as it was written.
    fn count(&self) -> (u64, &'static str) {
        match self {
            Self::Writes { lost, torn, .. } => (lost + torn, "writes lost or torn"),
            Self::Units { older_units, damaged_units, .. } => {
                (older_units + damaged_units, "units older or damaged")
            }
        }
    }
}

impl PowerCut {
    fn text(&self) -> String {
        let Self { seconds, writes, seed, taken } = self;
        let writes = if *writes == 1 { "1 write".to_owned() } else { format!("{writes} writes") };
        let taken = match taken {
            Taken::Units { dead: Some(dead), .. } => format!("{dead} (seed {seed})"),
            Taken::Writes { kept: 0, lost: 0, torn: 0 } => "nothing was in a volatile cache".to_owned(),
            Taken::Writes { kept, lost, torn } => format!(
                "of those that were not durable {kept} were kept, {lost} lost and {torn} torn (seed {seed})"
            ),
            Taken::Units { older_units: 0, damaged_units: 0, .. } => "nothing was lost".to_owned(),
            Taken::Units { older_units, damaged_units, .. } => {
                format!(
                    "{older_units} units are older than they were, and {damaged_units} damaged (seed {seed})"
                )
            }
        };
        format!("the power failed after {seconds:.1} s and {writes}: {taken}")
    }
}

/// All power cuts, in a few words.
pub(super) fn in_short(cuts: &[PowerCut]) -> String {
    let Some(first) = cuts.first() else { return "no power cuts".to_owned() };
    let count: u64 = cuts.iter().map(|cut| cut.taken.count().0).sum();
    let what = first.taken.count().1;
    match cuts.len() {
        1 => format!("1 power cut, {count} {what}"),
        cuts => format!("{cuts} power cuts, {count} {what}"),
    }
}
