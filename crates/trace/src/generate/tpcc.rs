//! TPC-C: what its five transactions touch (TPC Benchmark C, clauses 2.4 to 2.8), for the requests of
//! `mezzanine_workload`.
//!
//! Customers, stock, items, warehouses and districts are tables with an index on their keys; orders, order
//! lines and new orders lie in the order of their keys, so that every district appends at a place of its own;
//! history is appended at one place. Tables that grow have room for a number of orders in each district and
//! take the place of the oldest when that is used up.

use mezzanine_workload::{
    CustomerChoice, DISTRICTS_PER_WAREHOUSE, NurandConstants, OrderLine, Population, Random, Request,
    RequestStream, Scale,
};

use super::Generate;
use super::layout::{Heap, Space, Tree, largest};
use super::stream::{Source, Steps};

/// Lines of an order on average (clause 2.4.1.3), and those of an order whose number is not at hand.
const LINES: u64 = 10;

/// Orders whose stock a Stock-Level looks at (clause 2.8.2.2).
const STOCK_LEVEL_ORDERS: u64 = 20;

/// The five transactions. Steps name them by their places here.
const KINDS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];
const NEW_ORDER: u8 = 0;
const PAYMENT: u8 = 1;
const ORDER_STATUS: u8 = 2;
const DELIVERY: u8 = 3;
const STOCK_LEVEL: u8 = 4;

/// Room for orders at least, in parts of those at load.
const ROOM_MIN: (u64, u64) = (5, 4);

struct Tables {
    warehouse: Heap,
    warehouse_key: Tree,
    district: Heap,
    district_key: Tree,
    customer: Heap,
    customer_key: Tree,
    customer_name: Tree,
    history: Heap,
    item: Heap,
    item_key: Tree,
    stock: Heap,
    stock_key: Tree,
    new_order: Ordered,
    orders: Ordered,
    orders_customer: Tree,
    order_line: Ordered,
}

/// A table in the order of warehouse, district and order: each district has leaves of its own.
struct Ordered {
    tree: Tree,
    leaves_per_district: u64,
    rows_per_leaf: u64,
}

impl Ordered {
    fn new(space: &mut Space, name: &'static str, districts: u64, rows: u64, row_bytes: u32) -> Ordered {
        let rows_per_leaf = space.rows_per_page(row_bytes);
        let leaves_per_district = rows.div_ceil(rows_per_leaf);
        Ordered {
            tree: space.tree(name, districts * leaves_per_district),
            leaves_per_district,
            rows_per_leaf,
        }
    }

    /// The leaf of the district's row with this number from 0.
    fn leaf(&self, district: u64, row: u64) -> u64 {
        district * self.leaves_per_district + row / self.rows_per_leaf % self.leaves_per_district
    }
}

/// The tables of a population with room for `room` orders in each district. Row lengths are those of clause
/// 4.2.2.
fn tables(scale: &Scale, room: u64, page_bytes: u32) -> (Tables, Space) {
    let mut space = Space::new(page_bytes);
    let warehouses = u64::from(scale.warehouses);
    let districts = warehouses * u64::from(DISTRICTS_PER_WAREHOUSE);
    let customers = districts * u64::from(scale.customers_per_district);
    let stocks = warehouses * u64::from(scale.items);
    let s = &mut space;
    let tables = Tables {
        warehouse: s.heap("warehouse", warehouses, 89),
        warehouse_key: s.index("warehouse_key", warehouses),
        district: s.heap("district", districts, 95),
        district_key: s.index("district_key", districts),
        customer: s.heap("customer", customers, 655),
        customer_key: s.index("customer_key", customers),
        customer_name: s.index("customer_name", customers),
        history: s.heap("history", districts * room, 46),
        item: s.heap("item", scale.items.into(), 82),
        item_key: s.index("item_key", scale.items.into()),
        stock: s.heap("stock", stocks, 306),
        stock_key: s.index("stock_key", stocks),
        new_order: Ordered::new(s, "new_order", districts, room, 8),
        orders: Ordered::new(s, "orders", districts, room, 24),
        orders_customer: s.index("orders_customer", districts * room),
        order_line: Ordered::new(s, "order_line", districts, room * LINES, 54),
    };
    (tables, space)
}

/// Room at load and a little more.
fn room_min(scale: &Scale) -> u64 {
    u64::from(scale.orders_per_district) * ROOM_MIN.0 / ROOM_MIN.1 + 1
}

/// The population of so many thousandths of a warehouse.
fn part_of_a_warehouse(thousandths: u64) -> Scale {
    let whole = Scale::standard(1);
    let part = |number: u32| (u64::from(number) * thousandths / 1_000).max(1) as u32;
    Scale {
        warehouses: 1,
        items: part(whole.items),
        customers_per_district: part(whole.customers_per_district),
        orders_per_district: part(whole.orders_per_district),
        new_orders_per_district: part(whole.new_orders_per_district),
    }
}

/// The largest population that fits: as many warehouses as there is room for, or a part of one.
fn scale_for(pages: u64, page_bytes: u32) -> Result<Scale, String> {
    let fits = |scale: &Scale| tables(scale, room_min(scale), page_bytes).1.pages() <= pages;
    if let Some(warehouses) = largest(1, 1_000_000, |n| fits(&Scale::standard(n as u32))) {
        return Ok(Scale::standard(warehouses as u32));
    }
    if let Some(thousandths) = largest(1, 999, |n| fits(&part_of_a_warehouse(n))) {
        return Ok(part_of_a_warehouse(thousandths));
    }
    let smallest = part_of_a_warehouse(1);
    let least = tables(&smallest, room_min(&smallest), page_bytes).1.pages();
    Err(format!("TPC-C does not fit {pages} pages; give {least} or more"))
}

/// The population of so many warehouses, for which there must be room.
fn scale_of(warehouses: u32, pages: u64, page_bytes: u32) -> Result<Scale, String> {
    if !(1..=WAREHOUSES_MAX).contains(&warehouses) {
        return Err(format!("there are {warehouses} warehouses; give 1 to {WAREHOUSES_MAX}"));
    }
    let scale = Scale::standard(warehouses);
    let least = tables(&scale, room_min(&scale), page_bytes).1.pages();
    if pages < least {
        return Err(format!("{warehouses} warehouses do not fit {pages} pages; give {least} or more"));
    }
    Ok(scale)
}

/// Pages of a database of so many warehouses: the least that [`scale_of`] takes and 3 % more, which makes it
/// as large as the FaCE paper's (500 warehouses, 57 GB).
pub(super) fn pages_of(warehouses: u32, page_bytes: u32) -> u64 {
    let scale = Scale::standard(warehouses.clamp(1, WAREHOUSES_MAX));
    tables(&scale, room_min(&scale), page_bytes).1.pages() * 103 / 100
}

/// Most warehouses that can be asked for.
const WAREHOUSES_MAX: u32 = 100_000;

#[derive(Debug, Clone, Copy)]
struct District {
    /// Orders so far: the number of the next, from 0.
    next_order: u64,
    /// The oldest that is not delivered.
    undelivered: u64,
}

pub(super) struct Tpcc {
    scale: Scale,
    room: u64,
    tables: Tables,
    streams: Vec<RequestStream>,
    constants: NurandConstants,
    districts: Vec<District>,
    /// Rows of history so far.
    history: u64,
    random: Random,
}

impl Tpcc {
    /// The source and the names of its relations.
    pub(super) fn new(generate: &Generate) -> Result<(Tpcc, Vec<&'static str>), String> {
        let (pages, page_bytes) = (u64::from(generate.pages), generate.page_bytes);
        let scale = match generate.warehouses {
            Some(warehouses) => scale_of(warehouses, pages, page_bytes)?,
            None => scale_for(pages, page_bytes)?,
        };
        // What is left over is room to grow.
        let fits = |room| tables(&scale, room, page_bytes).1.pages() <= pages;
        let room = largest(room_min(&scale), 1 << 32, fits).unwrap_or(room_min(&scale));
        let (tables, space) = tables(&scale, room, page_bytes);
        let population = Population::new(scale, generate.seed).map_err(|e| e.to_string())?;
        let clients = generate.clients;
        let streams = (0..clients)
            .map(|client| RequestStream::new(&population, generate.seed, client, clients))
            .collect();
        let orders = u64::from(scale.orders_per_district);
        let begin =
            District { next_order: orders, undelivered: orders - u64::from(scale.new_orders_per_district) };
        let districts = (scale.warehouses * DISTRICTS_PER_WAREHOUSE) as usize;
        let source = Tpcc {
            scale,
            room,
            tables,
            streams,
            constants: NurandConstants::for_run(generate.seed, population.constants.last_name),
            districts: vec![begin; districts],
            history: districts as u64 * orders,
            random: Random::stream(generate.seed, &[0x0C]),
        };
        Ok((source, space.names().to_vec()))
    }

    fn read_warehouse(&self, warehouse: u32, change: bool, steps: &mut Steps) {
        let t = &self.tables;
        let row = u64::from(warehouse - 1);
        t.warehouse_key.read(t.warehouse_key.leaf_of(row, self.scale.warehouses.into()), steps);
        if change { t.warehouse.write(row, steps) } else { t.warehouse.read(row, steps) }
    }

    fn read_district(&self, district: u64, change: bool, steps: &mut Steps) {
        let t = &self.tables;
        t.district_key.read(t.district_key.leaf_of(district, self.districts.len() as u64), steps);
        if change { t.district.write(district, steps) } else { t.district.read(district, steps) }
    }

    /// The row of a customer whose number from 0 in the district is known.
    fn customer_row(&self, district: u64, customer: u64) -> u64 {
        district * u64::from(self.scale.customers_per_district) + customer
    }

    fn customers(&self) -> u64 {
        self.districts.len() as u64 * u64::from(self.scale.customers_per_district)
    }

    fn customer_by_number(&self, district: u64, customer: u64, change: bool, steps: &mut Steps) {
        let t = &self.tables;
        let row = self.customer_row(district, customer);
        t.customer_key.read(t.customer_key.leaf_of(row, self.customers()), steps);
        if change { t.customer.write(row, steps) } else { t.customer.read(row, steps) }
    }

    /// By number, or by last name: the middle one of three that bear it (clause 2.5.2.2). Returns the
    /// customer's number from 0.
    fn customer(&self, district: u64, choice: &CustomerChoice, change: bool, steps: &mut Steps) -> u64 {
        let per_district = u64::from(self.scale.customers_per_district);
        let name = match choice {
            CustomerChoice::Id(number) => {
                let customer = u64::from(number - 1);
                self.customer_by_number(district, customer, change, steps);
                return customer;
            }
            CustomerChoice::LastName(name) => name,
        };
        let t = &self.tables;
        // FNV-1a: which customers bear a name has to be the same each time, and nothing else.
        let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        });
        let place = self.customer_row(district, hash % per_district);
        t.customer_name.read(t.customer_name.leaf_of(place, self.customers()), steps);
        let namesakes = [hash, hash >> 16, hash >> 32].map(|hash| hash % per_district);
        for (index, customer) in namesakes.into_iter().enumerate() {
            let row = self.customer_row(district, customer);
            if index == 1 && change { t.customer.write(row, steps) } else { t.customer.read(row, steps) }
        }
        namesakes[1]
    }

    /// The leaves of an order's lines.
    fn line_leaves(&self, district: u64, order: u64) -> impl Iterator<Item = u64> {
        let lines = &self.tables.order_line;
        let (first, last) =
            (lines.leaf(district, order * LINES), lines.leaf(district, order * LINES + LINES - 1));
        [first, last].into_iter().take(if first == last { 1 } else { 2 })
    }

    fn new_order(
        &mut self,
        warehouse: u32,
        district: u64,
        customer: u32,
        lines: &[OrderLine],
        steps: &mut Steps,
    ) {
        self.read_warehouse(warehouse, false, steps);
        self.read_district(district, true, steps);
        self.customer_by_number(district, u64::from(customer - 1), false, steps);
        let order = self.districts[district as usize].next_order;
        self.districts[district as usize].next_order += 1;
        let t = &self.tables;
        t.orders.tree.write(t.orders.leaf(district, order), steps);
        let place = self.customer_row(district, u64::from(customer - 1));
        t.orders_customer.write(t.orders_customer.leaf_of(place, self.customers()), steps);
        t.new_order.tree.write(t.new_order.leaf(district, order), steps);
        for (number, line) in lines.iter().enumerate() {
            let item = u64::from(line.item - 1);
            t.item_key.read(
                t.item_key.leaf_of(item.min(u64::from(self.scale.items) - 1), self.scale.items.into()),
                steps,
            );
            if line.item > self.scale.items {
                // An item that does not exist (clause 2.4.1.4).
                steps.roll_back(NEW_ORDER);
                return;
            }
            t.item.read(item, steps);
            self.stock(line.supply_warehouse, item, true, steps);
            let row = order * LINES + (number as u64).min(LINES - 1);
            t.order_line.tree.write(t.order_line.leaf(district, row), steps);
        }
        steps.commit_kind(NEW_ORDER);
    }

    fn stock(&self, warehouse: u32, item: u64, change: bool, steps: &mut Steps) {
        let t = &self.tables;
        let items = u64::from(self.scale.items);
        let row = u64::from(warehouse - 1) * items + item;
        t.stock_key.read(t.stock_key.leaf_of(row, u64::from(self.scale.warehouses) * items), steps);
        if change { t.stock.write(row, steps) } else { t.stock.read(row, steps) }
    }

    fn delivery(&mut self, warehouse: u32, steps: &mut Steps) {
        for district in (0..DISTRICTS_PER_WAREHOUSE).map(|number| district_of(warehouse, number + 1)) {
            let District { next_order, undelivered } = self.districts[district as usize];
            // What has lost its place to newer orders is not there to be delivered.
            let order = undelivered.max(next_order.saturating_sub(self.room));
            let t = &self.tables;
            let leaf = t.new_order.leaf(district, order);
            if order == next_order {
                t.new_order.tree.read(leaf, steps);
                continue;
            }
            self.districts[district as usize].undelivered = order + 1;
            t.new_order.tree.write(leaf, steps);
            t.orders.tree.write(t.orders.leaf(district, order), steps);
            for leaf in self.line_leaves(district, order) {
                t.order_line.tree.write(leaf, steps);
            }
            let customer = u64::from(self.random.uniform(0, self.scale.customers_per_district - 1));
            self.customer_by_number(district, customer, true, steps);
        }
        steps.commit_kind(DELIVERY);
    }

    fn order_status(&mut self, district: u64, choice: &CustomerChoice, steps: &mut Steps) {
        let customer = self.customer(district, choice, false, steps);
        let t = &self.tables;
        let place = self.customer_row(district, customer);
        t.orders_customer.read(t.orders_customer.leaf_of(place, self.customers()), steps);
        // The customer's last order is one of as many as there are customers.
        let newest = self.districts[district as usize].next_order - 1;
        let back = u64::from(self.random.uniform(0, self.scale.customers_per_district - 1));
        let order = newest.saturating_sub(back.min(self.room - 1));
        t.orders.tree.read(t.orders.leaf(district, order), steps);
        for leaf in self.line_leaves(district, order) {
            t.order_line.tree.read(leaf, steps);
        }
        steps.commit_kind(ORDER_STATUS);
    }

    fn stock_level(&mut self, warehouse: u32, district: u64, steps: &mut Steps) {
        self.read_district(district, false, steps);
        let newest = self.districts[district as usize].next_order;
        let orders = newest.saturating_sub(STOCK_LEVEL_ORDERS)..newest;
        let mut before = None;
        for leaf in orders.clone().flat_map(|order| self.line_leaves(district, order)) {
            if before.replace(leaf) != Some(leaf) {
                self.tables.order_line.tree.read(leaf, steps);
            }
        }
        for _ in 0..(orders.end - orders.start) * LINES {
            let item = u64::from(self.constants.item(&mut self.random, self.scale.items) - 1);
            self.stock(warehouse, item, false, steps);
        }
        steps.commit_kind(STOCK_LEVEL);
    }
}

/// A district's number from 0.
fn district_of(warehouse: u32, district: u32) -> u64 {
    u64::from((warehouse - 1) * DISTRICTS_PER_WAREHOUSE + district - 1)
}

impl Source for Tpcc {
    fn turn_max(&self) -> u32 {
        8
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn refill(&mut self, client: u32, steps: &mut Steps) {
        match self.streams[client as usize].next_request() {
            Request::NewOrder { warehouse, district, customer, lines } => {
                self.new_order(warehouse, district_of(warehouse, district), customer, &lines, steps);
            }
            Request::Payment {
                warehouse, district, customer_warehouse, customer_district, customer, ..
            } => {
                self.read_warehouse(warehouse, true, steps);
                self.read_district(district_of(warehouse, district), true, steps);
                self.customer(district_of(customer_warehouse, customer_district), &customer, true, steps);
                self.tables.history.write(self.history, steps);
                self.history += 1;
                steps.commit_kind(PAYMENT);
            }
            Request::OrderStatus { warehouse, district, customer } => {
                self.order_status(district_of(warehouse, district), &customer, steps);
            }
            Request::Delivery { warehouse, .. } => self.delivery(warehouse, steps),
            Request::StockLevel { warehouse, district, .. } => {
                self.stock_level(warehouse, district_of(warehouse, district), steps);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn as_many_warehouses_as_fit_are_taken() {
        // The NFA paper's database.
        let scale = scale_for(451_166, 4096).unwrap();
        assert!(scale.is_standard() && (10..20).contains(&scale.warehouses), "{scale:?}");
        let small = scale_for(5_000, 4096).unwrap();
        assert!(!small.is_standard() && small.warehouses == 1, "{small:?}");
        let error = scale_for(10, 4096).unwrap_err();
        let least: u64 = error.rsplit("give ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(scale_for(least, 4096).is_ok() && scale_for(least - 1, 4096).is_err(), "{error}");
    }

    #[test]
    fn the_papers_database_has_the_papers_size() {
        for (warehouses, gigabytes) in [(200, 21.0), (500, 57.0), (1_000, 108.0)] {
            let bytes = pages_of(warehouses, 4096) as f64 * 4096.0;
            assert!(
                (bytes / 1e9 / gigabytes - 1.0).abs() < 0.1,
                "{warehouses} warehouses have {bytes} bytes"
            );
        }
    }

    #[test]
    fn a_warehouse_has_the_size_that_the_specification_computes() {
        // Clause 4.2.2's lengths and the overhead of rows: about 95 MB without indexes.
        let scale = Scale::standard(10);
        let (_, space) = tables(&scale, u64::from(scale.orders_per_district), 4096);
        let megabytes = space.pages() as f64 * 4096.0 / 1e6 / 10.0;
        assert!((85.0..115.0).contains(&megabytes), "{megabytes} MB");
    }
}
