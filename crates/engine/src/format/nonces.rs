//! Nonces of a tier's openings: what tells two copies of one tier apart that were both opened.
//!
//! Epochs count openings, so the copies count alike. A nonce is drawn by the host for each epoch (the engine
//! has no randomness), and the superblock keeps those of the last [`NONCES_MAX`] epochs: what the host wrote
//! elsewhere in one of them, with its epoch and nonce, belongs to this tier or to another copy of it, and can
//! be told apart however many epochs have begun since.

use mezzanine_ground::fields::Visitor;

/// Random bytes that name one opening of a tier; all zeros for none.
pub type Nonce = [u8; 16];

/// Epochs whose nonces a superblock keeps.
pub const NONCES_MAX: usize = 64;

/// The nonces of the last epochs, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nonces(Vec<Nonce>);

impl Nonces {
    /// The nonces when `epochs` more have begun, that have none yet.
    #[must_use]
    pub(crate) fn after(&self, epochs: u32) -> Self {
        let new = NONCES_MAX.min(epochs as usize);
        let kept = NONCES_MAX - new;
        let nonces = std::iter::repeat_n([0; 16], new).chain(self.0.iter().take(kept).copied());
        Self::trimmed(nonces.collect())
    }

    /// The nonces with that of the present epoch.
    #[must_use]
    pub fn with_newest(&self, nonce: Nonce) -> Self {
        let older = self.0.iter().skip(1).copied();
        Self::trimmed(std::iter::once(nonce).chain(older).collect())
    }

    /// The nonce of the epoch that began `ago` epochs before the present one; zeros if it had none, `None` if
    /// it is too long ago to be known.
    pub fn get(&self, ago: u32) -> Option<Nonce> {
        let ago = ago as usize;
        (ago < NONCES_MAX).then(|| self.0.get(ago).copied().unwrap_or_default())
    }

    /// Those that had none at the end are not kept, so that equal lists compare as equal.
    fn trimmed(mut nonces: Vec<Nonce>) -> Self {
        while nonces.last() == Some(&[0; 16]) {
            nonces.pop();
        }
        Self(nonces)
    }

    pub(super) fn show(&mut self, offset: usize, visitor: &mut impl Visitor) {
        self.0.resize(NONCES_MAX, [0; 16]);
        for (index, nonce) in self.0.iter_mut().enumerate() {
            visitor.field(offset + index * size_of::<Nonce>(), nonce);
        }
        *self = Self::trimmed(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_known_for_as_many_epochs_as_are_kept() {
        let mut nonces = Nonces::default();
        assert_eq!(nonces.get(0), Some([0; 16]));
        for epoch in 1..=100u8 {
            nonces = nonces.after(1).with_newest([epoch; 16]);
        }
        assert_eq!(nonces.get(0), Some([100; 16]));
        assert_eq!(nonces.get(63), Some([37; 16]));
        assert_eq!(nonces.get(64), None);
        let skipped = nonces.after(2);
        assert_eq!(
            (skipped.get(0), skipped.get(1), skipped.get(2)),
            (Some([0; 16]), Some([0; 16]), Some([100; 16]))
        );
        assert_eq!(nonces.after(1000), Nonces::default());
    }
}
