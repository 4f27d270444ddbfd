//! What `device serve` is asked for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use crate::nbd::ListenArgs;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz device serve --socket ./nbd.sock --file ./disk.img          a file, as a block device
  mezz device serve --socket ./nbd.sock --model durassd --size 2GB
  mezz device serve --socket ./nbd.sock --model ssd-a --size 2GB --image ./disk.img --power-cut-after 5000
  mezz device serve --socket ./nbd.sock --model ./shorn.toml --size 1GB --inside --power-cut-after 5000 --restart
  mezz device serve --socket ./nbd.sock --file ./disk.img --record ./disk.rec --marks ./marks.sock
  mezz device serve --ublk --file ./disk.img                       /dev/ublkbN, as root
  mezz device serve --listen 127.0.0.1:10809 --model cloud-volume --size 1GB --power-cut-after 30s --restart
  mezz device serve --listen 0.0.0.0:10809 --tls-certificate cert.pem --tls-key key.pem --tls-clients ca.pem --file ./disk.img

Clients name it nbd+unix:///?socket=./nbd.sock or nbd://127.0.0.1:10809 (nbds: with TLS). SIGINT or SIGTERM ends it: what is under way is finished, and
what was written is durable.

At a power cut every client is disconnected. A drive with a volatile write cache keeps, loses or tears (in sectors of 512 bytes) each write
that was neither flushed nor among those that the cache has no room for; --seed decides which. One whose cache is kept by capacitors, or that
has none, keeps all that it has acknowledged. With --inside none of this is drawn: flash, cache and map of the drive are in some state when the
power fails, and it starts from that; a drive that is dead afterwards says so, and ends the service.";

/// The options of `device serve`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true)))]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(super) listen: ListenArgs,

    /// File or block device to serve.
    #[arg(long, value_name = "PATH", group = "what")]
    pub(super) file: Option<PathBuf>,

    /// Modelled drive to serve, by name or TOML file, with its contents in memory.
    #[arg(long, value_name = "MODEL", group = "what")]
    pub(super) model: Option<String>,

    /// Length of a modelled drive (default: that of the image).
    #[arg(long, requires = "model")]
    pub(super) size: Option<Size>,

    /// File that a modelled drive has its contents from, if it exists, and to which they are written at the
    /// end and after each power cut.
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(super) image: Option<PathBuf>,

    /// A modelled drive takes this many times as long.
    #[arg(long, value_name = "FACTOR", requires = "model", default_value_t = 1.0, value_parser = crate::demo::time_scale)]
    pub(super) time_scale: f64,

    /// What the write cache of a modelled drive holds, if it is volatile (default: as in the model, or
    /// 32MiB).
    #[arg(long, value_name = "SIZE", requires = "model")]
    pub(super) cache: Option<Size>,

    /// Keep the contents where the drive's own controller puts them (models with a table `[ssd]`): a power
    /// cut then leaves what that makes of it, with the anomalies of `[ssd.power_loss]`.
    #[arg(long, requires = "model", conflicts_with = "cache")]
    pub(super) inside: bool,

    /// Cut the power of a modelled drive in this write after its start (1000), or after this time (500ms,
    /// 30s, 5min). Not with --ublk, whose users would not notice that the drive has started again.
    #[arg(long, value_name = "WRITES|TIME", requires = "model", conflicts_with = "ublk", value_parser = moment)]
    pub(super) power_cut_after: Option<Moment>,

    /// Start the drive again after each power cut, on what it has kept, instead of ending.
    #[arg(long, requires = "power_cut_after")]
    pub(super) restart: bool,

    /// Seed of what a power cut takes; the next cut has the next one.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

    /// Record what clients write and flush in this new file, for `mezz device cuts`. Not with power cuts.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["power_cut_after", "read_only"])]
    pub(super) record: Option<PathBuf>,

    /// Unix socket at which marks for the recording are taken: a line each, answered by "ok" when it is
    /// recorded.
    #[arg(long, value_name = "PATH", requires = "record")]
    pub(super) marks: Option<PathBuf>,

    /// Name of the export; clients that give none get it as well.
    #[arg(long, value_name = "NAME", default_value = "", value_parser = export_name)]
    pub(super) name: String,

    /// Refuse whatever would change it.
    #[arg(long)]
    pub(super) read_only: bool,

    /// Smallest request that clients may send, a power of two from 512 to 65536.
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub(super) block_size: Option<u32>,
}

/// When the power fails, counted from a start of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    InWrite(u64),
    After(Duration),
}

fn moment(text: &str) -> Result<Moment, String> {
    let advice = "give a number of writes (1000), or a time from 1ms to 24h (500ms, 30s, 5min, 1h)";
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| advice.to_owned())?;
    let milliseconds = match &text[digits..] {
        "" if number > 0 => return Ok(Moment::InWrite(number)),
        "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(advice.to_owned()),
    };
    let time = number.checked_mul(milliseconds).filter(|time| (1..=86_400_000).contains(time));
    time.map(|time| Moment::After(Duration::from_millis(time))).ok_or_else(|| advice.to_owned())
}

fn export_name(text: &str) -> Result<String, String> {
    let good = text.len() <= 256 && !text.contains(char::is_control);
    good.then(|| text.to_owned()).ok_or_else(|| "give a name of at most 256 bytes, on one line".to_owned())
}

fn block_size(text: &str) -> Result<u32, String> {
    let advice = "give a power of two from 512 to 65536";
    let size: u32 = text.parse().map_err(|_| advice.to_owned())?;
    let good = (512..=65536).contains(&size) && size.is_power_of_two();
    good.then_some(size).ok_or_else(|| advice.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_number_of_writes_or_a_time() {
        assert_eq!(moment("1000"), Ok(Moment::InWrite(1000)));
        for (text, milliseconds) in [("500ms", 500), ("30s", 30_000), ("5min", 300_000), ("24h", 86_400_000)]
        {
            assert_eq!(moment(text), Ok(Moment::After(Duration::from_millis(milliseconds))), "{text}");
        }
        for text in [
            "",
            "0",
            "0s",
            "-1",
            "1.5s",
            "10 s",
            "5m",
            "25h",
            "99999999999999999999",
            "18446744073709551615h",
        ] {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn blocks_are_powers_of_two() {
        assert_eq!(block_size("4096"), Ok(4096));
        for text in ["0", "256", "513", "131072", "4KiB", "-512"] {
            assert!(block_size(text).is_err(), "{text}");
        }
    }
}
