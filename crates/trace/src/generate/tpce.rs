//! TPC-E: what its transactions touch (TPC Benchmark E, section 3), in the mix of section 6.
//!
//! A transaction refers to each leaf or row page that it touches once, the pages that it changes with a
//! write; pages above the leaves of indexes are left out as always in memory. So reads have the share, 87 to
//! 90 %, that is published for the benchmark's reads and writes of its storage, which a stream of every
//! single look into a page would not show.
//!
//! Customers come in blocks of 1,000, the blocks alike; in a block NURand picks, so that some trade far more
//! than others. Trades, their history, settlements and cash transactions lie in the order of time and are
//! appended; an account makes, on average, every A-th trade of A accounts.

use std::collections::HashSet;

use mezzanine_workload::{NurandConstants, Random};

use super::Generate;
use super::layout::{Heap, Space, Tree, largest};
use super::stream::{Source, Steps};
use crate::dense::Hashing;

/// Customers whose popularity NURand decides, the benchmark's load unit.
const BLOCK: u64 = 1_000;

/// The smallest database of the benchmark. In smaller ones customers are as many as hundreds of pages, and
/// have made fewer trades.
const CUSTOMERS_STANDARD: u64 = 5_000;
const PAGES_PER_CUSTOMER_SMALL: u64 = 100;

/// Trades of a customer at load: 300 days of 8 hours, a trade of every 500 customers each second.
const TRADES_PER_CUSTOMER: u64 = 17_280;

const ACCOUNTS_PER_CUSTOMER: u64 = 5;

/// Days for which the market's prices are kept.
const DAYS: u64 = 1_305;

/// Kinds of transactions, and how many of 1,000 they are (clause 6.2.2.1).
const MIX: [(Kind, u32); 10] = [
    (Kind::BrokerVolume, 49),
    (Kind::CustomerPosition, 130),
    (Kind::MarketFeed, 10),
    (Kind::MarketWatch, 180),
    (Kind::SecurityDetail, 140),
    (Kind::TradeLookup, 80),
    (Kind::TradeOrder, 101),
    (Kind::TradeResult, 100),
    (Kind::TradeStatus, 190),
    (Kind::TradeUpdate, 20),
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    BrokerVolume,
    CustomerPosition,
    MarketFeed,
    MarketWatch,
    SecurityDetail,
    TradeLookup,
    TradeOrder,
    TradeResult,
    TradeStatus,
    TradeUpdate,
}

/// Numbers of rows.
#[derive(Debug, Clone, Copy)]
struct Counts {
    customers: u64,
    accounts: u64,
    securities: u64,
    companies: u64,
    brokers: u64,
    trades: u64,
}

impl Counts {
    fn new(customers: u64, trades: u64) -> Counts {
        Counts {
            customers,
            accounts: customers * ACCOUNTS_PER_CUSTOMER,
            securities: (customers * 685 / 1_000).max(20),
            companies: (customers / 2).max(10),
            brokers: (customers / 100).max(1),
            trades,
        }
    }
}

struct Tables {
    customer: Heap,
    account: Heap,
    broker: Heap,
    holding_summary: Heap,
    holding: Heap,
    trade_request: Heap,
    security: Heap,
    last_trade: Heap,
    company: Heap,
    financial: Heap,
    watch_item: Heap,
    news: Heap,
    /// In the order of date, then security.
    daily_market: Heap,
    trade: Heap,
    trade_history: Heap,
    settlement: Heap,
    cash_transaction: Heap,
    holding_history: Heap,
    trade_account: Tree,
    trade_security: Tree,
}

/// The tables; lengths of rows are what the columns of clause 2.2 come to.
fn tables(counts: &Counts, page_bytes: u32) -> (Tables, Space) {
    let mut space = Space::new(page_bytes);
    let s = &mut space;
    let tables = Tables {
        customer: s.heap("customer", counts.customers, 280),
        account: s.heap("customer_account", counts.accounts, 80),
        broker: s.heap("broker", counts.brokers, 70),
        holding_summary: s.heap("holding_summary", counts.accounts * 10, 24),
        holding: s.heap("holding", counts.accounts * 20, 40),
        trade_request: s.heap("trade_request", counts.customers, 60),
        security: s.heap("security", counts.securities, 150),
        last_trade: s.heap("last_trade", counts.securities, 44),
        company: s.heap("company", counts.companies, 260),
        financial: s.heap("financial", counts.companies * 20, 110),
        watch_item: s.heap("watch_item", counts.customers * 100, 24),
        news: s.heap("news_item", counts.companies * 2, 4_000),
        daily_market: s.heap("daily_market", counts.securities * DAYS, 44),
        trade: s.heap("trade", counts.trades, 115),
        trade_history: s.heap("trade_history", counts.trades * 12 / 5, 20),
        settlement: s.heap("settlement", counts.trades, 50),
        cash_transaction: s.heap("cash_transaction", counts.trades * 23 / 25, 110),
        holding_history: s.heap("holding_history", counts.trades * 4 / 3, 24),
        trade_account: s.index("trade_account", counts.trades),
        trade_security: s.index("trade_security", counts.trades),
    };
    (tables, space)
}

/// The customers and trades that fit: of the benchmark's own trades per customer if there is room for 5,000
/// customers with them.
fn counts_for(pages: u64, page_bytes: u32) -> Result<Counts, String> {
    let fits = |counts: &Counts| tables(counts, page_bytes).1.pages() <= pages;
    let whole = |customers| Counts::new(customers, customers * TRADES_PER_CUSTOMER);
    let customers = match largest(CUSTOMERS_STANDARD, 1 << 32, |customers| fits(&whole(customers))) {
        Some(customers) => customers,
        None => (pages / PAGES_PER_CUSTOMER_SMALL).clamp(1, CUSTOMERS_STANDARD),
    };
    let trades = largest(customers * 10, customers << 20, |trades| fits(&Counts::new(customers, trades)));
    trades.map(|trades| Counts::new(customers, trades)).ok_or_else(|| {
        let least = (1..).map(|n| n * 100).find(|pages| {
            let customers = (pages / PAGES_PER_CUSTOMER_SMALL).clamp(1, CUSTOMERS_STANDARD);
            tables(&Counts::new(customers, customers * 10), page_bytes).1.pages() <= *pages
        });
        format!("TPC-E does not fit {pages} pages; give {} or more", least.unwrap_or(u64::MAX))
    })
}

pub(super) struct Tpce {
    counts: Counts,
    tables: Tables,
    constants: NurandConstants,
    random: Random,
    /// Trades so far; their rows are appended.
    trades: u64,
    touched: Touched,
}

/// The pages of one transaction in the order in which it touches them.
#[derive(Default)]
struct Touched {
    seen: HashSet<u64, Hashing>,
    pages: Vec<(u32, u64)>,
    changed: HashSet<u64, Hashing>,
}

impl Touched {
    fn page(&mut self, relation: u32, page: u64, change: bool) {
        if self.seen.insert(page) {
            self.pages.push((relation, page));
        }
        if change {
            self.changed.insert(page);
        }
    }

    fn row(&mut self, table: &Heap, row: u64) {
        self.page(table.relation(), table.page(row), false);
    }

    fn change(&mut self, table: &Heap, row: u64) {
        self.page(table.relation(), table.page(row), true);
    }

    fn leaf(&mut self, index: &Tree, leaf: u64, change: bool) {
        self.page(index.relation(), index.page(leaf), change);
    }

    /// Hands the transaction over and forgets it.
    fn commit(&mut self, steps: &mut Steps) {
        for (relation, page) in self.pages.drain(..) {
            if self.changed.contains(&page) {
                steps.write(relation, page)
            } else {
                steps.read(relation, page)
            }
        }
        self.seen.clear();
        self.changed.clear();
        steps.commit();
    }
}

impl Tpce {
    /// The source and the names of its relations.
    pub(super) fn new(generate: &Generate) -> Result<(Tpce, Vec<&'static str>), String> {
        let counts = counts_for(generate.pages.into(), generate.page_bytes)?;
        let (tables, space) = tables(&counts, generate.page_bytes);
        let source = Tpce {
            counts,
            tables,
            constants: NurandConstants::for_load(generate.seed),
            random: Random::stream(generate.seed, &[0x0E]),
            trades: counts.trades,
            touched: Touched::default(),
        };
        Ok((source, space.names().to_vec()))
    }

    /// A number below `bound`.
    fn any(&mut self, bound: u64) -> u64 {
        u64::from(self.random.uniform(0, bound.clamp(1, u64::from(u32::MAX)) as u32 - 1))
    }

    fn customer(&mut self) -> u64 {
        let blocks = self.counts.customers.div_ceil(BLOCK);
        let begin = self.any(blocks) * BLOCK;
        let in_block = BLOCK.min(self.counts.customers - begin) as u32;
        begin + u64::from(self.constants.customer(&mut self.random, in_block) - 1)
    }

    fn account(&mut self) -> u64 {
        self.customer() * ACCOUNTS_PER_CUSTOMER + self.any(ACCOUNTS_PER_CUSTOMER)
    }

    /// The k-th trade back of some account.
    fn trade_back(&mut self, k: u64) -> u64 {
        let accounts = self.counts.accounts;
        let back = k * accounts + self.any(accounts) + 1;
        // The history wraps: what is older than it is as good as any other.
        self.trades - 1 - back % self.counts.trades
    }

    /// A trade anywhere in the history.
    fn trade_anywhere(&mut self) -> u64 {
        self.trades - 1 - self.any(self.counts.trades)
    }

    /// What belongs to a trade and is read together.
    fn look_up(&mut self, trade: u64) {
        let (t, touched) = (&self.tables, &mut self.touched);
        touched.row(&t.trade, trade);
        touched.row(&t.settlement, trade);
        touched.row(&t.cash_transaction, trade * 23 / 25);
        touched.row(&t.trade_history, trade * 12 / 5);
    }

    /// Twenty trades: named one by one, or in a row of an account's or a security's.
    fn twenty_trades(&mut self) -> [u64; 20] {
        let by_number = self.any(3) == 0;
        if by_number {
            return std::array::from_fn(|_| self.trade_anywhere());
        }
        let leaf = self.any(self.tables.trade_account.leaves());
        self.touched.leaf(&self.tables.trade_account, leaf, false);
        // Those of one day lie near each other.
        let first = self.trade_anywhere();
        let newest = self.trades - 1;
        std::array::from_fn(|n| (first + n as u64).min(newest))
    }

    fn broker_volume(&mut self) {
        for _ in 0..20 {
            let (broker, request) =
                (self.any(self.counts.brokers), self.any(self.tables.trade_request.rows()));
            self.touched.row(&self.tables.broker, broker);
            self.touched.row(&self.tables.trade_request, request);
        }
    }

    fn customer_position(&mut self) {
        let customer = self.customer();
        self.touched.row(&self.tables.customer, customer);
        for account in customer * ACCOUNTS_PER_CUSTOMER..(customer + 1) * ACCOUNTS_PER_CUSTOMER {
            self.touched.row(&self.tables.account, account);
            for holding in 0..10 {
                self.touched.row(&self.tables.holding_summary, account * 10 + holding);
            }
            let security = self.any(self.counts.securities);
            self.touched.row(&self.tables.last_trade, security);
        }
        if self.any(2) == 0 {
            for k in 0..10 {
                let trade = self.trade_back(k);
                let (t, touched) = (&self.tables, &mut self.touched);
                touched.row(&t.trade, trade);
                touched.row(&t.trade_history, trade * 12 / 5);
            }
        }
    }

    /// Twenty prices, and the limit orders that they set off.
    fn market_feed(&mut self) {
        for _ in 0..20 {
            let security = self.any(self.counts.securities);
            self.touched.change(&self.tables.last_trade, security);
        }
        for _ in 0..4 {
            let request = self.any(self.tables.trade_request.rows());
            let trade = self.trade_back(0);
            let (t, touched) = (&self.tables, &mut self.touched);
            touched.change(&t.trade_request, request);
            touched.change(&t.trade, trade);
        }
        self.touched.change(&self.tables.trade_history, self.trades * 12 / 5);
    }

    /// The securities of a watch list: their newest price and that of one day.
    fn market_watch(&mut self) {
        let customer = self.customer();
        let day = self.any(DAYS);
        self.touched.row(&self.tables.watch_item, customer * 100);
        for _ in 0..9 {
            let security = self.any(self.counts.securities);
            let (t, touched) = (&self.tables, &mut self.touched);
            touched.row(&t.security, security);
            touched.row(&t.last_trade, security);
            touched.row(&t.daily_market, day * self.counts.securities + security);
        }
    }

    fn security_detail(&mut self) {
        let security = self.any(self.counts.securities);
        let company = security % self.counts.companies;
        let day = self.any(DAYS - 20);
        let (t, touched) = (&self.tables, &mut self.touched);
        touched.row(&t.security, security);
        touched.row(&t.company, company);
        touched.row(&t.last_trade, security);
        touched.row(&t.news, company * 2);
        touched.row(&t.news, company * 2 + 1);
        for n in 0..20 {
            touched.row(&t.financial, company * 20 + n);
        }
        for n in 0..5 {
            touched.row(&t.daily_market, (day + n) * self.counts.securities + security);
        }
    }

    fn trade_lookup(&mut self) {
        for trade in self.twenty_trades() {
            self.look_up(trade);
        }
    }

    fn trade_update(&mut self) {
        let what = self.any(3);
        for trade in self.twenty_trades() {
            self.look_up(trade);
            let (t, touched) = (&self.tables, &mut self.touched);
            match what {
                0 => touched.change(&t.trade, trade),
                1 => touched.change(&t.settlement, trade),
                _ => touched.change(&t.cash_transaction, trade * 23 / 25),
            }
        }
    }

    fn trade_order(&mut self) {
        let account = self.account();
        let (security, broker) = (self.any(self.counts.securities), self.any(self.counts.brokers));
        let request = self.any(self.tables.trade_request.rows());
        let is_limit = self.any(5) < 2;
        let trade = self.trades;
        self.trades += 1;
        let by_account = self.leaf_of_account(account);
        let by_security = self.tables.trade_security.leaf_of(security, self.counts.securities);
        let (t, touched) = (&self.tables, &mut self.touched);
        touched.row(&t.account, account);
        touched.row(&t.customer, account / ACCOUNTS_PER_CUSTOMER);
        touched.row(&t.broker, broker);
        touched.row(&t.company, security % self.counts.companies);
        touched.row(&t.security, security);
        touched.row(&t.last_trade, security);
        touched.row(&t.holding_summary, account * 10);
        touched.row(&t.holding, account * 20);
        touched.change(&t.trade, trade);
        touched.change(&t.trade_history, trade * 12 / 5);
        touched.leaf(&t.trade_account, by_account, true);
        touched.leaf(&t.trade_security, by_security, true);
        if is_limit {
            touched.change(&t.trade_request, request);
        }
    }

    /// A trade that was ordered a moment ago is completed.
    fn trade_result(&mut self) {
        let account = self.account();
        let (security, broker) = (self.any(self.counts.securities), self.any(self.counts.brokers));
        let back = self.any(100.min(self.counts.trades));
        let trade = self.trades - 1 - back;
        let (t, touched) = (&self.tables, &mut self.touched);
        touched.row(&t.customer, account / ACCOUNTS_PER_CUSTOMER);
        touched.row(&t.security, security);
        touched.change(&t.trade, trade);
        touched.change(&t.trade_history, trade * 12 / 5);
        touched.change(&t.holding_summary, account * 10);
        touched.change(&t.holding, account * 20);
        touched.change(&t.holding_history, trade * 4 / 3);
        touched.change(&t.settlement, trade);
        touched.change(&t.cash_transaction, trade * 23 / 25);
        touched.change(&t.account, account);
        touched.change(&t.broker, broker);
    }

    /// The fifty newest trades of an account.
    fn trade_status(&mut self) {
        let account = self.account();
        let leaf = self.leaf_of_account(account);
        let (t, touched) = (&self.tables, &mut self.touched);
        touched.row(&t.customer, account / ACCOUNTS_PER_CUSTOMER);
        touched.row(&t.account, account);
        touched.leaf(&t.trade_account, leaf, false);
        for k in 0..7 {
            let trade = self.trade_back(k);
            self.touched.row(&self.tables.trade, trade);
        }
    }

    fn leaf_of_account(&self, account: u64) -> u64 {
        self.tables.trade_account.leaf_of(account, self.counts.accounts)
    }
}

impl Source for Tpce {
    fn turn_max(&self) -> u32 {
        8
    }

    fn refill(&mut self, _client: u32, steps: &mut Steps) {
        let mut card = self.random.uniform(0, 999);
        let drawn = MIX.iter().find(|(_, share)| {
            let is_it = card < *share;
            card = card.saturating_sub(*share);
            is_it
        });
        match drawn.map_or(Kind::TradeStatus, |(kind, _)| *kind) {
            Kind::BrokerVolume => self.broker_volume(),
            Kind::CustomerPosition => self.customer_position(),
            Kind::MarketFeed => self.market_feed(),
            Kind::MarketWatch => self.market_watch(),
            Kind::SecurityDetail => self.security_detail(),
            Kind::TradeLookup => self.trade_lookup(),
            Kind::TradeOrder => self.trade_order(),
            Kind::TradeResult => self.trade_result(),
            Kind::TradeStatus => self.trade_status(),
            Kind::TradeUpdate => self.trade_update(),
        }
        self.touched.commit(steps);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_mix_is_whole() {
        assert_eq!(MIX.iter().map(|(_, share)| share).sum::<u32>(), 1_000);
    }

    #[test]
    fn large_databases_have_the_benchmarks_trades() {
        let counts = counts_for(20_000_000, 4096).unwrap();
        assert!(counts.customers > CUSTOMERS_STANDARD, "{counts:?}");
        let each = counts.trades / counts.customers;
        assert!(each.abs_diff(TRADES_PER_CUSTOMER) < 20, "{counts:?}");
        let small = counts_for(100_000, 4096).unwrap();
        assert_eq!(small.customers, 1_000);
        assert!(counts_for(10, 4096).unwrap_err().contains("give "));
    }
}
