//! What a terminal enters (the "input data" of clauses 2.4.1 to 2.8.1) and in which mix (clause 5.2.3).
//!
//! A client's requests depend on the seed, the client's number and the population alone, never on the
//! database's answers or the clock, so two runs with the same seed ask for the same work.

use crate::population::Population;
use crate::random::{NurandConstants, Random, last_name};
use crate::scale::DISTRICTS_PER_WAREHOUSE;

/// One of the five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionType {
    /// Clause 2.4.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6.
    OrderStatus,
    /// Clause 2.7.
    Delivery,
    /// Clause 2.8.
    StockLevel,
}

impl TransactionType {
    /// All five, in the order of the specification; [`index`](Self::index) is the place in here.
    pub const ALL: [TransactionType; 5] =
        [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// From 0 to 4.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name as tables and JSON print it.
    pub fn name(self) -> &'static str {
        ["new_order", "payment", "order_status", "delivery", "stock_level"][self.index()]
    }

    /// Cards in a deck of 100: the minimum mix of clause 5.2.3, the rest being New-Orders.
    pub fn cards(self) -> u32 {
        [45, 43, 4, 4, 4][self.index()]
    }
}

/// Cards in a client's deck.
pub const DECK_CARDS: usize = 100;

/// How a customer is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CustomerChoice {
    /// By number.
    Id(u32),
    /// By last name; the middle one of those who bear it.
    LastName(String),
}

/// A line of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderLine {
    /// The item; one above the largest when the order is to be rolled back.
    pub item: u32,
    /// The warehouse that supplies it.
    pub supply_warehouse: u32,
    /// 1 to 10.
    pub quantity: u32,
}

/// The input of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Clause 2.4.1.
    NewOrder {
        /// Home warehouse.
        warehouse: u32,
        /// Any of its districts.
        district: u32,
        /// The customer.
        customer: u32,
        /// 5 to 15 lines.
        lines: Vec<OrderLine>,
    },
    /// Clause 2.5.1.
    Payment {
        /// Home warehouse.
        warehouse: u32,
        /// Any of its districts.
        district: u32,
        /// The customer's warehouse, in 15 % of the cases another one.
        customer_warehouse: u32,
        /// The customer's district.
        customer_district: u32,
        /// The customer.
        customer: CustomerChoice,
        /// Cents, 1.00 to 5,000.00.
        amount: i64,
    },
    /// Clause 2.6.1.
    OrderStatus {
        /// Home warehouse.
        warehouse: u32,
        /// Any of its districts.
        district: u32,
        /// The customer.
        customer: CustomerChoice,
    },
    /// Clause 2.7.1.
    Delivery {
        /// Home warehouse.
        warehouse: u32,
        /// 1 to 10.
        carrier: u32,
    },
    /// Clause 2.8.1.
    StockLevel {
        /// Home warehouse.
        warehouse: u32,
        /// The terminal's district.
        district: u32,
        /// 10 to 20.
        threshold: u32,
    },
}

impl Request {
    /// Which of the five it is.
    pub fn transaction_type(&self) -> TransactionType {
        match self {
            Request::NewOrder { .. } => TransactionType::NewOrder,
            Request::Payment { .. } => TransactionType::Payment,
            Request::OrderStatus { .. } => TransactionType::OrderStatus,
            Request::Delivery { .. } => TransactionType::Delivery,
            Request::StockLevel { .. } => TransactionType::StockLevel,
        }
    }
}

/// The requests of one client, without end.
///
/// The ten terminals of every warehouse are dealt to the clients in turn; for each request a client picks one
/// of its own. So a few clients without think time touch the whole database as evenly as ten terminals per
/// warehouse with think time would.
#[derive(Clone, Debug)]
pub struct RequestStream {
    random: Random,
    constants: NurandConstants,
    population: Population,
    deck: [TransactionType; DECK_CARDS],
    next_card: usize,
    first_terminal: u32,
    terminal_step: u32,
    terminals: u32,
}

impl RequestStream {
    /// The stream of client number `client` (from 0) of `clients`.
    pub fn new(population: &Population, seed: u64, client: u32, clients: u32) -> Self {
        assert!(client < clients, "client {client} of {clients}");
        let all = population.scale.warehouses * DISTRICTS_PER_WAREHOUSE;
        let first_terminal = client % all;
        let terminals = if clients >= all { 1 } else { (all - first_terminal).div_ceil(clients) };
        let mut deck = [TransactionType::NewOrder; DECK_CARDS];
        let cards = TransactionType::ALL.iter().flat_map(|&kind| (0..kind.cards()).map(move |_| kind));
        for (place, card) in deck.iter_mut().zip(cards) {
            *place = card;
        }
        Self {
            random: Random::stream(seed, &[0x7C, u64::from(client)]),
            constants: NurandConstants::for_run(seed, population.constants.last_name),
            population: *population,
            deck,
            next_card: DECK_CARDS,
            first_terminal,
            terminal_step: clients,
            terminals,
        }
    }

    /// The next request.
    pub fn next_request(&mut self) -> Request {
        let kind = self.draw();
        let terminal = self.first_terminal + self.terminal_step * self.random.uniform(0, self.terminals - 1);
        let warehouse = terminal / DISTRICTS_PER_WAREHOUSE + 1;
        match kind {
            TransactionType::NewOrder => self.new_order(warehouse),
            TransactionType::Payment => self.payment(warehouse),
            TransactionType::OrderStatus => {
                let district = self.district();
                Request::OrderStatus { warehouse, district, customer: self.customer_choice() }
            }
            TransactionType::Delivery => Request::Delivery { warehouse, carrier: self.random.uniform(1, 10) },
            TransactionType::StockLevel => Request::StockLevel {
                warehouse,
                district: terminal % DISTRICTS_PER_WAREHOUSE + 1,
                threshold: self.random.uniform(10, 20),
            },
        }
    }

    /// The card deck of clause 5.2.4.2: shuffled again whenever it is used up.
    fn draw(&mut self) -> TransactionType {
        if self.next_card == DECK_CARDS {
            self.random.shuffle(&mut self.deck);
            self.next_card = 0;
        }
        self.next_card += 1;
        self.deck[self.next_card - 1]
    }

    fn new_order(&mut self, warehouse: u32) -> Request {
        let district = self.district();
        let customer = self.customer_id();
        let count = self.random.uniform(5, 15);
        let roll_back = self.random.percent(1);
        let items = self.population.scale.items;
        let lines = (1..=count)
            .map(|number| {
                let item = self.constants.item(&mut self.random, items);
                let item = if roll_back && number == count { items + 1 } else { item };
                let remote = self.random.percent(1);
                let supply_warehouse = if remote { self.other_warehouse(warehouse) } else { warehouse };
                OrderLine { item, supply_warehouse, quantity: self.random.uniform(1, 10) }
            })
            .collect();
        Request::NewOrder { warehouse, district, customer, lines }
    }

    fn payment(&mut self, warehouse: u32) -> Request {
        let district = self.district();
        let home = self.random.percent(85);
        let (customer_warehouse, customer_district) =
            if home { (warehouse, district) } else { (self.other_warehouse(warehouse), self.district()) };
        Request::Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.customer_choice(),
            amount: i64::from(self.random.uniform(100, 500_000)),
        }
    }

    fn district(&mut self) -> u32 {
        self.random.uniform(1, DISTRICTS_PER_WAREHOUSE)
    }

    /// Any warehouse but this one, unless it is the only one.
    fn other_warehouse(&mut self, home: u32) -> u32 {
        let warehouses = self.population.scale.warehouses;
        if warehouses == 1 {
            return home;
        }
        let other = self.random.uniform(1, warehouses - 1);
        if other < home { other } else { other + 1 }
    }

    fn customer_id(&mut self) -> u32 {
        self.constants.customer(&mut self.random, self.population.scale.customers_per_district)
    }

    fn customer_choice(&mut self) -> CustomerChoice {
        if self.random.percent(60) {
            let names = self.population.scale.last_names();
            CustomerChoice::LastName(last_name(self.constants.last_name(&mut self.random, names)))
        } else {
            CustomerChoice::Id(self.customer_id())
        }
    }
}
