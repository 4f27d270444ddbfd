//! The one piece of memory that an engine's state lives in.
//!
//! All state that outlives a call is in the region, as atomics at fixed offsets: no pointers, so that
//! processes may map it at different addresses.
//!
//! Two kinds of bytes are in it. *Words* are atomics, read and written by anyone under the rules of
//! the structure that they belong to. *Page memory* (a cache's buffers) is copied in and out with relaxed
//! atomic words, because a lookup may copy a page out while its buffer is given to another page; the
//! lookup notices by the buffer's state afterwards and discards what it copied. While a job holds page
//! memory it is borrowed as a plain slice ([`Region::lease`]).

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64 as PlainU64, Ordering};

pub use crate::{arrayed, shared, states};

use crate::interleave::{AtomicU32, AtomicU64, word_point};
#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "interleave")))]
use crate::page_copy;

/// Alignment of a region: page memory in it is used for direct I/O.
pub const REGION_ALIGNMENT: usize = 4096;

/// Bytes of page memory that are copied between two points at which a test lets another thread run.
const COPIED_AT_ONCE: usize = 1024;

/// Lookups go to entries all over a directory: with pages of 4 KiB nearly each would also miss the
/// processor's table of translations. So large regions begin where such a page can, and the host asks the
/// system for them ([`Region::memory`]).
const HUGE_PAGE: usize = 2 << 20;

/// Memory for the state of one engine.
pub struct Region {
    base: NonNull<u8>,
    bytes: usize,
    parts: [Part; PARTS],
    memory: Memory,
}

/// Where a region's bytes come from, and so how they are given back.
enum Memory {
    /// This much from this address on, around the region.
    Heap { start: NonNull<u8>, layout: Layout },
    /// The caller's own affair.
    Raw,
    /// Kept alive by its owner, which is dropped with the region.
    Owned { _owner: Box<dyn Any + Send> },
}

// SAFETY: the region is plain memory; everything in it is accessed through atomics or through leases
// whose exclusivity the tier's state machine provides. The base pointer is never changed. An owner of the
// memory is `Send` and touched by nobody before it is dropped.
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

/// Types that may be viewed in place in a region.
///
/// # Safety
/// The type is `repr(C)` or `repr(transparent)`, consists of atomics only, is valid when all its bytes
/// are zero, and needs no alignment above 64.
pub unsafe trait Shared {}

/// Types of which a region has one array, whose place is checked once and not at every access.
///
/// # Safety
/// No other type has the same `PART`.
pub unsafe trait Arrayed: Shared {
    /// Which of the arrays: below [`PARTS`], and not [`PART_OF_COUNTERS`].
    const PART: usize;
}

/// How many types of one region can be [`Arrayed`].
pub const PARTS: usize = 6;

/// That of [`crate::counters::Stripe`].
pub const PART_OF_COUNTERS: usize = 5;

/// Where the values of one type lie. None until [`Region::place`] has been called.
#[derive(Clone, Copy)]
struct Part {
    base: NonNull<u8>,
    count: usize,
}

const NOWHERE: Part = Part { base: NonNull::dangling(), count: 0 };

/// Declares types [`Shared`] and [`Arrayed`], all of a region in one place for their numbers to differ: as
/// unsafe as to implement both by hand.
#[macro_export]
macro_rules! arrayed {
    ($($type:ty = $part:literal),+) => {
        $(
            // SAFETY: every use names a type as the description of `shared` demands.
            unsafe impl $crate::region::Shared for $type {}
            // SAFETY: the only use for a region lists all of its types with different numbers.
            unsafe impl $crate::region::Arrayed for $type {
                const PART: usize = {
                    assert!($part < $crate::region::PARTS && $part != $crate::region::PART_OF_COUNTERS);
                    $part
                };
            }
        )+
    };
}

/// A 64-bit word of shared state.
///
/// Loads acquire and stores release, so that a word may also publish what was written before it.
#[repr(transparent)]
pub struct Word(AtomicU64);

// SAFETY: a transparent atomic.
unsafe impl Shared for Word {}
// SAFETY: an atomic.
unsafe impl Shared for AtomicU32 {}
// SAFETY: an atomic.
unsafe impl Shared for PageWord {}

/// A word of page memory. Copies have their points between pieces, not between words.
#[repr(transparent)]
struct PageWord(PlainU64);

/// Declares a type [`Shared`], as unsafe as to implement that by hand: the type is `repr(C)`, at most
/// 64-aligned and made of `Word`, `StateWord`, the atomics of [`crate::interleave`] and `RegionLock` only,
/// all of which are valid when zero.
#[macro_export]
macro_rules! shared {
    ($($type:ty),+) => {
        $(
            // SAFETY: every use names a type as the macro's description demands.
            unsafe impl $crate::region::Shared for $type {}
        )+
    };
}

impl Word {
    /// What is there.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Puts it there.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// The larger of this and what is there: it never goes back, whoever else raises it.
    #[inline]
    pub fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::AcqRel);
    }

    /// Adds to it; what was there before.
    #[inline]
    pub fn add(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::AcqRel)
    }

    /// [`Self::add`] to a word that is changed under a lock only, which the caller holds.
    #[inline]
    pub fn bump(&self, value: u64) -> u64 {
        let before = self.get();
        self.set(before + value);
        before
    }

    /// Sets a word that is 0; false if it is not.
    #[inline]
    pub fn claim(&self, value: u64) -> bool {
        self.0.compare_exchange(0, value, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Counts an event where no order is needed.
    #[inline]
    pub fn count(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }
}

/// Something that is in one of a few states, each with a code; 0 is that of a new region.
pub trait State: Copy + Eq {
    /// Its code.
    fn code(self) -> u64;

    /// The state with this code.
    ///
    /// # Panics
    /// If no state has this code.
    fn of_code(code: u64) -> Self;
}

/// A state in a word of the region.
#[repr(transparent)]
pub struct StateWord<S>(Word, PhantomData<S>);

impl<S: State> StateWord<S> {
    /// The state.
    ///
    /// # Panics
    /// If no state has the code that is there.
    #[inline]
    pub fn get(&self) -> S {
        S::of_code(self.0.get())
    }

    /// Changes it.
    #[inline]
    pub fn set(&self, state: S) {
        self.0.set(state.code());
    }
}

/// Declares an enum of states with their codes in the region.
#[macro_export]
macro_rules! states {
    ($(#[$doc:meta])* $visible:vis enum $name:ident { $($(#[$state_doc:meta])* $state:ident = $code:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $name {
            $($(#[$state_doc])* $state,)+
        }

        impl $crate::region::State for $name {
            #[inline]
            fn code(self) -> u64 {
                match self {
                    $(Self::$state => $code,)+
                }
            }

            #[inline]
            fn of_code(code: u64) -> Self {
                match code {
                    $($code => Self::$state,)+
                    _ => panic!("the region has {code} for a state: {}", stringify!($name)),
                }
            }
        }
    };
}

impl Region {
    /// A zeroed region of `bytes` bytes of this process's memory. Of a large one the system gives only what
    /// is touched.
    ///
    /// # Panics
    /// If there cannot be so much.
    pub fn heap(bytes: usize) -> Self {
        let bytes = bytes.max(REGION_ALIGNMENT);
        let alignment = if bytes >= 2 * HUGE_PAGE { HUGE_PAGE } else { REGION_ALIGNMENT };
        // What is allocated with an alignment of its own is filled with zeros, and so touched.
        let layout = bytes
            .checked_next_multiple_of(REGION_ALIGNMENT)
            .and_then(|bytes| Layout::from_size_align(bytes.checked_add(alignment)?, align_of::<u64>()).ok())
            .expect("a region's size fits the address space");
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        // SAFETY: what is allocated is longer than the region by the alignment, and the offset is less.
        let base = unsafe { start.add(start.align_offset(alignment)) };
        let bytes = layout.size() - alignment;
        Self { base, bytes, parts: [NOWHERE; PARTS], memory: Memory::Heap { start, layout } }
    }

    /// A region in memory that the caller provides, such as shared memory.
    ///
    /// # Safety
    /// `base` points to `bytes` bytes, aligned to [`REGION_ALIGNMENT`], initialised (with anything), that
    /// stay mapped for the life of the region and are used by nothing but engines.
    pub unsafe fn from_raw(base: NonNull<u8>, bytes: usize) -> Self {
        assert_eq!(base.as_ptr() as usize % REGION_ALIGNMENT, 0, "a region must be aligned");
        Self { base, bytes, parts: [NOWHERE; PARTS], memory: Memory::Raw }
    }

    /// A region in memory that it takes over: a mapping that processes share.
    ///
    /// # Panics
    /// If the memory is not aligned to [`REGION_ALIGNMENT`].
    pub fn owning<M: AsMut<[u8]> + Send + 'static>(memory: M) -> Self {
        // Boxed before it is asked for its bytes, so that they stay where they are even if they lie in `M`
        // itself.
        let mut owner = Box::new(memory);
        let bytes = (*owner).as_mut();
        let (base, bytes) = (NonNull::from(&mut *bytes).cast::<u8>(), bytes.len());
        assert_eq!(base.as_ptr() as usize % REGION_ALIGNMENT, 0, "a region must be aligned");
        // `M` gave out its bytes as the only reference to them, and is never asked for them again: so nothing
        // in this process touches them but the region, until it drops their owner.
        Self { base, bytes, parts: [NOWHERE; PARTS], memory: Memory::Owned { _owner: owner } }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it lies, for a host that tells the system how it will be used.
    pub fn memory(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.base, self.bytes)
    }

    /// Makes every byte zero. What lay there before, and whoever knew it, is none of this process's any more.
    pub fn wipe(&mut self) {
        // First what other processes find an engine by, so that none joins one that is half gone.
        let words = self.slice::<PageWord>(0, (self.bytes / 8).min(8));
        words.iter().for_each(|word| word.0.store(0, Ordering::Release));
        // SAFETY: the region's own bytes, of which this process has no other reference (`&mut`); every
        // structure in it is valid when zero. Other processes use a region only between the
        // publication of an engine in it and its end.
        unsafe { self.base.as_ptr().write_bytes(0, self.bytes) };
    }

    /// Whether every byte is zero. For assertions: it looks at all of them.
    pub fn is_zero(&self) -> bool {
        let words = self.slice::<PageWord>(0, self.bytes / 8);
        words.iter().all(|word| word.0.load(Ordering::Relaxed) == 0)
    }

    #[inline]
    fn check<T>(&self, offset: usize, count: usize) {
        let end = count.checked_mul(size_of::<T>()).and_then(|bytes| offset.checked_add(bytes));
        assert!(end.is_some_and(|end| end <= self.bytes), "access outside of the region");
        assert_eq!(offset % align_of::<T>(), 0, "misaligned access in the region");
    }

    /// `count` shared values from `offset` on.
    #[inline]
    pub fn slice<T: Shared>(&self, offset: usize, count: usize) -> &[T] {
        self.check::<T>(offset, count);
        // SAFETY: in bounds and aligned (checked), zero-initialised and atomic only (Shared), and
        // alive as long as the region is borrowed.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().wrapping_add(offset).cast::<T>(), count) }
    }

    /// Says where the values of a type lie.
    pub fn place<T: Arrayed>(&mut self, offset: usize, count: usize) {
        let base = NonNull::from(self.slice::<T>(offset, count)).cast();
        self.parts[T::PART] = Part { base, count };
    }

    /// The `index`th value of a type, if there are so many.
    #[inline(always)]
    pub fn at<T: Arrayed>(&self, index: usize) -> Option<&T> {
        let part = &self.parts[T::PART];
        // SAFETY: `place` has checked the array, which is the region's own, for this type and no other; the
        // rest as for `slice`.
        (index < part.count).then(|| unsafe { &*part.base.as_ptr().cast::<T>().wrapping_add(index) })
    }

    /// Has the processor fetch the `index`th value of a type, where it can be told to.
    #[inline]
    pub fn prefetch<T: Arrayed>(&self, index: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(value) = self.at::<T>(index) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every processor of this architecture has the instruction, and it changes no memory.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(ptr::from_ref(value).cast()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (self, index);
    }

    /// One shared value.
    #[inline]
    pub fn value<T: Shared>(&self, offset: usize) -> &T {
        &self.slice(offset, 1)[0]
    }

    /// Copies `source` into page memory. Offset and length are multiples of 8.
    pub fn copy_in(&self, offset: usize, source: &[u8]) {
        assert_eq!(source.len() % 8, 0);
        let words = self.slice::<PageWord>(offset, source.len() / 8);
        #[cfg(all(target_arch = "x86_64", not(miri), not(feature = "interleave")))]
        if source.len() >= COPIED_AT_ONCE {
            let (from, to) = (source.as_ptr(), words.as_ptr().cast_mut().cast::<u8>());
            // SAFETY: source and target have this length and do not overlap, for nobody has a slice of page
            // memory that is copied to.
            if source.len() % page_copy::STEP == 0 && unsafe { page_copy::by_vectors(from, to, source.len()) }
            {
                return;
            }
            // SAFETY: as above. To others the instruction is as if the bytes were stored relaxed, one after
            // the other.
            unsafe {
                std::arch::asm!(
                    "rep movsb",
                    inout("rcx") source.len() => _,
                    inout("rsi") from => _,
                    inout("rdi") to => _,
                    options(nostack, preserves_flags)
                );
            }
            return;
        }
        for (words, bytes) in words.chunks(COPIED_AT_ONCE / 8).zip(source.chunks(COPIED_AT_ONCE)) {
            store_words(words, bytes);
        }
    }

    /// [`Self::copy_in`] of a few bytes, whose number is known when this is compiled.
    #[inline]
    pub fn copy_in_few<const BYTES: usize>(&self, offset: usize, source: &[u8; BYTES]) {
        const { assert!(BYTES % 8 == 0 && BYTES <= COPIED_AT_ONCE) };
        store_words(self.slice(offset, BYTES / 8), source);
    }

    /// Copies page memory out. Offset and length are multiples of 8.
    ///
    /// What was copied may be torn if the memory was given to a new group meanwhile; the caller
    /// finds out by the state that it re-reads afterwards.
    pub fn copy_out(&self, offset: usize, target: &mut [u8]) {
        assert_eq!(target.len() % 8, 0);
        let words = self.slice::<PageWord>(offset, target.len() / 8);
        #[cfg(all(target_arch = "x86_64", not(miri), not(feature = "interleave")))]
        if target.len() % page_copy::STEP == 0 && !target.is_empty() {
            let (from, to, bytes) = (words.as_ptr().cast(), target.as_mut_ptr(), target.len());
            // SAFETY: both have this length, and the target is the caller's alone.
            if !unsafe { page_copy::by_vectors(from, to, bytes) } {
                // SAFETY: as above.
                unsafe { page_copy::by_halves(from, to, bytes) };
            }
            std::sync::atomic::fence(Ordering::Acquire);
            return;
        }
        for (words, bytes) in words.chunks(COPIED_AT_ONCE / 8).zip(target.chunks_mut(COPIED_AT_ONCE)) {
            word_point();
            for (word, bytes) in words.iter().zip(bytes.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.0.load(Ordering::Relaxed).to_ne_bytes());
            }
        }
        std::sync::atomic::fence(Ordering::Acquire);
    }

    /// Page memory as a slice, for reading while nobody stores to it.
    ///
    /// # Safety
    /// As long as the slice lives, some state that the caller holds keeps every [`Self::copy_in`] and
    /// [`Self::lease_mut`], of any process, away from these bytes.
    pub unsafe fn lease(&self, offset: usize, bytes: usize) -> &[u8] {
        self.check::<u8>(offset, bytes);
        // SAFETY: in bounds (checked) and initialised; by the caller no store happens, and concurrent
        // `copy_out` only loads.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().wrapping_add(offset), bytes) }
    }

    /// Page memory as a slice to be filled by a read.
    ///
    /// # Safety
    /// As long as the slice lives, some state that the caller holds keeps everybody else away from these
    /// bytes, in this process and in others.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn lease_mut(&self, offset: usize, bytes: usize) -> &mut [u8] {
        self.check::<u8>(offset, bytes);
        // SAFETY: in bounds (checked), and by the caller nobody else touches these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().wrapping_add(offset), bytes) }
    }
}

/// Which of the 16 bytes of some words equal `byte`: one bit each, that of the first byte the lowest.
#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "interleave")))]
#[inline(always)]
pub fn equal_bytes(words: &[AtomicU32; 4], byte: u8) -> u32 {
    use std::arch::x86_64::{__m128i, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: every processor of this architecture has SSE2. The assembly reads the words and nothing else,
    // which is to others as if they were loaded relaxed, one after the other.
    #[allow(clippy::multiple_unsafe_ops_per_block)]
    let mask = unsafe {
        let mut equal: __m128i = _mm_set1_epi8(byte as i8);
        std::arch::asm!(
            "movdqu {read}, xmmword ptr [{words}]",
            "pcmpeqb {equal}, {read}",
            words = in(reg) words.as_ptr(),
            read = out(xmm_reg) _,
            equal = inout(xmm_reg) equal,
            options(readonly, nostack, preserves_flags)
        );
        _mm_movemask_epi8(equal)
    };
    mask as u32
}

/// Which of the 16 bytes of some words equal `byte`: one bit each, that of the first byte the lowest.
#[cfg(not(all(target_arch = "x86_64", not(miri), not(feature = "interleave"))))]
#[inline]
pub fn equal_bytes(words: &[AtomicU32; 4], byte: u8) -> u32 {
    let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
    bytes.enumerate().fold(0, |mask, (index, found)| mask | u32::from(found == byte) << index)
}

/// Stores bytes as words, each relaxed.
#[inline(always)]
fn store_words(words: &[PageWord], bytes: &[u8]) {
    word_point();
    for (word, bytes) in words.iter().zip(bytes.chunks_exact(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(bytes);
        word.0.store(u64::from_ne_bytes(eight), Ordering::Relaxed);
    }
}

/// Has a value come into the processor's cache while it does something else. Nothing but time depends on it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing that the program sees, and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(ptr::from_ref(value).cast()) };
}

/// Has a value come into the processor's cache: not where we know of no instruction for it.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub fn prefetch<T>(_value: &T) {}

/// Memory on the heap that outlives what is built in it, for those who simulate servers: one region after the
/// other, or one for each process, over the same bytes. As with memory that processes share, whoever builds
/// an engine in it has made sure that nobody uses another one there.
#[derive(Clone)]
pub struct LastingMemory(std::sync::Arc<Region>);

impl LastingMemory {
    /// Memory of `bytes` bytes, each of which has this value.
    pub fn filled(bytes: usize, value: u8) -> Self {
        let region = Region::heap(bytes);
        if value != 0 {
            region.copy_in(0, &vec![value; region.bytes()]);
        }
        Self(std::sync::Arc::new(region))
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// A region over the memory, with whatever lies there.
    pub fn region(&self) -> Region {
        let owner: Box<dyn Any + Send> = Box::new(std::sync::Arc::clone(&self.0));
        let (base, bytes) = (self.0.base, self.0.bytes);
        Region { base, bytes, parts: [NOWHERE; PARTS], memory: Memory::Owned { _owner: owner } }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match self.memory {
            // SAFETY: allocated in `heap` with this layout and not freed before.
            Memory::Heap { start, layout } => unsafe { dealloc(start.as_ptr(), layout) },
            Memory::Raw | Memory::Owned { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths that are copied by lines and others, and what lies around them stays.
    #[test]
    fn what_is_copied_in_is_copied_out() {
        let region = Region::heap(64 << 10);
        for bytes in [0, 8, 56, 64, 72, 128, 192, 1016, 1024, 1088, 4096, 4104, 32 << 10] {
            for offset in [0, 8, 64, 4096 + 8] {
                let source: Vec<u8> = (0..bytes).map(|at| (at * 7 + offset + 1) as u8).collect();
                region.copy_in(offset, &source);
                let mut target = vec![0xEE; bytes + 2];
                region.copy_out(offset, &mut target[1..=bytes]);
                assert_eq!(target[1..=bytes], source);
                assert_eq!([target[0], target[bytes + 1]], [0xEE; 2]);
            }
        }
    }
}
