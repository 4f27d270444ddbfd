//! Generated streams: the same from the same seed, within their database, and shaped as documented.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use mezzanine_trace::{ClientStep, Dense, Generate, Op, Request, Shape};

fn stream(generate: &Generate) -> Vec<Request> {
    generate.generate().unwrap().collect()
}

fn share_of_writes(requests: &[Request]) -> f64 {
    let of = |op| requests.iter().filter(|request| request.op == op).count() as f64;
    of(Op::Write) / (of(Op::Read) + of(Op::Write))
}

/// The share of requests that goes to the most popular tenth of the pages that are asked for at all.
fn share_of_the_hottest_tenth(requests: &[Request]) -> f64 {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for request in requests.iter().filter(|request| !request.op.is_mark()) {
        *counts.entry(request.page).or_default() += 1;
    }
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let sum = |counts: &[u32]| counts.iter().map(|count| f64::from(*count)).sum::<f64>();
    sum(&counts[..counts.len() / 10]) / sum(&counts)
}

#[test]
fn the_same_seed_gives_the_same_stream_and_another_one_another() {
    for &shape in Shape::all() {
        let generate = Generate::new(shape, 50_000, 20_000, 7);
        let requests = stream(&generate);
        assert_eq!(stream(&generate), requests, "{shape}");
        assert_ne!(stream(&Generate { seed: 8, ..generate }), requests, "{shape}");
        // Longer ones go on where shorter ones end.
        let longer = stream(&Generate { requests: 30_000, ..generate });
        assert_eq!(longer[..requests.len()], requests, "{shape}");
    }
}

#[test]
fn requests_are_as_many_as_asked_for_and_stay_within_the_database() {
    for &shape in Shape::all() {
        for pages in [1_000, 40_000, 500_000] {
            for clients in [1, 3, 200] {
                let generate = Generate { clients, ..Generate::new(shape, pages, 30_000, 1) };
                let mut generator = generate.generate().unwrap();
                let relations = generator.relations().len() as u32;
                let requests: Vec<Request> = generator.by_ref().collect();
                let (marks, others): (Vec<&Request>, Vec<&Request>) =
                    requests.iter().partition(|request| request.op.is_mark());
                assert_eq!(others.len(), 30_000);
                assert!(others.iter().all(|r| r.page < u64::from(pages)), "{shape} of {pages} pages");
                assert!(requests.iter().all(|r| r.time_ns.is_none()));
                if shape.is_benchmark() {
                    assert!(others.iter().all(|r| r.relation.is_some_and(|number| number <= relations)));
                    assert!(requests.iter().all(|r| r.client.is_some_and(|number| number < clients)));
                    assert!(requests.iter().all(|r| r.transaction.is_some()));
                    assert!(marks.iter().all(|r| r.op == Op::Commit && r.page == 0 && r.relation.is_none()));
                } else {
                    assert!(
                        marks.is_empty() && others.iter().all(|r| r.client.is_none() && r.relation.is_none())
                    );
                }
            }
        }
    }
}

#[test]
fn a_page_belongs_to_one_relation() {
    for shape in [Shape::Tpcc, Shape::Tpce, Shape::Tpch] {
        let mut owner = HashMap::new();
        for request in stream(&Generate::new(shape, 30_000, 200_000, 3)) {
            if !request.op.is_mark() {
                assert_eq!(
                    *owner.entry(request.page).or_insert(request.relation),
                    request.relation,
                    "{shape}"
                );
            }
        }
    }
}

#[test]
fn transactions_are_one_clients_and_end_with_their_commit() {
    for shape in [Shape::Tpcc, Shape::Tpce, Shape::Tpch] {
        let mut clients = HashMap::new();
        let mut committed = Dense::new();
        let requests = stream(&Generate::new(shape, 5_000, 300_000, 3));
        let mut commits = 0;
        for request in &requests {
            let transaction = request.transaction.unwrap();
            assert_eq!(clients.entry(transaction).or_insert(request.client), &request.client, "{shape}");
            assert_eq!(
                committed.get(transaction),
                None,
                "{shape}: transaction {transaction} goes on after its commit"
            );
            if request.op == Op::Commit {
                committed.number(transaction);
                commits += 1;
            }
        }
        assert!(commits > 10, "{shape}: {commits} commits");
    }
}

#[test]
fn tpcc_commits_as_often_as_the_mix_says_and_writes_much() {
    let generate = Generate::new(Shape::Tpcc, 200_000, 1_000_000, 5);
    let generator = generate.generate().unwrap();
    let names: Vec<&str> = generator.relations().to_vec();
    let requests: Vec<Request> = generator.collect();
    let writes = share_of_writes(&requests);
    assert!((0.10..0.17).contains(&writes), "share of writes: {writes}");
    let hottest = share_of_the_hottest_tenth(&requests);
    assert!(hottest > 0.7, "share of the hottest tenth: {hottest}");
    // A history row for each Payment, 43 of 100 transactions, of which 0.45 in 100 roll back.
    let history = names.iter().position(|name| *name == "history").unwrap() as u32 + 1;
    let payments = requests.iter().filter(|r| r.relation == Some(history)).count() as f64;
    let commits = requests.iter().filter(|r| r.op == Op::Commit).count() as f64;
    assert!((payments / commits - 0.43 / 0.9955).abs() < 0.01, "{payments} payments in {commits} commits");
    // History is appended: its pages are asked for in order, each until it is full.
    let pages: Vec<u64> = requests.iter().filter(|r| r.relation == Some(history)).map(|r| r.page).collect();
    assert!(
        pages.windows(2).filter(|pair| pair[1] < pair[0]).count() < pages.len() / 50,
        "history goes back"
    );
}

#[test]
fn tpce_reads_as_much_as_is_published() {
    for pages in [20_000, 100_000, 450_000, 30_000_000] {
        let requests = stream(&Generate::new(Shape::Tpce, pages, 500_000, 5));
        let reads = 1.0 - share_of_writes(&requests);
        println!("{pages} {reads}");
        assert!((0.87..=0.90).contains(&reads), "share of reads with {pages} pages: {reads}");
        let hottest = share_of_the_hottest_tenth(&requests);
        assert!(hottest > 0.3, "share of the hottest tenth with {pages} pages: {hottest}");
    }
}

#[test]
fn tpch_scans() {
    let requests = stream(&Generate { clients: 1, ..Generate::new(Shape::Tpch, 50_000, 1_000_000, 5) });
    assert!(share_of_writes(&requests) < 0.01);
    let names = Generate::new(Shape::Tpch, 50_000, 1, 5).generate().unwrap().relations().to_vec();
    let lineitem = names.iter().position(|name| *name == "lineitem").unwrap() as u32 + 1;
    // In the pages of lineitem the next one is most often the one behind.
    let pages: Vec<u64> = requests.iter().filter(|r| r.relation == Some(lineitem)).map(|r| r.page).collect();
    let in_a_row = pages.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as f64 / pages.len() as f64;
    assert!(in_a_row > 0.5, "{in_a_row}");
}

#[test]
fn zipf_is_skewed_and_uniform_is_not() {
    let zipf = stream(&Generate::new(Shape::Zipf, 10_000, 300_000, 5));
    let uniform =
        stream(&Generate { write_share: 0.25, ..Generate::new(Shape::Uniform, 10_000, 300_000, 5) });
    // Of 10,000 pages at 0.99 the first thousand have 75.6 %.
    assert!(
        (share_of_the_hottest_tenth(&zipf) - 0.756).abs() < 0.01,
        "{}",
        share_of_the_hottest_tenth(&zipf)
    );
    assert!(
        (share_of_the_hottest_tenth(&uniform) - 0.135).abs() < 0.01,
        "{}",
        share_of_the_hottest_tenth(&uniform)
    );
    assert_eq!(share_of_writes(&zipf), 0.0);
    assert!((share_of_writes(&uniform) - 0.25).abs() < 0.005);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let good = Generate::new(Shape::Tpcc, 10_000, 10, 1);
    for (bad, parts) in [
        (Generate { pages: 0, ..good }, ["a page", "a request"]),
        (Generate { requests: 0, ..good }, ["a page", "a request"]),
        (Generate { page_bytes: 511, ..good }, ["511", "512"]),
        (Generate { clients: 0, ..good }, ["0 clients", "10000"]),
        (Generate { exponent: f64::NAN, ..good }, ["NaN", "0 to 10"]),
        (Generate { write_share: 1.5, ..good }, ["1.5", "0 to 1"]),
        (Generate { pages: 10, ..good }, ["TPC-C", "give "]),
        (Generate { pages: 10, shape: Shape::Tpce, ..good }, ["TPC-E", "give "]),
        (Generate { pages: 10, shape: Shape::Tpch, ..good }, ["TPC-H", "give "]),
    ] {
        let error = bad.generate().err().unwrap();
        for part in parts {
            assert!(error.contains(part), "{part:?} is missing in {error:?}");
        }
    }
    assert!("tpcx".parse::<Shape>().unwrap_err().contains("tpcc, tpce"));
}

/// What each client does of a stream, in its order: pages and whether they are written, and ends.
fn by_client(requests: &[Request], clients: u32) -> Vec<Vec<(u64, bool)>> {
    let mut steps = vec![Vec::new(); clients as usize];
    for request in requests.iter().filter(|request| !request.op.is_mark()) {
        steps[request.client.unwrap() as usize].push((request.page, request.op == Op::Write));
    }
    steps
}

#[test]
fn clients_that_are_asked_one_by_one_do_what_those_of_a_stream_do() {
    // One client alone: then nobody else draws from what they share.
    for shape in [Shape::Tpcc, Shape::Tpce, Shape::Tpch] {
        let generate = Generate { clients: 1, ..Generate::new(shape, 60_000, 50_000, 11) };
        let expected = &by_client(&stream(&generate), 1)[0];
        let mut clients = generate.clients().unwrap();
        let pages = std::iter::from_fn(|| Some(clients.next(0))).filter_map(|step| match step {
            ClientStep::Page { page, write } => Some((u64::from(page), write)),
            ClientStep::End { .. } => None,
        });
        assert_eq!(pages.take(expected.len()).collect::<Vec<_>>(), *expected, "{shape}");
    }
}

#[test]
fn clients_of_tpcc_say_which_transactions_they_end() {
    let generate = Generate { warehouses: Some(2), ..Generate::new(Shape::Tpcc, 60_000, 1, 3) };
    let mut clients = generate.clients().unwrap();
    assert_eq!(clients.kinds(), ["new_order", "payment", "order_status", "delivery", "stock_level"]);
    let (mut ends, mut rolled_back) = ([0u32; 5], 0);
    let mut turn = 0;
    while ends.iter().sum::<u32>() < 20_000 {
        turn = (turn + 1) % generate.clients;
        if let ClientStep::End { kind, committed } = clients.next(turn) {
            ends[kind as usize] += 1;
            rolled_back += u32::from(!committed);
            assert!(committed || kind == 0, "only a New-Order is rolled back");
        }
    }
    // The mix of clause 5.2.3, and 1 % of the New-Orders.
    for (ended, expected) in ends.iter().zip([0.45, 0.43, 0.04, 0.04, 0.04]) {
        assert!((f64::from(*ended) / 20_000.0 - expected).abs() < 0.012, "{ends:?}");
    }
    assert!((50..140).contains(&rolled_back), "{rolled_back} of {} New-Orders are rolled back", ends[0]);
}

#[test]
fn as_many_warehouses_as_are_asked_for_are_taken_and_the_rest_is_room() {
    let of = |warehouses, pages| Generate { warehouses, ..Generate::new(Shape::Tpcc, pages, 1, 3) };
    assert!(of(Some(2), 60_000).generate().is_ok());
    for (warehouses, pages, words) in
        [(2, 40_000, "give 54"), (0, 40_000, "give 1 to"), (100_001, 40_000, "give 1 to")]
    {
        let error = of(Some(warehouses), pages).generate().err().unwrap();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_a_client_asks_for_later_is_what_it_asks_for_then() {
    let generate = Generate { warehouses: Some(2), ..Generate::new(Shape::Tpcc, 60_000, 1, 3) };
    let (mut clients, mut foreseen) = (generate.clients().unwrap(), 0);
    for step in 0..20_000 {
        let client = step % generate.clients;
        let later: Vec<_> = (0..3).map(|nth| clients.later(client, nth)).collect();
        for page in later {
            let next = clients.next(client);
            if let Some(page) = page {
                assert!(
                    matches!(next, ClientStep::Page { page: next, .. } if next == page),
                    "{page}: {next:?}"
                );
                foreseen += 1;
            }
        }
    }
    assert!(foreseen > 50_000, "{foreseen}");
}
