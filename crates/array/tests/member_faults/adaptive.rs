//! Random runs of an array that follows the load, whose objects change their layouts while members fail.
//!
//! 1. In even runs at most one member is bad, which every layout bears: no request may fail. In odd runs
//!    layouts bear any number of bad members or none, and two are bad at most: what is read is right.
//! 2. The power never goes from all: such an array cannot be opened again.

use super::world::{Setup, Tally, Violation, World};
use nandu_array::{AdaptiveConfig, Layout, MemberTimes, WriteReturn};
use nandu_base::{Nanos, Rng, to_index, to_u32};
use nandu_device::UnflushedFate;

const STRIPE_SECTORS: u32 = 4;
const OBJECT_SECTORS: u64 = 16;

fn adaptive(layouts: &[Layout]) -> AdaptiveConfig {
    AdaptiveConfig {
        layouts: layouts.to_vec(),
        stripe_sector_count: STRIPE_SECTORS,
        extent_stripe_count: 2,
        object_sector_counts: vec![OBJECT_SECTORS; 2],
        // Layouts change when the run says so.
        observe: Nanos::from_seconds(1_000_000),
        gain_ppm: 10_000,
        migration_bytes_per_second: 40_000_000,
        member_times: MemberTimes {
            read_ns: Nanos::from_micros(10),
            read_sector_ns: Nanos(512),
            read_unit_sectors: 1,
            write_ns: Nanos::from_micros(10),
            write_sector_ns: Nanos(512),
        },
    }
}

/// What happened in the run of `seed`, and how many stripes were copied.
///
/// # Errors
/// What the array did wrong.
pub(crate) fn run(seed: u64) -> Result<(Tally, u64), Violation> {
    let mut rng = Rng::for_part(seed, "members of an array that follows the load");
    let bears_one = seed.is_multiple_of(2);
    let is_meant = |layout: &Layout| !bears_one || layout.spare_count() > 0;
    let layouts: Vec<Layout> = Layout::all(4).filter(is_meant).collect();
    let write_return = [WriteReturn::Needed, WriteReturn::All][to_index(rng.below(2))];
    let (fragment_sectors, row_count) = (STRIPE_SECTORS, 40);
    let (member_count, needed_count) = (4, 1);
    let written_count = if bears_one { 2 } else { 1 };
    let setup = Setup {
        member_count,
        needed_count,
        written_count,
        fragment_sectors,
        row_count,
        write_return,
    };
    let mut world = World::following(&setup, adaptive(&layouts));
    for _ in 0..20 + rng.below(80) {
        step(&mut rng, &setup, &mut world, &layouts)
            .map_err(|what| format!("{setup:?}: {what}"))?;
    }
    world.read_all().map_err(|what| format!("{setup:?}: {what}"))?;
    Ok((world.tally, world.migrated_stripe_count()))
}

fn step(
    rng: &mut Rng,
    setup: &Setup,
    world: &mut World,
    layouts: &[Layout],
) -> Result<(), Violation> {
    let index = to_index(rng.below(4));
    match rng.below(28) {
        0..9 => {
            let count = 1 + rng.below(2 * u64::from(STRIPE_SECTORS));
            let first = rng.below(world.sector_count() - count + 1);
            world.begin_write(first, to_u32(count));
        }
        9..12 => world.take_one().map(|_| ())?,
        12 => world.take_all()?,
        13..16 => {
            let sector = rng.below(world.sector_count());
            world.read(sector)?;
        }
        16 => world.begin_flush(),
        17 => world.idle(Nanos(rng.below(300_000)))?,
        18 => world.scrub(),
        19..23 => {
            let layout = layouts[to_index(rng.below(layouts.len() as u64))];
            world.set_layout(to_index(rng.below(2)), layout);
        }
        23 | 24 if world.bad_count() <= 1 - world.spare_count() => match rng.below(4) {
            0 => world.fail(index),
            1 => world.silence(index),
            2 => world.unplug(index, UnflushedFate::Dropped, 0),
            _ => world.disturb(index, rng.below(8), 1 + rng.below(5)),
        },
        25 | 26 => {
            let broken = (index..4).chain(0..index).find(|index| world.is_broken(*index));
            if let Some(index) = broken {
                world.replace(setup, index, rng.below(2) == 0)?;
            }
        }
        27 => world.calm()?,
        _ => {}
    }
    Ok(())
}
