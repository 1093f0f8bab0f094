//! How many accesses a second the DFTL simulator does, half of them writes, at 85 % utilisation under
//! Zipf-distributed addresses: the median of five. Run by `cargo test` it only checks that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{AddressGenerator, Distribution, Lpn, Nanos};
use nandu_ftl::{Dftl, DftlConfig, Ftl};
use nandu_nand::{NandArray, NandProfile};
use std::time::Instant;

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let (erase_blocks, accesses) = if measure { (4096, 2_000_000) } else { (64, 10_000) };
    let profile = NandProfile {
        preset: "myers_slc".into(),
        channel_count: 4,
        dies_per_channel: 1,
        erase_blocks_per_plane: erase_blocks,
        ..NandProfile::default()
    };
    let mut nand =
        NandArray::new(profile.resolve().expect("a preset of that name")).expect("a valid array");
    let page_bytes = nand.geometry().flash_page_bytes;
    let units = nand.geometry().flash_page_count() * 85 / 100;
    let mut dftl = Dftl::new(&DftlConfig::default(), &nand, units).expect("a valid layer");
    dftl.initialise_sequential(&mut nand).expect("a fresh device");
    let zipf = Distribution::Zipf { theta: 0.9, clustered: false };
    let mut addresses = AddressGenerator::new(&zipf, units, 1).expect("a valid skew");
    let mut now = Nanos::ZERO;
    let mut run = |count: u64| {
        let start = Instant::now();
        for access in 0..count {
            let lpn = Lpn(addresses.next_item());
            let after = nand.at(now);
            let done = if access % 2 == 0 {
                dftl.write(&mut nand, after, lpn, None).expect("a device with spare space")
            } else {
                dftl.read(&mut nand, after, lpn, page_bytes).expect("a whole page").done
            };
            now = nand.finish(done);
        }
        count as f64 / start.elapsed().as_secs_f64() / 1e6
    };
    run(accesses);
    let mut rates: Vec<f64> = (0..5).map(|_| run(accesses)).collect();
    rates.sort_by(f64::total_cmp);
    let counts = dftl.map_cache_counts();
    let hit_ratio = counts.hit_count as f64 / (counts.hit_count + counts.miss_count) as f64;
    let amplification = nand.counters().programmed_pages() as f64 / dftl.host_pages().1 as f64;
    println!(
        "{:.2} M accesses/s, hit ratio {hit_ratio:.3}, write amplification {amplification:.3}",
        rates[2]
    );
}
