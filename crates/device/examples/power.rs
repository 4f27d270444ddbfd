//! What a power cut leaves of writes that no flush has covered: `cargo run -p mezzanine-device --example
//! power`

use mezzanine_device::{Device, DeviceError, MemoryDevice};

const SECTOR: usize = 512;
const SECTORS: usize = 16;

fn main() -> Result<(), DeviceError> {
    for seed in 0..4 {
        let device = MemoryDevice::new((SECTORS * SECTOR) as u64);
        device.write_at(&[b'o'; SECTORS * SECTOR], 0)?;
        device.flush()?;
        // Acknowledged, and not durable.
        device.write_at(&[b'n'; SECTORS * SECTOR], 0)?;
        device.power_cut(seed);

        let mut found = [0; SECTORS * SECTOR];
        device.read_at(&mut found, 0)?;
        let left: String = found.iter().step_by(SECTOR).map(|byte| char::from(*byte)).collect();
        println!("seed {seed}: {left} (o: old, n: new; a sector each)");
    }
    Ok(())
}
