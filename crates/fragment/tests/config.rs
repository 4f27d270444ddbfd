//! Parameters that cannot be used are refused with their name, the reason and the next step; so are requests.
#![allow(clippy::unwrap_used, missing_docs)]

use mezzanine_fragment::{Cache, Config, RequestError};

/// What is said of the paper's parameters with one changed.
fn refused(change: impl Fn(&mut Config)) -> String {
    let mut config = Config::new(1 << 30, &[1 << 32]);
    change(&mut config);
    config.geometry().unwrap_err().to_string()
}

#[test]
fn parameters_that_cannot_be_used_are_named() {
    let cases: [(String, &str); 15] = [
        (
            refused(|c| c.fragment_bytes = 3 << 20),
            "fragment_bytes: 3145728 is not a power of two; use 4194304",
        ),
        (
            refused(|c| c.fragment_bytes = 64 << 10),
            "fragment_bytes: 65536 is not between 131072 and 8388608; use 131072",
        ),
        (
            refused(|c| c.fragment_bytes = 16 << 20),
            "fragment_bytes: 16777216 is not between 131072 and 8388608; use 8388608",
        ),
        (refused(|c| c.population_workers = 9), "population_workers: 9 is not between 0 and 8; use 8"),
        (refused(|c| c.recent_fragments = 0), "recent_fragments: 0 is not between 1 and 4096; use 1"),
        (refused(|c| c.flights = 0), "flights: 0 is not between 1 and 1048576; use 1"),
        (refused(|c| c.shards = 3), "shards: 3 is not a power of two; use 4"),
        (refused(|c| c.copy_bytes = 5000), "copy_bytes: 5000 is not a multiple of 4096; use 4096"),
        (refused(|c| c.data_offset = 512), "data_offset: 512 is not a multiple of 4096; use 0"),
        (refused(|c| c.throttle.window_reads = 0), "window_reads: 0 is not between 1 and"),
        (
            refused(|c| c.throttle.stages[2].miss_percent = 1),
            "throttle.stages: the last stage of the throttle must not end; set both of its limits to 0",
        ),
        (refused(|c| c.volumes.clear()), "volumes: there are 0 of them; name 1 to 1024 volumes"),
        (
            refused(|c| c.volumes = vec![1 << 20, 4095]),
            "volumes: volume 1 has 4095 bytes; use volumes of at least 4096 bytes",
        ),
        (
            refused(|c| (c.cache_bytes, c.data_offset) = (1 << 20, 4096)),
            "cache_bytes: 1048576 bytes have no room for a fragment; use a cache device of at least 1052672 bytes, or \
             smaller fragments",
        ),
        (
            refused(|c| c.volumes = vec![1 << 60; 4]),
            "volumes: 1099511627776 fragments are more than 2147483646; use larger fragments",
        ),
    ];
    for (said, wanted) in cases {
        assert!(said.starts_with(wanted), "{said}\n{wanted}");
    }
    assert!(refused(|c| c.cache_bytes = u64::MAX).contains("use larger fragments"));
}

#[test]
fn requests_that_lie_outside_are_refused_and_change_nothing() {
    let cache = Cache::heap(Config::new(1 << 20, &[8192, 4096]).geometry().unwrap());
    let before = cache.statistics();
    let mut pieces = Vec::new();
    let outside = cache.read(0, 4096, 8192, &mut pieces).unwrap_err();
    assert_eq!(outside, RequestError::OutOfRange { volume: 0, offset: 4096, bytes: 8192, size: 8192 });
    let said = "volume 0: 8192 bytes at 4096 end behind its 8192 bytes; ask for what lies within";
    assert_eq!(outside.to_string(), said);
    assert!(cache.write_begin(1, u64::MAX, &[0; 2]).is_err());
    let unknown = cache.discard_begin(2, 0, 1).unwrap_err();
    assert_eq!(unknown.to_string(), "volume 2: the cache has 2, numbered from 0; name one of those");
    assert_eq!(cache.statistics(), before);
}

#[test]
fn write_modes_have_names() {
    assert_eq!("around".parse(), Ok(mezzanine_fragment::WriteMode::Around));
    let said = "back".parse::<mezzanine_fragment::WriteMode>().unwrap_err().to_string();
    assert_eq!(said, "write_mode: 'back' is no write mode; use through or around");
}
