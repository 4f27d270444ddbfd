//! The rows of the initial population (clause 4.3.3.1).
//!
//! The population is cut into parts that are generated independently, each from a random stream of its own,
//! so that a seed gives the same rows whatever the number of sessions that load them.

use crate::batch::RowBatch;
use crate::error::Result;
use crate::population::Population;
use crate::random::{Random, last_name};
use crate::scale::DISTRICTS_PER_WAREHOUSE;
use crate::schema::Table;

/// All dates of the population: 2026-01-01 00:00:00 UTC in microseconds. A constant, so that a seed gives the
/// same bytes on every day.
pub(crate) const POPULATION_TIME: i64 = 1_767_225_600_000_000;

/// A batch is handed on once it holds this much.
const BATCH_BYTES: usize = 256 << 10;

/// What a customer has paid, and owes, at load: 10.00.
const INITIAL_PAYMENT: i64 = 1_000;

/// A part of the population; the unit of a transaction while loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Items,
    Warehouses,
    Stock { warehouse: u32 },
    Customers { warehouse: u32, district: u32 },
    Orders { warehouse: u32, district: u32 },
}

/// All parts but the items, table by table, so that a table's pages lie together in a database that is one
/// file.
pub(crate) fn parts(warehouses: u32) -> Vec<Part> {
    let districts = |warehouse| (1..=DISTRICTS_PER_WAREHOUSE).map(move |district| (warehouse, district));
    let mut parts = vec![Part::Warehouses];
    parts.extend((1..=warehouses).map(|warehouse| Part::Stock { warehouse }));
    let all = (1..=warehouses).flat_map(districts);
    parts.extend(all.clone().map(|(warehouse, district)| Part::Customers { warehouse, district }));
    parts.extend(all.map(|(warehouse, district)| Part::Orders { warehouse, district }));
    parts
}

/// Where generated rows go.
pub(crate) type Emit<'a> = &'a mut dyn FnMut(Table, RowBatch) -> Result<()>;

/// Generates a part.
pub(crate) fn generate(part: Part, population: &Population, emit: Emit<'_>) -> Result<()> {
    let labels = match part {
        Part::Items => [1, 0, 0],
        Part::Warehouses => [2, 0, 0],
        Part::Stock { warehouse } => [3, u64::from(warehouse), 0],
        Part::Customers { warehouse, district } => [4, u64::from(warehouse), u64::from(district)],
        Part::Orders { warehouse, district } => [5, u64::from(warehouse), u64::from(district)],
    };
    let mut random = Random::stream(population.seed, &labels);
    match part {
        Part::Items => items(population, &mut random, emit),
        Part::Warehouses => warehouses(population, &mut random, emit),
        Part::Stock { warehouse } => stock(population, warehouse, &mut random, emit),
        Part::Customers { warehouse, district } => {
            customers(population, warehouse, district, &mut random, emit)
        }
        Part::Orders { warehouse, district } => orders(population, warehouse, district, &mut random, emit),
    }
}

/// Collects the rows of one table and hands on full batches.
struct Writer {
    table: Table,
    batch: RowBatch,
}

impl Writer {
    fn new(table: Table) -> Self {
        Self { table, batch: RowBatch::new(table.column_count()) }
    }

    fn row(&mut self) -> &mut RowBatch {
        &mut self.batch
    }

    fn end_row(&mut self, emit: Emit<'_>) -> Result<()> {
        if self.batch.bytes() >= BATCH_BYTES { self.flush(emit) } else { Ok(()) }
    }

    fn flush(&mut self, emit: Emit<'_>) -> Result<()> {
        if self.batch.rows() == 0 {
            return Ok(());
        }
        let empty = RowBatch::new(self.table.column_count());
        emit(self.table, std::mem::replace(&mut self.batch, empty))
    }
}

fn items(population: &Population, random: &mut Random, emit: Emit<'_>) -> Result<()> {
    let mut out = Writer::new(Table::Item);
    for item in 1..=population.scale.items {
        out.row()
            .int(item)
            .int(random.uniform(1, 10_000))
            .text_with(|text| random.letters(14, 24, text))
            .int(random.uniform(100, 10_000))
            .text_with(|text| data_with_original(random, text));
        out.end_row(emit)?;
    }
    out.flush(emit)
}

fn warehouses(population: &Population, random: &mut Random, emit: Emit<'_>) -> Result<()> {
    let district_ytd = INITIAL_PAYMENT * i64::from(population.scale.customers_per_district);
    let mut out = Writer::new(Table::Warehouse);
    for warehouse in 1..=population.scale.warehouses {
        let row = out.row().int(warehouse);
        address(row.text_with(|text| random.letters(6, 10, text)), random)
            .int(random.uniform(0, 2_000))
            .int(district_ytd * i64::from(DISTRICTS_PER_WAREHOUSE));
        out.end_row(emit)?;
    }
    out.flush(emit)?;
    let mut out = Writer::new(Table::District);
    for warehouse in 1..=population.scale.warehouses {
        for district in 1..=DISTRICTS_PER_WAREHOUSE {
            let row = out.row().int(warehouse).int(district);
            address(row.text_with(|text| random.letters(6, 10, text)), random)
                .int(random.uniform(0, 2_000))
                .int(district_ytd)
                .int(population.scale.orders_per_district + 1);
            out.end_row(emit)?;
        }
    }
    out.flush(emit)
}

fn stock(population: &Population, warehouse: u32, random: &mut Random, emit: Emit<'_>) -> Result<()> {
    let mut out = Writer::new(Table::Stock);
    for item in 1..=population.scale.items {
        let row = out.row().int(warehouse).int(item).int(random.uniform(10, 100));
        for _ in 0..DISTRICTS_PER_WAREHOUSE {
            row.text_with(|text| random.letters(24, 24, text));
        }
        row.int(0).int(0).int(0).text_with(|text| data_with_original(random, text));
        out.end_row(emit)?;
    }
    out.flush(emit)
}

fn customers(
    population: &Population,
    warehouse: u32,
    district: u32,
    random: &mut Random,
    emit: Emit<'_>,
) -> Result<()> {
    let mut customers = Writer::new(Table::Customer);
    let mut history = Writer::new(Table::History);
    for customer in 1..=population.scale.customers_per_district {
        let name =
            if customer <= 1_000 { customer - 1 } else { population.constants.last_name(random, 1_000) };
        let row = customers.row().int(warehouse).int(district).int(customer);
        row.text_with(|text| random.letters(8, 16, text)).text("OE").text(&last_name(name));
        address(row, random)
            .text_with(|text| random.digits(16, text))
            .int(POPULATION_TIME)
            .text(if random.percent(10) { "BC" } else { "GC" })
            .int(5_000_000)
            .int(random.uniform(0, 5_000))
            .int(-INITIAL_PAYMENT)
            .int(INITIAL_PAYMENT)
            .int(1)
            .int(0)
            .text_with(|text| random.letters(300, 500, text));
        customers.end_row(emit)?;
        let row = history.row().int(customer);
        row.int(district).int(warehouse).int(district).int(warehouse).int(POPULATION_TIME);
        row.int(INITIAL_PAYMENT).text_with(|text| random.letters(12, 24, text));
        history.end_row(emit)?;
    }
    customers.flush(emit)?;
    history.flush(emit)
}

fn orders(
    population: &Population,
    warehouse: u32,
    district: u32,
    random: &mut Random,
    emit: Emit<'_>,
) -> Result<()> {
    let scale = &population.scale;
    let mut customers: Vec<u32> = (1..=scale.customers_per_district).collect();
    random.shuffle(&mut customers);
    let mut orders = Writer::new(Table::Orders);
    let mut lines = Writer::new(Table::OrderLine);
    let mut new_orders = Writer::new(Table::NewOrder);
    for order in 1..=scale.orders_per_district {
        let delivered = order < scale.first_new_order();
        let count = random.uniform(5, 15);
        let carrier = delivered.then(|| i64::from(random.uniform(1, 10)));
        let row = orders.row().int(warehouse).int(district).int(order).int(customers[order as usize - 1]);
        row.int(POPULATION_TIME).optional_int(carrier).int(count).int(1);
        orders.end_row(emit)?;
        for number in 1..=count {
            let row = lines.row().int(warehouse).int(district).int(order).int(number);
            row.int(random.uniform(1, scale.items)).int(warehouse);
            row.optional_int(delivered.then_some(POPULATION_TIME)).int(5);
            row.int(if delivered { 0 } else { random.uniform(1, 999_999) });
            row.text_with(|text| random.letters(24, 24, text));
            lines.end_row(emit)?;
        }
        if !delivered {
            new_orders.row().int(warehouse).int(district).int(order);
            new_orders.end_row(emit)?;
        }
    }
    orders.flush(emit)?;
    lines.flush(emit)?;
    new_orders.flush(emit)
}

/// Two streets, city, state and zip code (clause 4.3.2.7).
fn address<'a>(row: &'a mut RowBatch, random: &mut Random) -> &'a mut RowBatch {
    row.text_with(|text| random.letters(10, 20, text))
        .text_with(|text| random.letters(10, 20, text))
        .text_with(|text| random.letters(10, 20, text))
        .text_with(|text| random.letters(2, 2, text))
        .text_with(|text| {
            random.digits(4, text);
            text.push_str("11111");
        })
}

/// 26 to 50 letters, in a tenth of the rows with "ORIGINAL" somewhere among them.
fn data_with_original(random: &mut Random, text: &mut String) {
    const ORIGINAL: &str = "ORIGINAL";
    let start = text.len();
    random.letters(26, 50, text);
    if random.percent(10) {
        let places = (text.len() - start - ORIGINAL.len()) as u32;
        let place = start + random.uniform(0, places) as usize;
        text.replace_range(place..place + ORIGINAL.len(), ORIGINAL);
    }
}
