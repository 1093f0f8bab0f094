//! Every layer over chips with bad erase blocks: how many are needed is said exactly, arrays are sized
//! with the bad ones on top, and dies that lost more than others keep nothing from working.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{Timed, quick_timing};
use nandu_base::{Lpn, Nanos, Rng};
use nandu_ftl::{ChunkConfig, FtlConfig, FtlError, FtlKind, MergeMode, PageConfig, TrimDurability};
use nandu_nand::{Energy, Geometry, NandArray, NandConfig, Rules};

const DIES: u32 = 3;
const PLANES: u32 = 2;
const PAGES: u32 = 8;

/// One of every kind, and what else has a say in which erase blocks a layer can use.
fn layers() -> Vec<FtlConfig> {
    let mut layers: Vec<FtlConfig> =
        FtlKind::ALL.iter().map(|kind| kind.small(u64::from(PAGES) * 512)).collect();
    layers.extend([
        FtlConfig::Page(PageConfig { multi_plane: false, ..PageConfig::default() }),
        FtlConfig::Page(PageConfig {
            trim_durability: TrimDurability::Journaled,
            checkpoint_interval_rows: 40,
            ..PageConfig::default()
        }),
        FtlConfig::Chunk(ChunkConfig {
            merge_mode: MergeMode::AllAtOnce,
            log_page_count: 50,
            ..ChunkConfig::new(4 * 8 * 512)
        }),
    ]);
    layers
}

fn chips(erase_blocks_per_plane: u32, rules: Rules) -> NandConfig {
    NandConfig {
        geometry: Geometry {
            channel_count: DIES,
            dies_per_channel: 1,
            planes_per_die: PLANES,
            erase_blocks_per_plane,
            flash_pages_per_erase_block: PAGES,
            flash_page_bytes: 512,
            spare_bytes: 16,
        },
        timing: quick_timing(),
        energy: Energy::default(),
        rules,
        units_per_flash_page: 1,
        keep_content: false,
        power_cut_journal: false,
    }
}

fn bad(factory_bad_ppm: u32, factory_bad_seed: u64) -> Rules {
    Rules { factory_bad_ppm, factory_bad_seed, ..Rules::default() }
}

/// Erase blocks that a refusal says are needed, of how many, and how many are good.
fn refused(config: &FtlConfig, nand: &NandArray, units: u64) -> Option<(u64, u64, u64)> {
    let text = match config.build(nand, units, 1) {
        Ok(_) => return None,
        Err(FtlError::Configuration(text)) => text,
        Err(error) => panic!("{config:?}: {error}"),
    };
    let words: Vec<&str> = text.split([' ', ',']).collect();
    let number_after = |word: &str| {
        let at = words.iter().rposition(|&other| other == word).unwrap();
        words[at + 1].parse().unwrap()
    };
    let good = words.iter().position(|&word| word == "are").unwrap() - 1;
    Some((number_after("need"), number_after("of"), words[good].parse().unwrap()))
}

#[test]
fn a_refusal_names_the_erase_blocks_that_are_needed_and_good() {
    let units = 700;
    for config in layers() {
        let sizes = 1..200;
        let mut said = 0;
        for rows in sizes {
            let nand = NandArray::new(chips(rows, Rules::default())).unwrap();
            let all = u64::from(nand.geometry().erase_block_count());
            let Some((needed, total, good)) = refused(&config, &nand, units) else {
                // What was said last is in the row that was added since.
                assert!((all - 5..=all).contains(&said), "{config:?}: {said} of {all}");
                break;
            };
            let together = config.erase_blocks_merged_together(nand.geometry().erase_block_bytes());
            assert_eq!((total, good), (all / together * together, total), "{config:?}");
            assert!(needed > good, "{config:?}: {needed} of {good}");
            said = needed;
        }
        assert!(said > 0, "{config:?}: one row was enough");
        assert!(
            refused(&config, &NandArray::new(chips(199, Rules::default())).unwrap(), units)
                .is_none()
        );
    }
}

#[test]
fn bad_erase_blocks_are_not_counted_as_good() {
    for config in layers() {
        let rules = bad(400_000, 3);
        let nand = NandArray::new(chips(24, rules)).unwrap();
        let (needed, total, good) = refused(&config, &nand, 900).unwrap();
        let lost = config.lost_erase_blocks(nand.config());
        assert!(lost >= nand.wear().bad_erase_block_count, "{config:?}: {lost}");
        assert_eq!((total, good), (144, 144 - lost), "{config:?}");
        assert!(needed > good, "{config:?}: {needed} of {good}");
    }
}

#[test]
fn arrays_with_bad_erase_blocks_on_top_take_every_write() {
    for config in layers() {
        for (ppm, seed) in [(20_000, 1), (150_000, 2), (400_000, 3), (400_000, 4)] {
            let rules = bad(ppm, seed);
            let capacity = 600 * 512;
            let shape = chips(1, rules).geometry;
            let rows = config.erase_blocks_per_plane(&shape, capacity, 150_000);
            let rows = config.erase_blocks_per_plane_with_bad(&chips(rows, rules));
            let mut nand = NandArray::new(chips(rows, rules)).unwrap();
            let mut ftl = match config.build(&nand, 600, seed) {
                Ok(ftl) => ftl,
                Err(error) => panic!("{config:?}, {ppm} ppm, seed {seed}, {rows} rows: {error}"),
            };
            let mut rng = Rng::new(seed);
            let mut now = Nanos::ZERO;
            for lpn in (0..600).chain((0..3000).map(|_| rng.below(600))) {
                now = match ftl.write_at(&mut nand, now, Lpn(lpn), None) {
                    Ok(done) => done,
                    Err(error) => panic!("{config:?}, {ppm} ppm, seed {seed}: {error}"),
                };
                if lpn % 64 == 0 {
                    now = ftl.trim_at(&mut nand, now, Lpn(lpn), 3.min(600 - lpn)).unwrap();
                }
            }
            ftl.audit(&nand);
            ftl.recover_at(&mut nand, now).unwrap();
            ftl.audit(&nand);
        }
    }
}

#[test]
fn a_die_with_next_to_nothing_good_leaves_trims_and_checkpoints_to_the_others() {
    let rows = 12;
    let good_of = |rules: Rules, die: usize| {
        let blocks = rules.factory_bad().take((DIES * rows) as usize).enumerate();
        blocks.filter(|&(block, bad)| block % DIES as usize == die && !bad).count()
    };
    let fits = |&rules: &Rules| {
        let good = [0, 1, 2].map(|die| good_of(rules, die));
        good[1] <= 2 && good[0] >= 8 && good[2] >= 8
    };
    let rules = (0..100_000).map(|seed| bad(400_000, seed)).find(fits).unwrap();
    let mut config = chips(rows, rules);
    config.geometry.planes_per_die = 1;
    let layer = FtlConfig::Page(PageConfig {
        trim_durability: TrimDurability::Journaled,
        checkpoint_interval_rows: 30,
        ..PageConfig::default()
    });
    let mut nand = NandArray::new(config).unwrap();
    let mut ftl = layer.build(&nand, 24, 1).unwrap();
    let mut rng = Rng::new(1);
    let mut now = Nanos::ZERO;
    for turn in 0..2000 {
        let lpn = Lpn(rng.below(24));
        now = ftl.write_at(&mut nand, now, lpn, None).unwrap();
        if turn % 3 == 0 {
            now = ftl.trim_at(&mut nand, now, Lpn(rng.below(24)), 1).unwrap();
            now = ftl.flush_at(&mut nand, now).unwrap();
        }
        ftl.audit(&nand);
    }
    now = ftl.recover_at(&mut nand, now).unwrap();
    ftl.write_at(&mut nand, now, Lpn(0), None).unwrap();
    ftl.audit(&nand);
}
