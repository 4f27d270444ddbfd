//! The requests keep the mix and the percentages of the specification and depend on the seed alone.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use mezzanine_workload::{
    CustomerChoice, DECK_CARDS, Population, Request, RequestStream, Scale, TransactionType,
};

fn population(warehouses: u32) -> Population {
    Population::new(Scale::standard(warehouses), 1).unwrap()
}

fn requests(stream: &mut RequestStream, count: usize) -> Vec<Request> {
    (0..count).map(|_| stream.next_request()).collect()
}

fn warehouse(request: &Request) -> u32 {
    match request {
        Request::NewOrder { warehouse, .. }
        | Request::Payment { warehouse, .. }
        | Request::OrderStatus { warehouse, .. }
        | Request::Delivery { warehouse, .. }
        | Request::StockLevel { warehouse, .. } => *warehouse,
    }
}

#[test]
fn every_deck_holds_exactly_the_mix_in_an_order_of_its_own() {
    let mut stream = RequestStream::new(&population(2), 5, 0, 1);
    let mut orders = HashSet::new();
    for _ in 0..50 {
        let deck = requests(&mut stream, DECK_CARDS);
        let kinds: Vec<TransactionType> = deck.iter().map(Request::transaction_type).collect();
        for kind in TransactionType::ALL {
            assert_eq!(kinds.iter().filter(|&&found| found == kind).count(), kind.cards() as usize);
        }
        assert!(orders.insert(kinds), "a deck was dealt in the same order again");
    }
}

#[test]
fn the_mix_is_at_least_the_minimum_of_clause_5_2_3() {
    let cards: Vec<u32> = TransactionType::ALL.iter().map(|kind| kind.cards()).collect();
    assert_eq!(cards, [45, 43, 4, 4, 4]);
    assert_eq!(cards.iter().sum::<u32>() as usize, DECK_CARDS);
}

#[test]
fn a_stream_depends_on_seed_and_client_alone() {
    let population = population(3);
    let stream = |seed, client| requests(&mut RequestStream::new(&population, seed, client, 4), 1_000);
    assert_eq!(stream(5, 0), stream(5, 0));
    assert_ne!(stream(5, 0), stream(5, 1));
    assert_ne!(stream(5, 0), stream(6, 0));
}

#[test]
fn shares_are_those_of_the_specification() {
    let population = population(10);
    let all = requests(&mut RequestStream::new(&population, 9, 0, 1), 200_000);
    let (mut orders, mut rolled_back, mut lines, mut remote_lines) = (0, 0, 0, 0);
    let (mut payments, mut remote_payments, mut choices, mut by_name) = (0, 0, 0, 0);
    let mut count_choice = |choice: &CustomerChoice| {
        choices += 1;
        by_name += u32::from(matches!(choice, CustomerChoice::LastName(_)));
    };
    for request in &all {
        match request {
            Request::NewOrder { warehouse, district, customer, lines: own } => {
                orders += 1;
                assert!((1..=10).contains(district) && (1..=3_000).contains(customer));
                assert!((5..=15).contains(&own.len()));
                let (last, others) = own.split_last().unwrap();
                assert!(others.iter().all(|line| (1..=100_000).contains(&line.item)));
                assert!(own.iter().all(|line| (1..=10).contains(&line.quantity)));
                rolled_back += u32::from(last.item == 100_001);
                lines += own.len();
                remote_lines += own.iter().filter(|line| line.supply_warehouse != *warehouse).count();
            }
            Request::Payment {
                warehouse,
                district,
                customer_warehouse,
                customer_district,
                customer,
                amount,
            } => {
                payments += 1;
                let home = customer_warehouse == warehouse;
                assert!(!home || customer_district == district);
                assert!((100..=500_000).contains(amount));
                remote_payments += u32::from(!home);
                count_choice(customer);
            }
            Request::OrderStatus { customer, .. } => count_choice(customer),
            Request::Delivery { carrier, .. } => assert!((1..=10).contains(carrier)),
            Request::StockLevel { threshold, .. } => assert!((10..=20).contains(threshold)),
        }
    }
    let near = |part: f64, whole: f64, expected: f64, what: &str| {
        let share = part / whole;
        // Five standard deviations.
        let slack = 5.0 * (expected * (1.0 - expected) / whole).sqrt();
        assert!((share - expected).abs() < slack, "{what}: {share}");
    };
    near(f64::from(rolled_back), f64::from(orders), 0.01, "New-Orders rolled back");
    near(remote_lines as f64, lines as f64, 0.01, "lines from a remote warehouse");
    near(f64::from(remote_payments), f64::from(payments), 0.15, "payments of a remote customer");
    near(f64::from(by_name), f64::from(choices), 0.60, "customers by last name");
}

#[test]
fn clients_share_the_warehouses_evenly() {
    let population = population(5);
    for clients in [1, 3, 50, 70] {
        let mut counts = [0_u32; 5];
        for client in 0..clients {
            let mut stream = RequestStream::new(&population, 2, client, clients);
            for request in requests(&mut stream, 21_000 / clients as usize) {
                counts[warehouse(&request) as usize - 1] += 1;
            }
        }
        let (low, high) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        // 70 clients share 50 terminals, so two warehouses have 10 more of them than the others.
        let bound = if clients == 70 { 2.2 } else { 1.15 };
        assert!(f64::from(*high) / f64::from(*low) < bound, "{clients} clients: {counts:?}");
    }
}

#[test]
fn with_one_warehouse_nothing_is_remote() {
    let population = population(1);
    let mut stream = RequestStream::new(&population, 2, 0, 1);
    for request in requests(&mut stream, 10_000) {
        match request {
            Request::NewOrder { lines, .. } => {
                assert!(lines.iter().all(|line| line.supply_warehouse == 1));
            }
            Request::Payment { customer_warehouse, .. } => assert_eq!(customer_warehouse, 1),
            _ => {}
        }
    }
}
