//! What `device serve` is asked for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz device serve --socket ./nbd.sock --file ./disk.img          a file, as a block device
  mezz device serve --socket ./nbd.sock --model durassd --size 2GB
  mezz device serve --socket ./nbd.sock --model ssd-a --size 2GB --image ./disk.img --power-cut-after 5000
  mezz device serve --listen 127.0.0.1:10809 --model cloud-volume --size 1GB --power-cut-after 30s --restart
  mezz device serve --listen 0.0.0.0:10809 --tls-certificate cert.pem --tls-key key.pem --tls-clients ca.pem --file ./disk.img

Clients name it nbd+unix:///?socket=./nbd.sock or nbd://127.0.0.1:10809 (nbds: with TLS). SIGINT or SIGTERM ends it: what is under way is finished, and
what was written is durable.

At a power cut every client is disconnected. A drive with a volatile write cache keeps, loses or tears (in sectors of 512 bytes) each write
that was neither flushed nor among those that the cache has no room for; --seed decides which. One whose cache is kept by capacitors, or that
has none, keeps all that it has acknowledged.";

/// The options of `device serve`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("where").required(true).multiple(true)), group(ArgGroup::new("what").required(true)))]
pub(crate) struct ServeArgs {
    /// Unix socket to listen at; this user alone may connect to it.
    #[arg(long, value_name = "PATH", group = "where")]
    pub(super) socket: Option<PathBuf>,

    /// TCP address to listen at. Without a certificate only addresses of this machine (127.0.0.1 or ::1) are
    /// taken.
    #[arg(long, value_name = "ADDRESS:PORT", group = "where")]
    pub(super) listen: Option<SocketAddr>,

    /// Encrypt what goes over TCP (TLS 1.3) with the certificate in this PEM file, and those above it behind.
    #[arg(long, value_name = "FILE", requires_all = ["listen", "tls_key"])]
    pub(super) tls_certificate: Option<PathBuf>,

    /// The certificate's private key, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(super) tls_key: Option<PathBuf>,

    /// Let only clients in over TCP whose certificate one of the authorities in this PEM file has signed.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(super) tls_clients: Option<PathBuf>,

    /// Listen without a certificate at a TCP address that others reach: they may read and write everything,
    /// and so may all who are between.
    #[arg(long, requires = "listen", conflicts_with = "tls_certificate")]
    pub(super) insecure: bool,

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

    /// Cut the power of a modelled drive in this write after its start (1000), or after this time (500ms,
    /// 30s, 5min).
    #[arg(long, value_name = "WRITES|TIME", requires = "model", value_parser = moment)]
    pub(super) power_cut_after: Option<Moment>,

    /// Start the drive again after each power cut, on what it has kept, instead of ending.
    #[arg(long, requires = "power_cut_after")]
    pub(super) restart: bool,

    /// Seed of what a power cut takes; the next cut has the next one.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

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
