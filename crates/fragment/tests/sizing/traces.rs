//! Traces that are shaped like those of databases, and one whose hot set shifts.

use mezzanine_ground::random::Random;
use mezzanine_trace::{Generate, Op, Shape};

use crate::replay::{Request, Trace};

const PAGE: u64 = 8192;

/// Requests of pages, so many a second.
fn of_pages(name: &'static str, generate: Generate, rate: u64) -> Trace {
    let requests = generate.generate().unwrap().filter_map(|request| {
        let is_write = match request.op {
            Op::Read => false,
            Op::Write => true,
            _ => return None,
        };
        Some((is_write, request.page * PAGE))
    });
    let requests = requests
        .enumerate()
        .map(|(number, (is_write, offset))| Request {
            at: number as u64 * 1_000_000_000 / rate,
            is_write,
            offset,
            bytes: PAGE,
        })
        .collect();
    Trace { name, volume_bytes: u64::from(generate.pages) * PAGE, requests, is_timed_exactly: false }
}

/// A benchmark's, with so many clients.
fn shape(name: &'static str, shape: Shape, pages: u32, requests: u64, clients: u32) -> Trace {
    let of_shape = Generate::new(shape, pages, requests, 7);
    of_pages(name, Generate { page_bytes: PAGE as u32, clients, ..of_shape }, 2000)
}

/// Areas of 4 MiB, popular by Zipf's law; each request changes the ranks of two of them with a chance.
fn shifting(volume_bytes: u64, count: u64, rate: u64) -> Trace {
    let area = 4 << 20;
    let areas = (volume_bytes / area) as u32;
    let generate =
        Generate { exponent: 0.8, write_share: 0.2, ..Generate::new(Shape::Zipf, areas, count, 7) };
    let mut random = Random::new(7);
    let mut area_of: Vec<u64> = (0..u64::from(areas)).collect();
    let ranks = generate.generate().unwrap();
    let requests = ranks
        .enumerate()
        .map(|(number, request)| {
            if random.below(200) == 0 {
                let (one, other) = (random.below(areas.into()), random.below(areas.into()));
                area_of.swap(one as usize, other as usize);
            }
            let offset = area_of[request.page as usize] * area + random.below(area / PAGE) * PAGE;
            let at = number as u64 * 1_000_000_000 / rate;
            Request { at, is_write: request.op == Op::Write, offset, bytes: PAGE }
        })
        .collect();
    Trace { name: "shifting", volume_bytes, requests, is_timed_exactly: false }
}

/// The five.
pub(crate) fn all(count: u64) -> Vec<Trace> {
    let pages = 4 << 20;
    let zipf = Generate { exponent: 0.9, write_share: 0.2, ..Generate::new(Shape::Zipf, pages, count, 7) };
    vec![
        of_pages("zipf", zipf, 2000),
        shape("tpcc", Shape::Tpcc, pages, count, 50),
        shape("tpce", Shape::Tpce, pages, count, 50),
        shape("tpch", Shape::Tpch, pages, count, 16),
        shifting(u64::from(pages) * PAGE, count, 2000),
    ]
}
