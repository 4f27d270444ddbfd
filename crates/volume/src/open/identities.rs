//! What a tier and its openings are told from others by.

use std::io::Read;

use mezzanine_engine::format::{Nonce, Superblock};
use mezzanine_ground::random::splitmix;

use crate::config::VolumeConfig;
use crate::error::VolumeError;

/// Two fresh identities: of the tier, and of the database that it belongs to.
pub(super) fn identities(seed: Option<u64>, name: &str) -> Result<([u8; 16], [u8; 16]), VolumeError> {
    Ok((drawn(seed, name)?, drawn(seed.map(|seed| seed ^ 2), name)?))
}

/// The nonce of the opening that begins. From a seed it differs from those of the tier's openings before.
pub(super) fn nonce(config: &VolumeConfig, found: &Superblock, name: &str) -> Result<Nonce, VolumeError> {
    let seed = config.nonce_seed.or(config.identity_seed);
    drawn(seed.map(|seed| splitmix(splitmix(!seed) ^ found.generation)), name)
}

/// Sixteen bytes from a seed, or random ones.
fn drawn(seed: Option<u64>, name: &str) -> Result<[u8; 16], VolumeError> {
    let mut bytes = [0; 16];
    match seed {
        Some(seed) => {
            for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
                word.copy_from_slice(&splitmix(seed ^ index as u64).to_le_bytes());
            }
        }
        None => {
            let failed = |error| VolumeError::from_io("draw an identity for", name, error);
            let mut random = std::fs::File::open("/dev/urandom").map_err(failed)?;
            random.read_exact(&mut bytes).map_err(failed)?;
        }
    }
    Ok(bytes)
}
