//! What a demo run will need, computed and shown before anything is spent.

use std::collections::HashMap;
use std::path::Path;

use super::args::DemoArgs;
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

/// SQLite's default page size, and the tier's here.
pub(crate) const PAGE_BYTES: u32 = 4096;

/// Size of one warehouse as SQLite stores it, with indexes; measured on populations of 1 to 10 warehouses and
/// rounded up for space, down for the number of warehouses.
const WAREHOUSE_BYTES_LEAST: u64 = 70_000_000;
const WAREHOUSE_BYTES_MOST: u64 = 110_000_000;

/// Databases grow while they are measured, and there are logs beside them.
const GROWTH: f64 = 1.5;

/// Memory of a run beside the caches: the processes, the tier's staging memory, threads.
const MEMORY_BASE: u64 = 200_000_000;

pub(crate) struct Plan {
    pub(crate) warehouses: u32,
    /// Most bytes on disk at one time.
    pub(crate) space: u64,
    pub(crate) memory: u64,
    /// What the models are, by the name that was given.
    pub(crate) descriptions: HashMap<String, String>,
}

impl Plan {
    pub(crate) fn new(args: &DemoArgs) -> Result<Plan, Failure> {
        let mut descriptions = HashMap::new();
        for name in [&args.disk_model, &args.flash_model, &args.log_model] {
            descriptions.insert(name.clone(), crate::device::find_model(name)?.title);
        }
        let warehouses = match args.warehouses {
            Some(warehouses) => warehouses,
            None => {
                u32::try_from(args.database_size.0.div_ceil(WAREHOUSE_BYTES_LEAST).max(1)).map_err(|_| {
                    Failure::usage("--database-size", format!("{} is too large", args.database_size))
                        .next("give at most 7 PB")
                })?
            }
        };
        let database = if args.tiny { 2_000_000 } else { u64::from(warehouses) * WAREHOUSE_BYTES_MOST };
        // The loaded database stays; one copy at a time grows beside it, or all three with --keep.
        let copies = if args.keep { 3.0 } else { 1.0 };
        let per_copy = database as f64 * (GROWTH + args.flash_share);
        Ok(Plan {
            warehouses,
            space: database + (copies * per_copy) as u64,
            memory: MEMORY_BASE + (database as f64 * args.cache_share) as u64,
            descriptions,
        })
    }

    pub(crate) fn announce(&self) {
        output::note(&format!(
            "TPC-C with {} warehouses: needs up to {} in the directory and about {} of memory",
            self.warehouses,
            Size(self.space),
            Size(self.memory)
        ));
    }

    /// Refuses before anything is written.
    pub(crate) fn check_space(&self, directory: &Path) -> Result<(), Failure> {
        let stat = rustix::fs::statvfs(directory).map_err(|e| Failure::refused(directory.display(), e))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < self.space {
            return Err(Failure::refused(
                directory.display(),
                format!("{} are free, and up to {} are needed", Size(free), Size(self.space)),
            )
            .next("choose another place with --directory, or fewer --warehouses"));
        }
        Ok(())
    }
}
