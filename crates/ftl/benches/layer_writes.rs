//! How many host writes a second the layers do, and how many pages they move for one: the median of five.
//! Uniform random writes make nearly all work of log-block layers merges; the sequential load is what
//! remains without. Run by `cargo test` it only checks that every layer runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{Lpn, Nanos, Rng};
use nandu_ftl::{FastConfig, FasterConfig, FtlConfig, FtlKind, SequentialTrigger};
use nandu_nand::{Energy, Geometry, NandArray, NandConfig, Rules, preset};
use std::time::Instant;

/// Spare space besides what a layer keeps aside, per million of the data.
const SPARE_PPM: u32 = 70_000;

/// Every kind, and logs of shares of the data as papers have them.
fn layers(erase_block_bytes: u64) -> Vec<(String, FtlConfig)> {
    let fast = |log_ppm, sw_trigger| {
        FtlConfig::Fast(FastConfig { log_block_count: None, log_ppm, sw_trigger })
    };
    let faster = FasterConfig { log_ppm: 100_000, ..FasterConfig::default() };
    let kinds = FtlKind::ALL.iter().map(|kind| (kind.name(), kind.small(erase_block_bytes)));
    let logs = [
        ("fast, 3 % log", fast(30_000, SequentialTrigger::Offset0)),
        ("fast, 10 % log", fast(100_000, SequentialTrigger::Off)),
        ("fast, 25 % log", fast(250_000, SequentialTrigger::Off)),
        ("faster, 10 % log", FtlConfig::Faster(faster)),
    ];
    kinds.chain(logs).map(|(name, config)| (name.to_owned(), config)).collect()
}

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let (data_blocks, writes) = if measure { (8192, 200_000) } else { (64, 1000) };
    let chip = preset("myers_slc").expect("a preset of that name");
    let shape = Geometry {
        channel_count: 4,
        dies_per_channel: 1,
        planes_per_die: 1,
        erase_blocks_per_plane: 0,
        flash_pages_per_erase_block: chip.flash_pages_per_erase_block,
        flash_page_bytes: chip.flash_page_bytes,
        spare_bytes: chip.spare_bytes,
    };
    for (name, config) in layers(shape.erase_block_bytes()) {
        for random in [true, false] {
            let mut geometry = shape;
            let bytes = data_blocks * geometry.erase_block_bytes();
            geometry.erase_blocks_per_plane =
                config.erase_blocks_per_plane(&geometry, bytes, SPARE_PPM);
            let mut nand = NandArray::new(NandConfig {
                geometry,
                timing: chip.timing,
                energy: Energy::default(),
                rules: Rules::default(),
                units_per_flash_page: 1,
                keep_content: false,
                power_cut_journal: false,
            })
            .expect("a valid array");
            let units = bytes / u64::from(geometry.flash_page_bytes);
            let mut ftl = config.build(&nand, units, 1).expect("a valid layer");
            ftl.initialise_sequential(&mut nand).expect("a fresh device");
            let (mut rng, mut next, mut now) = (Rng::new(1), 0, Nanos::ZERO);
            let mut run = |count: u64| {
                let start = Instant::now();
                for _ in 0..count {
                    let lpn = if random { rng.below(units) } else { next };
                    next = (next + 1) % units;
                    let after = nand.at(now);
                    let done = ftl.write(&mut nand, after, Lpn(lpn), None);
                    now = nand.finish(done.expect("a device with a log"));
                }
                count as f64 / start.elapsed().as_secs_f64() / 1e6
            };
            run(writes);
            let mut rates: Vec<f64> = (0..5).map(|_| run(writes)).collect();
            rates.sort_by(f64::total_cmp);
            let moved = nand.counters().programmed_pages() as f64 / ftl.host_pages().1 as f64;
            let load = if random { "random" } else { "sequential" };
            println!("{name}, {load}: {:.2} M writes/s, {moved:.2} programs each", rates[2]);
        }
    }
}
