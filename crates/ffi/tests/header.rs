//! The C header beside the extension says what `abi.rs` declares.

use std::path::Path;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../postgres/mezzanine/mezz_ffi.h");

fn generated() -> String {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        include_guard: Some("MEZZ_FFI_H".into()),
        header: Some("/* Generated from crates/ffi/src/abi.rs: see tests/header.rs there. */".into()),
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(String::from).to_vec(),
        no_includes: true,
        style: cbindgen::Style::Both,
        enumeration: cbindgen::EnumConfig {
            rename_variants: cbindgen::RenameRule::QualifiedScreamingSnakeCase,
            ..Default::default()
        },
        documentation_style: cbindgen::DocumentationStyle::C,
        ..Default::default()
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/abi.rs");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(source)
        .generate()
        .expect("abi.rs is understood");
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).expect("a header in UTF-8")
}

/// `MEZZANINE_HEADER=write` replaces the header instead.
#[test]
fn the_header_is_that_of_the_library() {
    let text = generated();
    if std::env::var("MEZZANINE_HEADER").as_deref() == Ok("write") {
        std::fs::write(HEADER, text).expect("the header can be written");
        return;
    }
    let found = std::fs::read_to_string(HEADER).unwrap_or_default();
    assert!(
        found == text,
        "{HEADER} is not what abi.rs declares; run MEZZANINE_HEADER=write cargo test -p mezzanine-ffi --test header"
    );
}
