//! What a loaded database says about itself.

use crate::database::{Session, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::random::NurandConstants;
use crate::scale::Scale;
use crate::statement::Statement;

const LOAD_SELECT: Statement = Statement { name: "LOAD_SELECT", sql: "SELECT name, number FROM tpcc_load" };
const LOAD_INSERT: Statement =
    Statement { name: "LOAD_INSERT", sql: "INSERT INTO tpcc_load (name, number) VALUES (?, ?)" };

/// Version of the schema and of the generators: another one is another database for the same seed.
const LAYOUT: i64 = 1;

/// An initial population: its scale, its seed and the constants that it was generated with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population {
    /// How large it is.
    pub scale: Scale,
    /// What it was generated from.
    pub seed: u64,
    /// The constants of NURand at load.
    pub constants: NurandConstants,
}

impl Population {
    /// The population that this scale and seed give.
    pub fn new(scale: Scale, seed: u64) -> Result<Self> {
        scale.check()?;
        Ok(Self { scale, seed, constants: NurandConstants::for_load(seed) })
    }

    /// Reads from a loaded database what it was loaded with.
    ///
    /// # Errors
    /// [`ErrorKind::NotLoaded`] when there is no population or its loading was not completed.
    pub fn read(session: &mut dyn Session) -> Result<Self> {
        let mut numbers = Vec::new();
        session
            .query(LOAD_SELECT, &[], &mut |row| {
                numbers.push((row.text(0)?.to_owned(), row.int(1)?));
                Ok(())
            })
            .map_err(|error| match error.kind() {
                ErrorKind::Database => Error::with_source(
                    ErrorKind::NotLoaded,
                    "the database holds no TPC-C population; load one first",
                    error,
                ),
                _ => error,
            })?;
        let find = |name: &str| {
            numbers.iter().find(|(found, _)| found == name).map(|(_, number)| *number).ok_or_else(|| {
                Error::new(
                    ErrorKind::NotLoaded,
                    format!("the TPC-C population is incomplete (tpcc_load has no {name:?}); load it again"),
                )
            })
        };
        if find("layout")? != LAYOUT {
            return Err(Error::new(
                ErrorKind::NotLoaded,
                format!(
                    "the TPC-C population has layout {}, this program knows {LAYOUT}; load it again",
                    find("layout")?
                ),
            ));
        }
        let small = |name: &str| {
            u32::try_from(find(name)?)
                .map_err(|_| Error::new(ErrorKind::Corrupt, format!("tpcc_load holds a bad {name}")))
        };
        let scale = Scale {
            warehouses: small("warehouses")?,
            items: small("items")?,
            customers_per_district: small("customers_per_district")?,
            orders_per_district: small("orders_per_district")?,
            new_orders_per_district: small("new_orders_per_district")?,
        };
        Self::new(scale, find("seed")? as u64)
    }

    /// Records that the population is complete. Runs inside the caller's transaction.
    pub(crate) fn record(&self, session: &mut dyn Session) -> Result<()> {
        let scale = &self.scale;
        let numbers = [
            ("layout", LAYOUT),
            ("warehouses", i64::from(scale.warehouses)),
            ("items", i64::from(scale.items)),
            ("customers_per_district", i64::from(scale.customers_per_district)),
            ("orders_per_district", i64::from(scale.orders_per_district)),
            ("new_orders_per_district", i64::from(scale.new_orders_per_district)),
            ("seed", self.seed as i64),
        ];
        for (name, number) in numbers {
            session.execute(LOAD_INSERT, &[Value::Text(name), Value::Int(number)])?;
        }
        Ok(())
    }
}
