//! Every short history of a small array: all sequences of a few steps, the last of which is cut at each
//! of its requests, with each set of members that keep what they did not flush.
//!
//! ```text
//!   write whole │ write one sector │ flush │ a member's power goes │ replace by a blank │ settle
//!   cut, and each member keeps or loses what it did not flush │ cut, and a member is away afterwards
//! ```
//!
//! 1. After the last cut the array is opened, read, scrubbed and read again; then as many members fail
//!    as it bears, and it is read once more.
//! 2. Of members that are alike every one is tried.

use super::world::{Setup, Tally, Violation, World};
use nandu_base::{Nanos, to_u32};
use nandu_device::UnflushedFate;

#[derive(Clone, Copy, Debug)]
enum Step {
    WriteStripe,
    WriteSector,
    Flush,
    Unplug(usize),
    Replace,
    Settle,
    /// Members of the mask keep what they did not flush.
    Cut(u32),
    /// All keep it, or none, and a member is away.
    Away(usize, bool),
}

/// How many histories there are of `setup` with `depth` steps and one that is cut, and what happened.
///
/// # Errors
/// The first history in which the array did something wrong.
pub(crate) fn search(setup: &Setup, depth: usize) -> Result<(u64, Tally), Violation> {
    let members = usize::from(setup.member_count);
    let masks = 0..1_u32 << members;
    let plain: Vec<Step> = [Step::WriteStripe, Step::WriteSector, Step::Flush, Step::Replace]
        .into_iter()
        .chain([Step::Settle])
        .chain((0..members).map(Step::Unplug))
        .collect();
    let cuts = masks.clone().map(Step::Cut);
    let away = (0..members).flat_map(|index| [Step::Away(index, false), Step::Away(index, true)]);
    let all: Vec<Step> = plain.iter().copied().chain(cuts).chain(away).collect();
    let (mut count, mut tally) = (0, Tally::default());
    let mut history = Vec::new();
    let mut odometer = vec![0; depth];
    loop {
        history.clear();
        history.extend(odometer.iter().map(|digit: &usize| all[*digit]));
        for last in &plain {
            for mask in masks.clone() {
                for at in 1.. {
                    let Some((happened, is_cut)) = one(setup, &history, *last, mask, at)? else {
                        break;
                    };
                    count += 1;
                    tally.add(&happened);
                    if !is_cut {
                        break;
                    }
                }
            }
        }
        let Some(digit) = odometer.iter().rposition(|digit| *digit + 1 < all.len()) else {
            return Ok((count, tally));
        };
        odometer[digit] += 1;
        odometer[digit + 1..].fill(0);
    }
}

/// One history; `None` if a step of it makes no sense. Whether the last step was cut before its end.
fn one(
    setup: &Setup,
    history: &[Step],
    last: Step,
    mask: u32,
    at: u64,
) -> Result<Option<(Tally, bool)>, Violation> {
    let mut world = World::new(setup);
    let said = |violation| {
        format!("{setup:?}, {history:?}, {last:?} cut at {at}, kept by {mask:b}: {violation}")
    };
    for step in history {
        if !take(setup, &mut world, *step).map_err(said)? {
            return Ok(None);
        }
    }
    world.plan_cut(at, &fates(&world, mask), 0);
    if !take(setup, &mut world, last).map_err(said)? {
        return Ok(None);
    }
    let is_cut = world.is_dark();
    finish(&mut world).map_err(said)?;
    Ok(Some((world.tally, is_cut)))
}

fn fates(world: &World, mask: u32) -> Vec<UnflushedFate> {
    let keeps = |index: usize| mask & 1 << index != 0;
    let fate = |index| if keeps(index) { UnflushedFate::Kept } else { UnflushedFate::Dropped };
    (0..world.member_count()).map(fate).collect()
}

/// Takes `step`, if it makes sense.
fn take(setup: &Setup, world: &mut World, step: Step) -> Result<bool, Violation> {
    match step {
        Step::WriteStripe => {
            world.begin_write(0, to_u32(world.stripe_sectors()));
            world.take_one()?;
        }
        Step::WriteSector => {
            if world.stripe_sectors() < 2 {
                return Ok(false);
            }
            world.begin_write(world.stripe_sectors() - 1, 1);
            world.take_one()?;
        }
        Step::Flush => {
            world.begin_flush();
            world.take_all()?;
        }
        Step::Unplug(index) => {
            if world.bad_count() >= world.spare_count() {
                return Ok(false);
            }
            world.unplug(index, UnflushedFate::Dropped, 0);
        }
        Step::Replace => {
            let broken = (0..world.member_count()).find(|index| world.is_broken(*index));
            let Some(index) = broken else { return Ok(false) };
            world.replace(setup, index, false)?;
        }
        Step::Settle => world.idle(Nanos::from_millis(20))?,
        Step::Cut(mask) => {
            world.plan_cut(u64::MAX, &fates(world, mask), 0);
            return reopen(world, &[]);
        }
        Step::Away(index, keeps) => {
            let may_go = world.bad_count() < world.spare_count() || world.is_broken(index);
            if !may_go {
                return Ok(false);
            }
            let mask = if keeps { u32::MAX } else { 0 };
            world.plan_cut(u64::MAX, &fates(world, mask), 0);
            return reopen(world, &[index]);
        }
    }
    Ok(true)
}

fn reopen(world: &mut World, away: &[usize]) -> Result<bool, Violation> {
    world.cut();
    match world.open(away)? {
        true => Ok(true),
        false => Err("the array is not opened".into()),
    }
}

/// Opens, reads and scrubs the array after the last cut (invariant 1).
fn finish(world: &mut World) -> Result<(), Violation> {
    reopen(world, &[])?;
    world.read_all()?;
    world.scrub();
    world.settle()?;
    world.read_all()?;
    let good: Vec<usize> =
        (0..world.member_count()).filter(|index| world.is_good(*index)).collect();
    for index in good {
        if world.bad_count() < world.spare_count() {
            world.fail(index);
        }
    }
    world.read_all()
}
