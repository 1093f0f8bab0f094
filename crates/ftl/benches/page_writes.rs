//! How many host writes a second the page-mapping simulator does, at 85 % utilisation under uniform
//! random writes: the median of five. Run by `cargo test` it only checks that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{Lpn, Nanos, Rng};
use nandu_ftl::{Ftl, PageConfig, PageFtl};
use nandu_nand::{Energy, Geometry, NandArray, NandConfig, Rules, preset};
use std::time::Instant;

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let (erase_blocks, writes) = if measure { (4096, 4_000_000) } else { (64, 10_000) };
    let chip = preset("myers_slc").expect("a preset of that name");
    let mut nand = NandArray::new(NandConfig {
        geometry: Geometry {
            channel_count: 4,
            dies_per_channel: 1,
            planes_per_die: 1,
            erase_blocks_per_plane: erase_blocks,
            flash_pages_per_erase_block: chip.flash_pages_per_erase_block,
            flash_page_bytes: chip.flash_page_bytes,
            spare_bytes: chip.spare_bytes,
        },
        timing: chip.timing,
        energy: Energy::default(),
        rules: Rules::default(),
        units_per_flash_page: 1,
        keep_content: false,
        power_cut_journal: false,
    })
    .expect("a valid array");
    let units = nand.geometry().flash_page_count() * 85 / 100;
    let mut ftl = PageFtl::new(&PageConfig::default(), &nand, units, 1).expect("a valid layer");
    ftl.initialise_sequential(&mut nand).expect("a fresh device");
    let mut rng = Rng::new(1);
    let mut now = Nanos::ZERO;
    let mut run = |count: u64| {
        let start = Instant::now();
        for _ in 0..count {
            let lpn = Lpn(rng.below(units));
            now = ftl.write(&mut nand, now, lpn, None).expect("a device with spare space");
        }
        count as f64 / start.elapsed().as_secs_f64() / 1e6
    };
    run(writes);
    let mut rates: Vec<f64> = (0..5).map(|_| run(writes)).collect();
    rates.sort_by(f64::total_cmp);
    let amplification = nand.counters().programmed_pages() as f64 / ftl.host_pages().1 as f64;
    println!("{:.2} M host writes/s, write amplification {amplification:.3}", rates[2]);
}
