//! How large the database is (clause 1.2.1 and clause 4.2.2).

use crate::error::{Error, ErrorKind, Result};

/// Districts of a warehouse. Fixed: a request names one of ten.
pub const DISTRICTS_PER_WAREHOUSE: u32 = 10;

/// Rows of the item table, and of the stock of one warehouse.
const STANDARD_ITEMS: u32 = 100_000;
/// Customers of one district.
const STANDARD_CUSTOMERS_PER_DISTRICT: u32 = 3_000;
/// Orders that a district is populated with.
const STANDARD_ORDERS_PER_DISTRICT: u32 = 3_000;
/// How many of them are not yet delivered.
const STANDARD_NEW_ORDERS_PER_DISTRICT: u32 = 900;

/// More would not fit the encoding of the acknowledgement log's and the generators' streams.
const WAREHOUSES_MAX: u32 = 1_000_000;

/// The size of a population. Only [`Scale::standard`] gives TPC-C's; every other is for tests, says so in
/// [`is_standard`](Scale::is_standard) and carries that into reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scale {
    /// Warehouses, at least 1.
    pub warehouses: u32,
    /// Items; standard 100,000.
    pub items: u32,
    /// Customers per district; standard 3,000.
    pub customers_per_district: u32,
    /// Orders per district at load; standard 3,000. No more than customers: each has at most one.
    pub orders_per_district: u32,
    /// How many of these are undelivered; standard 900.
    pub new_orders_per_district: u32,
}

impl Scale {
    /// The specification's population at this number of warehouses.
    pub fn standard(warehouses: u32) -> Self {
        Self {
            warehouses,
            items: STANDARD_ITEMS,
            customers_per_district: STANDARD_CUSTOMERS_PER_DISTRICT,
            orders_per_district: STANDARD_ORDERS_PER_DISTRICT,
            new_orders_per_district: STANDARD_NEW_ORDERS_PER_DISTRICT,
        }
    }

    /// A non-standard population of about 0.2 MB per warehouse, for tests.
    pub fn tiny(warehouses: u32) -> Self {
        Self {
            warehouses,
            items: 200,
            customers_per_district: 30,
            orders_per_district: 30,
            new_orders_per_district: 9,
        }
    }

    /// Whether everything but the number of warehouses is as the specification has it.
    pub fn is_standard(&self) -> bool {
        *self == Self::standard(self.warehouses)
    }

    /// Refuses what cannot be populated.
    pub fn check(&self) -> Result<()> {
        let bounds = [
            ("warehouses", self.warehouses, 1, WAREHOUSES_MAX),
            ("items", self.items, 1, STANDARD_ITEMS),
            ("customers_per_district", self.customers_per_district, 1, STANDARD_CUSTOMERS_PER_DISTRICT),
            ("orders_per_district", self.orders_per_district, 1, self.customers_per_district),
            ("new_orders_per_district", self.new_orders_per_district, 0, self.orders_per_district),
        ];
        for (name, value, min, max) in bounds {
            if value < min || value > max {
                return Err(Error::new(
                    ErrorKind::Configuration,
                    format!("{name} is {value}; give a number from {min} to {max}"),
                ));
            }
        }
        Ok(())
    }

    /// How many of the last names exist: the first thousand customers of a district carry one each, the
    /// others repeat them.
    pub fn last_names(&self) -> u32 {
        self.customers_per_district.min(1_000)
    }

    /// The first order that is not yet delivered in the initial population.
    pub fn first_new_order(&self) -> u32 {
        self.orders_per_district - self.new_orders_per_district + 1
    }
}
