//! How many host writes a second the page-mapping simulator does, at 85 % utilisation under uniform
//! random writes in steady state: the median of five, for the closed mode (one server) and for a drive
//! of 32 dies; a word as argument chooses one. Run by `cargo test` it only checks that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{Lpn, Nanos, Rng};
use nandu_ftl::{Ftl, PageConfig, PageFtl};
use nandu_nand::{NandArray, NandProfile, Scheduling, Service};
use std::time::Instant;

const BATCH: usize = 64;

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let writes = if measure { 8_000_000 } else { 40_000 };
    for (name, service, channels, dies) in [
        ("closed, 1 die", Service::SingleServer, 1, 1),
        ("parallel, 32 dies", Service::Parallel, 8, 4),
    ] {
        let mut wanted = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
        if !wanted.all(|wanted| name.contains(&wanted)) {
            continue;
        }
        let blocks = if measure { 16_384 / (channels * dies) } else { 256 };
        let mut nand = NandArray::new(
            NandProfile {
                preset: "myers_slc".into(),
                channel_count: channels,
                dies_per_channel: dies,
                erase_blocks_per_plane: blocks,
                ..NandProfile::default()
            }
            .resolve()
            .expect("a preset of that name"),
        )
        .expect("a valid array");
        nand.set_scheduling(Scheduling { service, ..Scheduling::default() });
        nand.forget_sequences();
        let units = nand.geometry().flash_page_count() * 85 / 100;
        let mut ftl = PageFtl::new(&PageConfig::default(), &nand, units, 1).expect("a valid layer");
        ftl.initialise_steady(&mut nand, 1).expect("a fresh device");
        let mut run = Writer { rng: Rng::new(1), units, now: Nanos::ZERO, latency: 0 };
        run.write(&mut ftl, &mut nand, writes);
        let before = (nand.counters().programmed_pages(), ftl.host_pages().1);
        let mut rates: Vec<f64> = (0..5).map(|_| run.write(&mut ftl, &mut nand, writes)).collect();
        rates.sort_by(f64::total_cmp);
        let programs = nand.counters().programmed_pages() - before.0;
        let amplification = programs as f64 / (ftl.host_pages().1 - before.1) as f64;
        println!("{name}: {:.2} M host writes/s, write amplification {amplification:.3}", rates[2]);
    }
}

struct Writer {
    rng: Rng,
    units: u64,
    now: Nanos,
    latency: u64,
}

impl Writer {
    fn write(&mut self, ftl: &mut dyn Ftl, nand: &mut NandArray, count: u64) -> f64 {
        let mut batch = [Lpn(0); BATCH];
        let start = Instant::now();
        for _ in 0..count / BATCH as u64 {
            for lpn in &mut batch {
                *lpn = Lpn(self.rng.below(self.units));
            }
            ftl.touch(nand, &[], &batch);
            for lpn in batch {
                let after = nand.at(self.now);
                let done = ftl.write(nand, after, lpn, None).expect("a device with spare space");
                let done = nand.finish(done);
                self.latency += done.0 - self.now.0;
                self.now = done;
            }
        }
        count as f64 / start.elapsed().as_secs_f64() / 1e6
    }
}
