//! The library of this crate, loaded into processes of tests.

#![allow(dead_code, reason = "each test uses a part")]

use std::path::PathBuf;

/// A function of the library that this process was started with.
pub(crate) fn of_library(name: &std::ffi::CStr) -> *mut std::ffi::c_void {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!found.is_null(), "the library was not loaded");
    found
}

/// The library that Cargo has built for this test.
pub(crate) fn library() -> PathBuf {
    let found = std::env::current_exe().unwrap().parent().unwrap().join("libmezzanine_struck.so");
    assert!(found.exists(), "{} was not built", found.display());
    found
}
