//! Random runs: one seed draws the array, what is asked of it, and what happens to its members. The code
//! is one of a few that are in use, or any that there is.
//!
//! 1. A run follows from its seed alone.
//! 2. Odd seeds never have more than f - m bad members; every fourth has as many as come.
//! 3. In every other run no fragment is torn inside.

use super::world::{Setup, Tally, Violation, World};
use nandu_array::{MEMBER_COUNT_MAX, WriteReturn};
use nandu_base::{Nanos, Rng, to_index, to_u32};
use nandu_device::UnflushedFate;

/// Members, needed, written.
const CODES: [(u8, u8, u8); 8] =
    [(2, 1, 2), (3, 1, 3), (3, 2, 3), (4, 3, 4), (4, 2, 4), (4, 1, 2), (5, 2, 3), (3, 3, 3)];

struct Run {
    rng: Rng,
    setup: Setup,
    world: World,
    bad_count_max: usize,
    may_tear: bool,
}

/// What happened in the run of `seed` with one of [`CODES`].
///
/// # Errors
/// What the array did wrong.
pub(crate) fn run(seed: u64) -> Result<Tally, Violation> {
    let mut rng = Rng::for_part(seed, "member faults");
    let (member_count, needed_count, written_count) = CODES[to_index(rng.below(8))];
    let setup = Setup {
        member_count,
        needed_count,
        written_count,
        fragment_sectors: to_u32(1 + rng.below(2)),
        row_count: 1 + rng.below(4),
        write_return: write_return(&mut rng),
    };
    run_over(setup, seed, rng)
}

/// What happened in the run of `seed` with any code of 1 to [`MEMBER_COUNT_MAX`] members, as often few
/// as many, and fragments of up to eight sectors.
///
/// # Errors
/// What the array did wrong.
pub(crate) fn run_any(seed: u64) -> Result<Tally, Violation> {
    let mut rng = Rng::for_part(seed, "member faults of any code");
    let few = if rng.below(2) == 0 { 6 } else { u64::from(MEMBER_COUNT_MAX) };
    let member_count = 1 + rng.below(few);
    let written_count = 1 + rng.below(member_count);
    let needed_count = 1 + rng.below(written_count);
    let small = |count: u64| u8::try_from(count).expect("at most 24");
    let setup = Setup {
        member_count: small(member_count),
        needed_count: small(needed_count),
        written_count: small(written_count),
        fragment_sectors: to_u32(1 + rng.below(8)),
        row_count: 1 + rng.below(3),
        write_return: write_return(&mut rng),
    };
    run_over(setup, seed, rng)
}

fn write_return(rng: &mut Rng) -> WriteReturn {
    if rng.below(2) == 0 { WriteReturn::Needed } else { WriteReturn::All }
}

fn run_over(setup: Setup, seed: u64, mut rng: Rng) -> Result<Tally, Violation> {
    let world = World::new(&setup);
    let bad_count_max = match seed % 4 {
        0 => usize::from(setup.member_count),
        _ => world.spare_count(),
    };
    let may_tear = rng.below(2) == 0;
    let mut run = Run { rng, setup, world, bad_count_max, may_tear };
    run.go().map_err(|violation| format!("{setup:?}: {violation}"))?;
    Ok(run.world.tally)
}

impl Run {
    fn go(&mut self) -> Result<(), Violation> {
        for _ in 0..10 + self.rng.below(50) {
            self.step()?;
            if self.world.is_dark() && !self.restart()? {
                return Ok(());
            }
        }
        // However it ends, all is there afterwards, and stays.
        if self.rng.below(2) == 0 {
            self.plan_cut();
            if !self.restart()? {
                return Ok(());
            }
        }
        self.world.read_all()?;
        self.world.scrub();
        self.world.settle()?;
        if self.world.is_dark() && !self.restart()? {
            return Ok(());
        }
        self.world.read_all()
    }

    fn step(&mut self) -> Result<(), Violation> {
        match self.rng.below(34) {
            0..8 => self.write(),
            8..11 => self.world.take_one().map(|_| ())?,
            11..14 => self.world.take_all()?,
            14..18 => self.world.begin_flush(),
            18..22 => {
                let sector = self.rng.below(self.world.sector_count());
                self.world.read(sector)?;
            }
            22 => {
                let time = Nanos(self.rng.below(300_000));
                self.world.idle(time)?;
            }
            23 => self.world.scrub(),
            24 => self.world.settle()?,
            25..28 => self.make_bad(),
            28..31 => self.replace()?,
            31 => self.world.calm()?,
            _ => self.plan_cut(),
        }
        Ok(())
    }

    fn write(&mut self) {
        let count = 1 + self.rng.below(2 * self.world.stripe_sectors());
        let count = count.min(self.world.sector_count());
        let mut first = self.rng.below(self.world.sector_count() - count + 1);
        let mut count = to_u32(count);
        if self.rng.below(3) == 0 {
            first -= first % self.world.stripe_sectors();
            count = to_u32(self.world.stripe_sectors());
        }
        self.world.begin_write(first, count);
    }

    fn pick(&mut self, is_meant: impl Fn(&World, usize) -> bool) -> Option<usize> {
        let world = &self.world;
        let meant: Vec<usize> =
            (0..world.member_count()).filter(|index| is_meant(world, *index)).collect();
        (!meant.is_empty()).then(|| meant[to_index(self.rng.below(meant.len() as u64))])
    }

    fn make_bad(&mut self) {
        if self.world.bad_count() >= self.bad_count_max {
            return;
        }
        let Some(index) = self.pick(World::is_good) else { return };
        match self.rng.below(5) {
            0 => self.world.fail(index),
            1 => self.world.silence(index),
            2 => {
                let (fate, seed) = (self.fate(), self.rng.next_u64());
                self.world.unplug(index, fate, seed);
            }
            _ => {
                let (after, count) = (self.rng.below(6), 1 + self.rng.below(5));
                self.world.disturb(index, after, count);
            }
        }
    }

    fn replace(&mut self) -> Result<(), Violation> {
        let Some(index) = self.pick(World::is_broken) else { return Ok(()) };
        let by_itself = self.rng.below(3) == 0;
        self.world.replace(&self.setup, index, by_itself)?;
        if self.rng.below(3) > 0 { self.world.settle() } else { Ok(()) }
    }

    fn fate(&mut self) -> UnflushedFate {
        let kinds = if self.may_tear { 3 } else { 2 };
        [UnflushedFate::Dropped, UnflushedFate::Kept, UnflushedFate::Torn]
            [to_index(self.rng.below(kinds))]
    }

    fn plan_cut(&mut self) {
        let fates: Vec<UnflushedFate> =
            (0..self.world.member_count()).map(|_| self.fate()).collect();
        let (count, seed) = (1 + self.rng.below(40), self.rng.next_u64());
        self.world.plan_cut(count, &fates, seed);
    }

    /// The power goes and comes back, perhaps again and again; whether the array is open then.
    fn restart(&mut self) -> Result<bool, Violation> {
        for _ in 0..20 {
            self.world.cut();
            let mut away: Vec<usize> = Vec::new();
            for index in 0..self.world.member_count() {
                let may_go = self.world.bad_count() + away.len() < self.bad_count_max;
                let is_away = match self.world.is_good(index) {
                    true => may_go && self.rng.below(8) == 0,
                    false => self.world.is_broken(index) && self.rng.below(2) == 0,
                };
                if is_away {
                    away.push(index);
                }
            }
            if self.rng.below(4) == 0 {
                self.plan_cut();
            }
            let is_open = self.world.open(&away)?;
            if !self.world.is_dark() {
                return Ok(is_open);
            }
        }
        Ok(false)
    }
}
