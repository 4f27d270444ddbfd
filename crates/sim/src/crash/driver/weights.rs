//! How often each of several things is drawn.

use mezzanine_ground::random::Random;

/// Draws a number below that of the shares, each as often as its share of their sum.
pub(crate) fn draw(shares: &[u64], random: &mut Random) -> usize {
    let mut at = random.below(shares.iter().sum());
    for (number, share) in shares.iter().enumerate() {
        if at < *share {
            return number;
        }
        at -= share;
    }
    unreachable!("the draw lies below the sum of the shares")
}

/// Makes a struct of the shares of operations, each with what it stands for.
macro_rules! weights {
    ($($operation:ident $text:literal),+ $(,)?) => {
        /// How often each operation is drawn, as shares of their sum.
        #[derive(Debug, Clone, Copy)]
        pub struct Weights { $(#[doc = $text] pub $operation: u64),+ }

        impl Weights {
            /// All shares, in the order of the fields.
            pub fn shares(&self) -> [u64; [$(stringify!($operation)),+].len()] {
                [$(self.$operation),+]
            }
        }
    };
}

pub(crate) use weights;
