//! Copies of page memory, as fast as the processor has them.
//!
//! Whoever copies a page out of a region looks at a state afterwards that says whether the memory was another
//! page's meanwhile. So the loads must be in order with the loads that follow: plain ones are, by the
//! processor's manual, and those of string instructions (which the C library copies pages with) are not.
//! To others a copy here is as if words had been loaded or stored relaxed, one after the other.

/// Bytes that are copied in one step: lengths are multiples of it.
pub(crate) const STEP: usize = 128;

/// Copies `bytes` bytes by vectors of 32. False, and nothing is copied, if the processor has none.
///
/// # Safety
/// Both addresses are of so many bytes, which do not overlap; nobody has a slice of those that are shared
/// with others and stored to. `bytes` is a multiple of [`STEP`] and not 0.
#[inline]
pub(crate) unsafe fn by_vectors(from: *const u8, to: *mut u8, bytes: usize) -> bool {
    let can = std::arch::is_x86_feature_detected!("avx");
    if can {
        // SAFETY: the processor has the instructions; the rest is the caller's.
        unsafe { copy_vectors(from, to, bytes) };
    }
    can
}

/// # Safety
/// As for [`by_vectors`], of a processor that has AVX.
#[target_feature(enable = "avx")]
#[inline(never)]
unsafe fn copy_vectors(from: *const u8, to: *mut u8, bytes: usize) {
    assert!(bytes % STEP == 0 && bytes > 0);
    // SAFETY: by the caller. The upper halves of all registers are cleared, as other code expects them; it is
    // a call, across which nobody keeps any, so not to be inlined where somebody might.
    unsafe {
        std::arch::asm!(
            "2:",
            "vmovdqu {a}, ymmword ptr [{from}]",
            "vmovdqu {b}, ymmword ptr [{from} + 32]",
            "vmovdqu {c}, ymmword ptr [{from} + 64]",
            "vmovdqu {d}, ymmword ptr [{from} + 96]",
            "vmovdqu ymmword ptr [{to}], {a}",
            "vmovdqu ymmword ptr [{to} + 32], {b}",
            "vmovdqu ymmword ptr [{to} + 64], {c}",
            "vmovdqu ymmword ptr [{to} + 96], {d}",
            "add {from}, 128",
            "add {to}, 128",
            "sub {left}, 128",
            "jnz 2b",
            "vzeroupper",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            left = inout(reg) bytes => _,
            a = out(ymm_reg) _,
            b = out(ymm_reg) _,
            c = out(ymm_reg) _,
            d = out(ymm_reg) _,
            options(nostack)
        );
    }
}

/// The same by vectors of 16 bytes, which every processor of this architecture has.
///
/// # Safety
/// As for [`by_vectors`].
pub(crate) unsafe fn by_halves(from: *const u8, to: *mut u8, bytes: usize) {
    assert!(bytes % STEP == 0 && bytes > 0);
    // SAFETY: by the caller.
    unsafe {
        std::arch::asm!(
            "2:",
            "movdqu {a}, xmmword ptr [{from}]",
            "movdqu {b}, xmmword ptr [{from} + 16]",
            "movdqu {c}, xmmword ptr [{from} + 32]",
            "movdqu {d}, xmmword ptr [{from} + 48]",
            "movdqu xmmword ptr [{to}], {a}",
            "movdqu xmmword ptr [{to} + 16], {b}",
            "movdqu xmmword ptr [{to} + 32], {c}",
            "movdqu xmmword ptr [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "sub {left}, 64",
            "jnz 2b",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            left = inout(reg) bytes => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*const u8, *mut u8, usize);

    /// Each of the ways, though a processor only ever takes one of them.
    #[test]
    fn every_byte_is_copied_and_no_other_changed() {
        let mut ways: Vec<Copy> = vec![by_halves];
        if std::arch::is_x86_feature_detected!("avx") {
            ways.push(copy_vectors);
        }
        for way in ways {
            for bytes in [STEP, 2 * STEP, 4096, 32 << 10] {
                for offset in [0, 1, 16, 63] {
                    let source: Vec<u8> = (0..bytes + offset).map(|at| (at * 7 + 1) as u8).collect();
                    let mut target = vec![0xEE; bytes + offset + 1];
                    let (from, to) = (source[offset..].as_ptr(), target[offset..].as_mut_ptr());
                    // SAFETY: both have so many bytes from there on, and they are of different vectors.
                    unsafe { way(from, to, bytes) };
                    assert_eq!(target[offset..offset + bytes], source[offset..]);
                    assert!(target[..offset].iter().all(|&byte| byte == 0xEE));
                    assert_eq!(target[offset + bytes], 0xEE);
                }
            }
        }
    }
}
