#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    mezzanine_fuzzed::nbd(data);
});
