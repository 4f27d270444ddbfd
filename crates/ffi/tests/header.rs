//! The C header beside the extension says what `abi` and the files below it declare.

use std::path::Path;

use mezzanine_ffi::abi::MEZZ_FFI_VERSION;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../postgres/mezzanine/mezz_ffi.h");

/// The version of the interface, and the checksum of what it declares, comments apart. Whoever changes one
/// changes both: a server takes a library of its version for one that it can call.
const DECLARED: (u32, u32) = (21, 0x2923_BB33);

fn generated(documentation: bool) -> String {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        include_guard: Some("MEZZ_FFI_H".into()),
        header: Some("/* Generated from crates/ffi/src/abi/mod.rs: see tests/header.rs there. */".into()),
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(String::from).to_vec(),
        no_includes: true,
        style: cbindgen::Style::Both,
        enumeration: cbindgen::EnumConfig {
            rename_variants: cbindgen::RenameRule::QualifiedScreamingSnakeCase,
            ..Default::default()
        },
        documentation,
        documentation_style: cbindgen::DocumentationStyle::C,
        ..Default::default()
    };
    // It finds the files below this one by their names, in the order in which they are declared.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/abi/mod.rs");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(root)
        .generate()
        .expect("the sources are understood");
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).expect("a header in UTF-8")
}

/// `MEZZANINE_HEADER=write` replaces the header instead.
#[test]
fn the_header_is_that_of_the_library() {
    let text = generated(true);
    if std::env::var("MEZZANINE_HEADER").as_deref() == Ok("write") {
        std::fs::write(HEADER, text).expect("the header can be written");
        return;
    }
    let found = std::fs::read_to_string(HEADER).unwrap_or_default();
    assert!(
        found == text,
        "{HEADER} is not what src/abi and the files below it declare; run MEZZANINE_HEADER=write cargo test -p mezzanine-ffi --test header"
    );
}

#[test]
fn what_is_declared_changes_with_the_version() {
    let text = generated(false);
    let said_only = |line: &str| line.contains("MEZZ_FFI_VERSION") || line.starts_with("/* Generated");
    let declared: Vec<&str> = text.lines().filter(|line| !said_only(line)).collect();
    let found = (MEZZ_FFI_VERSION, crc32c::crc32c(declared.join("\n").as_bytes()));
    assert!(
        found == DECLARED,
        "version {} declares what has the checksum {:#010X}, and DECLARED says {} and {:#010X}: if what is declared \
         has changed, raise MEZZ_FFI_VERSION, and put both here",
        found.0,
        found.1,
        DECLARED.0,
        DECLARED.1
    );
}
