//! Keeps a file on a tier, in sync mode `durable`: `cargo run -p mezzanine-volume --example files -- FOLDER`

use std::error::Error;
use std::path::PathBuf;

use mezzanine_volume::{AttachOptions, TierConfig, Volume, VolumeConfig, create_flash, open_flash};

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err("give the folder that the file and its flash are to be in".into());
    };
    std::fs::create_dir_all(&folder)?;
    let (path, flash_path) = (folder.join("app.data"), folder.join("flash.mezz"));

    // 16 MiB of pages of 4 KiB.
    let config = VolumeConfig::new(TierConfig::new(4096, 4096));
    if !flash_path.exists() {
        let flash = create_flash(&flash_path, &config.tier)?;
        Volume::format(&*flash, &config, false)?;
    }
    let volume = Volume::open(open_flash(&flash_path)?, config)?;
    let file = volume.attach_path(&path, AttachOptions::default())?;

    let end = file.len();
    file.write_at(b"one more line\n", end)?;
    // From here on it survives a loss of power, on flash alone.
    file.sync()?;
    let mut found = vec![0; file.len() as usize];
    file.read_at(&mut found, 0)?;
    println!("{} bytes, {} of them there before", found.len(), end);
    println!("{:?}", volume.state());

    drop(file);
    // To have everything in the file itself, and no sidecar beside it: `close_drained`.
    volume.close()?;
    Ok(())
}
