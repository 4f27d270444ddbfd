//! What the shared side of a volume may be made of: words that processes can look at together.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU64 as QuietU64;

use mezzanine_ground::interleave::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use mezzanine_ground::lock::{Guard, RegionLock};
use mezzanine_ground::region::State;

/// The one process that uses a volume; as the owner of locks and of the tier's jobs.
pub(crate) const OWNER: u32 = 1;

/// A type of which every byte may lie in memory that processes share: it is `repr(C)` or transparent, made of
/// plain types alone, valid when all its bytes are zero, needs no alignment above 64, and has no pointer,
/// nothing on the heap and nothing to drop. Declared by [`plain!`], which asks the same of every field.
pub(crate) trait Plain {}

/// To be evaluated when this is compiled.
pub(crate) const fn assert_plain<T: Plain>() {
    assert!(!std::mem::needs_drop::<T>() && align_of::<T>() <= 64);
}

/// Declares a struct that is [`Plain`]; it does not compile if a field is not.
macro_rules! plain {
    (
        $(#[$meta:meta])*
        $visible:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_visible:vis $field:ident: $type:ty,)+
        }
    ) => {
        $(#[$meta])*
        #[repr(C)]
        $visible struct $name {
            $($(#[$field_meta])* $field_visible $field: $type,)+
        }

        impl $crate::shared::plain::Plain for $name {}

        const _: () = {
            $($crate::shared::plain::assert_plain::<$type>();)+
            $crate::shared::plain::assert_plain::<$name>();
        };
    };
}
pub(crate) use plain;

impl Plain for AtomicBool {}
impl Plain for AtomicU32 {}
impl Plain for AtomicU64 {}
impl Plain for RegionLock {}
impl<T: Plain, const N: usize> Plain for [T; N] {}

/// A word of something that is looked at and changed under a lock, or counted for statistics: no point of an
/// explored order, since nothing depends on the order of its accesses.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct Quiet(QuietU64);

impl Plain for Quiet {}

impl Quiet {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn count(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }
}

/// A state in a word, all changes and looks sequentially consistent.
#[repr(transparent)]
pub(crate) struct Typed<S>(AtomicU64, PhantomData<fn() -> S>);

impl<S: State> Plain for Typed<S> {}

impl<S: State> Typed<S> {
    #[inline]
    pub(crate) fn get(&self) -> S {
        S::of_code(self.0.load(Ordering::SeqCst))
    }

    #[inline]
    pub(crate) fn set(&self, state: S) {
        self.0.store(state.code(), Ordering::SeqCst);
    }
}

/// What can be kept in a fixed number of words.
pub(crate) trait Kept: Sized {
    /// Puts it together from the words; from zeros, what there is at first.
    fn load(words: &[Quiet]) -> Self;

    /// Puts it into the words.
    ///
    /// # Panics
    /// If it has outgrown its bound.
    fn store(&self, words: &[Quiet]);
}

/// A value of bounded size behind a lock that is held for some instructions, never while a device is asked.
///
/// Whoever has the lock has the value as an ordinary one, which is put together from the words when the lock
/// is taken, and put back before it is given back if it was changed.
#[repr(C)]
pub(crate) struct Record<V, const WORDS: usize> {
    lock: RegionLock,
    words: [Quiet; WORDS],
    of: PhantomData<fn() -> V>,
}

impl<V, const WORDS: usize> Plain for Record<V, WORDS> {}

const _: () = assert_plain::<Record<Vec<u8>, 1>>();

/// A [`Record`] that is locked.
pub(crate) struct Held<'r, V: Kept> {
    words: &'r [Quiet],
    value: V,
    changed: bool,
    // Given back last.
    _guard: Guard<'r>,
}

impl<V: Kept, const WORDS: usize> Record<V, WORDS> {
    fn guard(&self) -> Guard<'_> {
        // The lock's own word may be passed over in an explored order, as one of the engine's.
        #[cfg(feature = "interleave")]
        mezzanine_ground::interleave::point();
        self.lock.lock(OWNER)
    }

    pub(crate) fn lock(&self) -> Held<'_, V> {
        let guard = self.guard();
        Held { value: V::load(&self.words), words: &self.words, changed: false, _guard: guard }
    }

    /// What there is now.
    pub(crate) fn get(&self) -> V {
        let _guard = self.guard();
        V::load(&self.words)
    }

    /// Puts another value in its place.
    pub(crate) fn set(&self, value: V) {
        *self.lock() = value;
    }
}

impl<V: Kept> Deref for Held<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.value
    }
}

impl<V: Kept> DerefMut for Held<'_, V> {
    fn deref_mut(&mut self) -> &mut V {
        self.changed = true;
        &mut self.value
    }
}

impl<V: Kept> Drop for Held<'_, V> {
    fn drop(&mut self) {
        // One that is half changed poisons the lock, and is nobody's any more.
        if self.changed && !self._guard.poisons() {
            self.value.store(self.words);
        }
    }
}

/// Words that a sequence of bytes of this length takes, with its length.
pub(crate) const fn words_of_bytes(bytes: usize) -> usize {
    1 + bytes.div_ceil(8)
}

impl Kept for Vec<u8> {
    fn load(words: &[Quiet]) -> Self {
        let Some((len, words)) = words.split_first() else { return Vec::new() };
        let len = len.get() as usize;
        let mut bytes: Vec<u8> =
            words[..len.div_ceil(8)].iter().flat_map(|word| word.get().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }

    fn store(&self, words: &[Quiet]) {
        let (len, words) = words.split_first().expect("a record of bytes has a word for their number");
        assert!(self.len() <= words.len() * 8, "bytes have outgrown their place in shared memory");
        len.set(self.len() as u64);
        for (chunk, word) in self.chunks(8).zip(words) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            word.set(u64::from_le_bytes(eight));
        }
    }
}

/// A range of blocks, if there is one: its presence, its first block, and the one behind its last.
impl Kept for Option<(u64, u64)> {
    fn load(words: &[Quiet]) -> Self {
        match words {
            [present, first, end] if present.get() != 0 => Some((first.get(), end.get())),
            _ => None,
        }
    }

    fn store(&self, words: &[Quiet]) {
        let (first, end) = self.unwrap_or_default();
        for (word, value) in words.iter().zip([u64::from(self.is_some()), first, end]) {
            word.set(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record<V, const WORDS: usize>() -> Record<V, WORDS> {
        Record {
            lock: RegionLock::default(),
            words: [const { Quiet(QuietU64::new(0)) }; WORDS],
            of: PhantomData,
        }
    }

    #[test]
    fn what_is_put_into_a_record_is_found_there() {
        let bytes: Record<Vec<u8>, { words_of_bytes(20) }> = record();
        assert_eq!(bytes.get(), []);
        for len in [20, 7, 0, 8, 17] {
            let written: Vec<u8> = (1..=len).collect();
            bytes.set(written.clone());
            assert_eq!(bytes.get(), written);
        }
        bytes.lock().push(9);
        assert_eq!(bytes.get().last(), Some(&9));
        let range: Record<Option<(u64, u64)>, 3> = record();
        for value in [None, Some((0, 0)), Some((7, u64::MAX)), None] {
            range.set(value);
            assert_eq!(range.get(), value);
        }
    }

    /// Who comes next finds out, and does not go on with half of it.
    #[test]
    fn what_outgrows_its_bound_poisons_its_record() {
        let bytes: Record<Vec<u8>, { words_of_bytes(8) }> = record();
        let outgrown = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bytes.set(vec![1; 9])));
        assert!(outgrown().is_err() && outgrown().is_err());
    }
}
