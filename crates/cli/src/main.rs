//! `mezz`
fn main() {}
