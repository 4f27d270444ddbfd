//! What a database's URI says about its tier:
//! `file:app.db?vfs=mezzanine&flash=/path/flash.mezz&flash_size=1GiB`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use mezzanine_volume::{Admission, Design, SyncMode};

use crate::error::{Error, ErrorKind};

/// The names of the URI parameters, in the order in which errors list them.
pub(crate) const NAMES: [&str; 10] = [
    "flash",
    "flash_size",
    "flash_max_size",
    "page_size",
    "design",
    "admission",
    "returning_only",
    "remembered_pages",
    "sync_mode",
    "trace",
];

/// The parameters as given; what is not given keeps its default, or what the flash file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Params {
    pub(crate) flash: Option<PathBuf>,
    pub(crate) flash_bytes: Option<u64>,
    pub(crate) flash_bytes_max: Option<u64>,
    pub(crate) page_size: Option<u32>,
    pub(crate) design: Option<Design>,
    pub(crate) admission: Option<Admission>,
    pub(crate) returning_only: Option<bool>,
    pub(crate) remembered_pages: Option<u64>,
    pub(crate) sync_mode: Option<SyncMode>,
    /// What the tier is to be recorded to.
    pub(crate) trace: Option<PathBuf>,
}

impl Params {
    /// Reads the parameters through `get`, which looks one up by name.
    pub(crate) fn read(mut get: impl FnMut(&str) -> Option<OsString>) -> Result<Self, Error> {
        let mut params = Self::default();
        for name in NAMES {
            let Some(bytes) = get(name) else { continue };
            let value = bytes.to_string_lossy().into_owned();
            match name {
                "flash" => params.flash = Some(path(name, bytes, "the flash file")?),
                "trace" => params.trace = Some(path(name, bytes, "the trace to write")?),
                "flash_size" => params.flash_bytes = Some(size(name, &value)?),
                "flash_max_size" => params.flash_bytes_max = Some(size(name, &value)?),
                "page_size" => params.page_size = Some(page_size(&value)?),
                "design" => {
                    params.design = Some(choose(
                        name,
                        &value,
                        &Design::ALL.iter().map(|design| (design.name(), *design)).collect::<Vec<_>>(),
                    )?);
                }
                "admission" => {
                    let known =
                        [("clean", Admission::Clean), ("dirty", Admission::Dirty), ("both", Admission::Both)];
                    params.admission = Some(choose(name, &value, &known)?);
                }
                "returning_only" => {
                    params.returning_only = Some(choose(name, &value, &[("on", true), ("off", false)])?);
                }
                "remembered_pages" => params.remembered_pages = Some(pages(name, &value)?),
                _ => {
                    params.sync_mode = Some(sync_mode(name, &value)?);
                }
            }
        }
        Ok(params)
    }
}

pub(crate) fn bad(name: &str, value: &str, reason: &str) -> Error {
    Error::new(ErrorKind::BadParameter, "use", format!("{name}={value}"), reason)
}

/// A path is bytes, and need not be text.
fn path(name: &str, value: OsString, what: &str) -> Result<PathBuf, Error> {
    if value.is_empty() {
        return Err(bad(name, "", &format!("it is empty; give the path of {what}")));
    }
    Ok(PathBuf::from(value))
}

/// A sync mode that a volume can have.
pub(crate) fn sync_mode(name: &str, value: &str) -> Result<SyncMode, Error> {
    choose(name, value, &[("through", SyncMode::Through), ("durable", SyncMode::Durable)])
}

pub(crate) fn choose<T: Copy>(name: &str, value: &str, known: &[(&str, T)]) -> Result<T, Error> {
    known.iter().find(|(word, _)| *word == value).map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        bad(name, value, &format!("no such choice; use one of {}", words.join(", ")))
    })
}

fn pages(name: &str, value: &str) -> Result<u64, Error> {
    value.parse().map_err(|_| bad(name, value, "it is not a number of pages; write 100000"))
}

fn page_size(value: &str) -> Result<u32, Error> {
    let bytes = size("page_size", value)?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() && (4096..=32_768).contains(&bytes) => Ok(bytes),
        _ => Err(bad("page_size", value, "the pages of a tier are a power of two from 4096 to 32768 bytes")),
    }
}

/// A size such as 65536, 10GB (decimal) or 10GiB (binary), in bytes.
pub(crate) fn size(name: &str, value: &str) -> Result<u64, Error> {
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        _ => return Err(bad(name, value, "the unit is not known; write a size as 10GB or 10GiB")),
    };
    u64::from_str(number)
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| bad(name, value, "it is not a size; write a size as 10GB or 10GiB"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mezzanine_volume::TierConfig;

    fn read(pairs: &[(&str, &str)]) -> Result<Params, Error> {
        Params::read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(*v)))
    }

    #[test]
    fn sizes_have_units_of_both_kinds() {
        assert_eq!(read(&[("flash_size", "10GB")]).unwrap().flash_bytes, Some(10_000_000_000));
        assert_eq!(read(&[("flash_size", "10GiB")]).unwrap().flash_bytes, Some(10 << 30));
        assert_eq!(read(&[("flash_size", "4096")]).unwrap().flash_bytes, Some(4096));
    }

    #[test]
    fn how_many_pages_are_remembered_is_forgotten_with_the_wish_for_it() {
        let found =
            TierConfig { returning_only: true, remembered_pages: Some(9), ..TierConfig::new(4096, 4096) };
        let with = |pairs: &[(&str, &str)]| crate::mount::with_wishes(found.clone(), &read(pairs).unwrap());
        assert_eq!(with(&[]), found);
        assert_eq!(with(&[("remembered_pages", "70")]).remembered_pages, Some(70));
        let off = with(&[("returning_only", "off")]);
        assert_eq!((off.returning_only, off.remembered_pages), (false, None));
        let senseless = with(&[("returning_only", "off"), ("remembered_pages", "70")]).geometry();
        assert_eq!(senseless.unwrap_err().parameter, "remembered_pages");
    }

    #[test]
    fn errors_name_the_parameter_and_the_choices() {
        for (name, value, part) in [
            ("flash_size", "ten", "10GiB"),
            ("flash_size", "0", "10GiB"),
            ("flash_size", "99999999999TiB", "10GiB"),
            ("flash_size", "1XB", "unit"),
            ("page_size", "5000", "power of two"),
            ("page_size", "65536", "32768"),
            ("design", "arc", "face-basic, face-gr, face-gsc, lru, fifo, clock, lc, exadata, cac, tac"),
            ("admission", "all", "clean, dirty, both"),
            ("returning_only", "yes", "on, off"),
            ("remembered_pages", "many", "number of pages"),
            ("sync_mode", "drained", "through, durable"),
            ("flash", "", "empty"),
            ("trace", "", "empty"),
        ] {
            let message = read(&[(name, value)]).unwrap_err().to_string();
            assert!(message.contains(&format!("{name}={value}")) && message.contains(part), "{message}");
        }
    }

    #[test]
    fn nothing_given_is_nothing_asked_for() {
        assert_eq!(read(&[]).unwrap(), Params::default());
    }
}
