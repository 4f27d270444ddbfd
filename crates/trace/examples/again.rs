//! How many requests of a trace are for a page that was there before:
//! `cargo run -p mezzanine-trace --example again -- TRACE FORMAT`

use std::error::Error;

use mezzanine_trace::{Dense, open};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(format)) = (arguments.next(), arguments.next()) else {
        return Err("give a trace and its format; docs/traces.md says which there are".into());
    };
    let (mut pages, mut requests, mut first) = (Dense::new(), 0_u64, 0_u64);
    for request in open(path.as_ref(), format.parse()?, 4096)? {
        let request = request?;
        let seen = pages.len();
        pages.number(request.page);
        first += (pages.len() - seen) as u64;
        requests += 1;
    }
    println!("{requests} requests, {first} of them the first for their page");
    Ok(())
}
