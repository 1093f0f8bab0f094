//! One run with one cut, and the enumeration of all of them.

use crate::common::quick_timing;
use crate::model::{Model, Trims, decode};
use crate::{Shape, Subject};
use nandu_base::{Lpn, Nanos, Ppn, Rng};
use nandu_ftl::{Ftl, FtlConfig, FtlError};
use nandu_nand::{Energy, Geometry, NO_LPN, NandArray, NandConfig, NandError, Rules, Ticket};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds for each subject; `NANDU_POWER_CUT_SEEDS` changes it.
const SEED_COUNT: u64 = 12;
/// Steps of the host after the device was filled; twice as many where a row gathers units.
const STEP_COUNT: u64 = 36;
/// Commands after the fill among which are cuts on the way to the end.
const END_COMMAND_COUNT: u64 = 360;
/// Most cuts at a time in a run.
const TIMED_CUT_COUNT: usize = 60;
/// Most cuts in a row during recovery.
const RECOVERY_CUT_COUNT: u64 = 6;

/// Where the power goes.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Before the command that changes cells and has this number, or in the middle of it.
    Command { number: u64, tear: bool },
    /// At a time, with writes under way side by side.
    Time(Nanos),
}

impl Cut {
    fn encode(self) -> String {
        match self {
            Self::Command { number, tear: true } => format!("in-{number}"),
            Self::Command { number, tear: false } => format!("before-{number}"),
            Self::Time(at) => format!("at-{}", at.0),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, number) = text.split_once('-')?;
        let number = number.parse().ok()?;
        match kind {
            "in" => Some(Self::Command { number, tear: true }),
            "before" => Some(Self::Command { number, tear: false }),
            "at" => Some(Self::Time(Nanos(number))),
            _ => None,
        }
    }
}

/// Every cut of every seed of one subject, or the one of `NANDU_POWER_CUT=subject/seed/cut`.
pub(crate) fn all_cuts(subject: &Subject) {
    if let Ok(recipe) = std::env::var("NANDU_POWER_CUT") {
        let mut parts = recipe.split('/');
        if parts.next() == Some(&subject.name) {
            let seed = parts.next().unwrap().parse().unwrap();
            try_cut(subject, seed, Cut::parse(parts.next().unwrap()).unwrap());
        }
        return;
    }
    let seeds = std::env::var("NANDU_POWER_CUT_SEEDS").map(|count| count.parse().unwrap());
    for seed in 0..seeds.unwrap_or(SEED_COUNT) {
        for tear in [false, true] {
            let cuts = (0..).map(|number| Cut::Command { number, tear });
            // The first number that is past the end of the run ends the enumeration.
            let count = cuts.take_while(|&cut| try_cut(subject, seed, cut)).count();
            assert!(count > 8, "{}: only {count} commands to cut at", subject.name);
        }
        for at in times(subject, seed) {
            try_cut(subject, seed, Cut::Time(at));
        }
    }
}

/// Cuts on the way to the last write that a device takes, and after it. Whatever is left of the device,
/// it recovers, holds every unit, and takes writes or says that it is full.
pub(crate) fn to_the_end(subject: &Subject) {
    let mut full_count = 0;
    for seed in 0..SEED_COUNT {
        for number in (0..END_COMMAND_COUNT).step_by(3) {
            let tear = number % 2 == 0;
            let outcome = Run::new(subject, seed).until_the_end(number, tear);
            let recipe = || format!("{}, seed {seed}, command {number}", subject.name);
            full_count += u32::from(outcome.unwrap_or_else(|text| panic!("{text}; {}", recipe())));
        }
    }
    assert!(full_count > 0, "{}: no device was full after its recovery", subject.name);
}

/// Whether the cut came before the run was over; panics with a recipe where a check fails.
fn try_cut(subject: &Subject, seed: u64, cut: Cut) -> bool {
    let outcome = catch_unwind(AssertUnwindSafe(|| Run::new(subject, seed).with_cut(cut)));
    match outcome {
        Ok(Ok(happened)) => happened,
        Ok(Err(text)) => panic!("{text}; {}", recipe(subject, seed, cut)),
        Err(_) => panic!("a panic, see above; {}", recipe(subject, seed, cut)),
    }
}

fn recipe(subject: &Subject, seed: u64, cut: Cut) -> String {
    let (name, cut) = (&subject.name, cut.encode());
    format!("replay: NANDU_POWER_CUT={name}/{seed}/{cut} cargo test -p nandu-ftl --test power_cut")
}

/// Just before, at, and halfway between the moments at which something of the run begins or ends.
fn times(subject: &Subject, seed: u64) -> Vec<Nanos> {
    let mut run = Run::new(subject, seed);
    run.fill().unwrap();
    let mut moments = Vec::new();
    while run.step_number < run.step_count && run.step(true).is_ok() {
        moments.extend([run.now, run.nand.clone().idle_at()]);
    }
    moments.sort_unstable();
    moments.dedup();
    let halves = moments.windows(2).map(|pair| Nanos(pair[0].0.midpoint(pair[1].0)));
    let mut times: Vec<Nanos> = halves.chain(moments.iter().copied()).collect();
    times.sort_unstable();
    let stride = times.len().div_ceil(TIMED_CUT_COUNT);
    times.into_iter().step_by(stride).collect()
}

struct Run<'a> {
    subject: &'a Subject,
    nand: NandArray,
    ftl: Box<dyn Ftl>,
    model: Model,
    rng: Rng,
    seed: u64,
    now: Nanos,
    /// Time does not pass beyond this while requests are waited for.
    cut_at: Nanos,
    /// Writes whose end is awaited, by watcher.
    pending: Vec<(Lpn, usize)>,
    step_number: u64,
    step_count: u64,
    /// Whether a whole-unit write is durable when the chips are done.
    unbuffered: bool,
}

impl<'a> Run<'a> {
    fn new(subject: &'a Subject, seed: u64) -> Self {
        let nand = NandArray::new(array_config(subject)).unwrap();
        let ftl = subject.config.build(&nand, subject.units, seed).unwrap();
        let model = Model::new(subject.units, subject.trims);
        let rng = Rng::for_part(seed, &subject.name);
        let shape = subject.shape;
        let unbuffered = shape.units_per_flash_page * shape.planes == 1 && !shape.paired;
        let step_count = if unbuffered { STEP_COUNT } else { 2 * STEP_COUNT };
        Self {
            subject,
            nand,
            ftl,
            model,
            rng,
            seed,
            now: Nanos::ZERO,
            cut_at: Nanos::MAX,
            pending: Vec::new(),
            step_number: 0,
            step_count,
            unbuffered,
        }
    }

    /// Runs up to the cut, recovers and checks. Answers whether the cut came in time.
    fn with_cut(mut self, cut: Cut) -> Result<bool, String> {
        self.fill().map_err(|error| format!("the fill failed: {error}"))?;
        let at = match cut {
            Cut::Command { number, tear } => {
                self.nand.fail_power_after(number, tear);
                // Work in idle time does not say that it was cut short.
                while self.step_number < self.step_count
                    && self.step(false).is_ok()
                    && self.nand.power_is_on()
                {}
                if self.nand.power_is_on() {
                    return Ok(false);
                }
                self.wait_for_all();
                self.now
            }
            Cut::Time(at) => {
                self.cut_at = at;
                while self.step_number < self.step_count && self.now < at && self.step(true).is_ok()
                {
                }
                // Work in idle time lets time pass as it goes, beyond the cut.
                let at = at.max(self.nand.now());
                self.pass(at);
                self.nand.power_cut(at).unwrap();
                self.cut_at = Nanos::MAX;
                at
            }
        };
        let before = sequences(&self.nand);
        self.recover(at)?;
        self.check_sequences(&before)?;
        self.go_on(&before)?;
        Ok(true)
    }

    /// Writes until the device is full or the power goes at command `number`, recovers and reads all.
    /// Answers whether it is full after that.
    fn until_the_end(mut self, number: u64, tear: bool) -> Result<bool, String> {
        self.fill().map_err(|error| format!("the fill failed: {error}"))?;
        self.nand.fail_power_after(number, tear);
        while self.step(false).is_ok() && self.nand.power_is_on() {}
        self.wait_for_all();
        let at = self.now;
        if self.nand.power_is_on() {
            self.ftl.audit(&self.nand);
        }
        if self.nand.power_is_on() {
            self.nand.power_cut(at).unwrap();
            self.nand.power_on();
        }
        self.recover(at)?;
        self.read_all()?;
        let mut full_count = 0;
        for lpn in (0..self.subject.units).map(Lpn) {
            match self.write(lpn, false) {
                Ok(()) => {}
                Err(FtlError::DeviceFull) => full_count += 1,
                Err(error) => return Err(format!("writing on: {error}")),
            }
            self.ftl.audit(&self.nand);
        }
        let last = Lpn(self.subject.units - 1);
        let after = self.start();
        let trimmed = self.ftl.trim(&mut self.nand, after, last, 1);
        match trimmed {
            Ok(done) => {
                self.wait(done);
                self.model.trimmed((last, 1), self.now, false);
            }
            // A journal needs room for it, and so does an entry that has to leave DFTL's cache.
            Err(FtlError::DeviceFull)
                if self.subject.trims == Trims::Journaled
                    || matches!(self.subject.config, FtlConfig::Dftl(_)) => {}
            Err(error) => return Err(format!("trimming on: {error}")),
        }
        self.ftl.audit(&self.nand);
        self.nand.audit();
        self.read_all()?;
        Ok(full_count > 0)
    }

    /// Writes every unit and a few again, one after the other, so that the steps meet cleaning, and
    /// erase blocks that wear out where they do.
    fn fill(&mut self) -> Result<(), FtlError> {
        for lpn in 0..self.subject.units {
            self.write(Lpn(lpn), false)?;
        }
        let endurance = self.subject.shape.endurance;
        let mut rest = self.subject.units / 2;
        while rest > 0 || self.nand.wear().erase_count_max < u64::from(endurance) {
            rest = rest.saturating_sub(1);
            let lpn = Lpn(self.rng.below(self.subject.units));
            self.write(lpn, false)?;
        }
        self.flush()?;
        self.nand.settle(self.now);
        Ok(())
    }

    fn step(&mut self, side_by_side: bool) -> Result<(), FtlError> {
        self.step_number += 1;
        let units = self.subject.units;
        // Half of the writes go to an eighth of the units.
        let range = if self.rng.below(2) == 0 { units } else { units.div_ceil(8) };
        let lpn = Lpn(self.rng.below(range));
        match self.rng.below(100) {
            0..72 => self.write(lpn, side_by_side),
            72..80 => {
                let count = (1 + self.rng.below(4)).min(units - lpn.0);
                let after = self.start();
                let trimmed = self.ftl.trim(&mut self.nand, after, lpn, count);
                let is_done = trimmed.as_ref().is_ok_and(|&done| self.wait(done));
                let done_at = if is_done { self.now } else { Nanos::MAX };
                self.model.trimmed((lpn, count), done_at, trimmed.is_err());
                trimmed.map(|_| ())
            }
            80..88 => self.flush(),
            88..94 => {
                if self.wait_for_all() {
                    self.ftl.idle(&mut self.nand, self.now, self.now + Nanos(4000));
                    self.now = self.nand.now();
                }
                Ok(())
            }
            _ => self.read(lpn),
        }
    }

    fn write(&mut self, lpn: Lpn, side_by_side: bool) -> Result<(), FtlError> {
        let (value, content) = self.model.draw(lpn);
        let after = self.start();
        let written = self.ftl.write(&mut self.nand, after, lpn, content);
        let event = self.model.wrote(lpn, value, written.is_err());
        let done = written?;
        let watcher = u32::try_from(self.pending.len()).unwrap();
        if !self.unbuffered || !self.nand.watch(done, watcher) {
            // The host does not wait for a row to fill: what is in memory is acknowledged.
            self.model.acknowledge(event, self.now, self.unbuffered);
        } else {
            self.pending.push(event);
        }
        // Side by side, two of three writes are issued while others are under way.
        if !side_by_side || self.rng.below(3) == 0 {
            // What waits in memory has no end until its row is full.
            if self.unbuffered {
                self.wait(done)
            } else {
                self.wait_for_all()
            };
        } else {
            self.pass(self.now + Nanos(40));
        }
        Ok(())
    }

    /// What a request of this moment waits for.
    fn start(&mut self) -> Ticket {
        self.pass(self.now);
        self.nand.at(self.now)
    }

    /// Lets time pass until then, or until the power goes.
    fn pass(&mut self, until: Nanos) {
        let until = until.min(self.cut_at);
        while self.nand.next_event().is_some_and(|next| next <= until) {
            self.nand.step();
            self.note_ends();
        }
        self.nand.at(until);
        self.now = self.now.max(until);
    }

    /// Lets time pass until `ticket` has ended; false if the power goes before.
    fn wait(&mut self, ticket: Ticket) -> bool {
        while !self.nand.is_done(ticket) {
            match self.nand.next_event() {
                None => panic!("commands wait for each other"),
                Some(next) if next > self.cut_at => {
                    self.pass(self.cut_at);
                    return false;
                }
                Some(next) => self.pass(next),
            }
        }
        true
    }

    /// The same for everything that was issued.
    fn wait_for_all(&mut self) -> bool {
        let everything = self.nand.everything();
        self.wait(everything)
    }

    /// Tells the model which writes have ended at this moment.
    fn note_ends(&mut self) {
        while let Some(watcher) = self.nand.take_finished() {
            let event = self.pending[watcher as usize];
            self.model.acknowledge(event, self.nand.now(), true);
        }
    }

    fn flush(&mut self) -> Result<(), FtlError> {
        let after = self.start();
        let issued_at = self.now;
        let done = self.ftl.flush(&mut self.nand, after)?;
        if self.wait(done) {
            self.model.flushed(issued_at, self.now);
        }
        Ok(())
    }

    fn read(&mut self, lpn: Lpn) -> Result<(), FtlError> {
        let after = self.start();
        let outcome = self.ftl.read(&mut self.nand, after, lpn, 16)?;
        let value = decode(lpn, &outcome.content).unwrap();
        assert!(self.model.may_hold(lpn, value), "unit {} reads {value:?}", lpn.0);
        Ok(())
    }

    /// Recovers, with further cuts on the way, and checks every unit; then once more. A device that has
    /// worn out by then can still be read.
    fn recover(&mut self, at: Nanos) -> Result<(), String> {
        self.now = at;
        self.pending.clear();
        // Every other run forgets the layer itself, as a power cut does.
        if self.rng.below(2) == 0 {
            let unit_count = self.model.unit_count();
            let built = self.subject.config.build(&self.nand, unit_count, self.seed);
            self.ftl = built.map_err(|error| format!("a new layer: {error}"))?;
        }
        for _ in 0..self.rng.below(RECOVERY_CUT_COUNT) {
            let (number, tear) = (self.rng.below(4), self.rng.below(2) == 0);
            self.nand.fail_power_after(number, tear);
            let after = self.start();
            match self.ftl.recover(&mut self.nand, after) {
                Ok(_) | Err(FtlError::Nand(NandError::PowerLost)) => {}
                Err(error) => return Err(format!("recovery with a cut: {error}")),
            }
        }
        self.nand.power_on();
        for round in ["first", "second"] {
            let after = self.start();
            let recovered = self.ftl.recover(&mut self.nand, after);
            self.wait(recovered.map_err(|error| format!("{round} recovery: {error}"))?);
            self.ftl.audit(&self.nand);
            self.nand.audit();
            // What was durable at the first recovery is all there is at the second.
            let at = if round == "first" { at } else { Nanos::MAX };
            for lpn in (0..self.model.unit_count()).map(Lpn) {
                let after = self.start();
                let outcome = self.ftl.read(&mut self.nand, after, lpn, 16);
                let content = outcome.map_err(|error| format!("unit {}: {error}", lpn.0))?.content;
                self.model.survived(lpn, &content, at).map_err(|e| format!("{round}: {e}"))?;
            }
        }
        Ok(())
    }

    /// The recovered device takes all of its units once more, in another order, and a flush.
    fn go_on(&mut self, before: &[Option<u64>]) -> Result<(), String> {
        let mut order: Vec<u64> = (0..self.model.unit_count()).collect();
        self.rng.shuffle(&mut order);
        let mut result = Ok(());
        for lpn in order {
            result = result.and_then(|()| self.write(Lpn(lpn), true));
        }
        match result.and_then(|()| self.flush()) {
            // Worn out: what is stored stays readable, and there is nothing more to check.
            Err(FtlError::DeviceFull) if self.subject.shape.endurance > 0 => {
                self.ftl.audit(&self.nand);
                self.nand.audit();
                return self.read_all();
            }
            other => other.map_err(|error| format!("writing on: {error}"))?,
        }
        self.read_all()?;
        self.ftl.audit(&self.nand);
        self.nand.audit();
        self.check_sequences(before)
    }

    fn read_all(&mut self) -> Result<(), String> {
        (0..self.model.unit_count()).map(Lpn).try_for_each(|lpn| {
            self.read(lpn).map_err(|error| format!("reading on, unit {}: {error}", lpn.0))
        })
    }

    /// What was programmed since `before` has higher sequence numbers than all of `before`.
    fn check_sequences(&self, before: &[Option<u64>]) -> Result<(), String> {
        let highest = before.iter().flatten().max().copied().unwrap_or(0);
        for (page, (old, new)) in before.iter().zip(sequences(&self.nand)).enumerate() {
            let Some(sequence) = new.filter(|_| *old != new) else { continue };
            if sequence <= highest {
                return Err(format!(
                    "flash page {page} was programmed with sequence {sequence}, not above {highest}"
                ));
            }
        }
        Ok(())
    }
}

/// The sequence number of every flash page that holds a unit; torn ones hold none.
fn sequences(nand: &NandArray) -> Vec<Option<u64>> {
    let sequence = |page| {
        let spare = nand.spare(page)?;
        spare.lpns.iter().any(|&lpn| lpn != NO_LPN).then_some(spare.sequence)
    };
    (0..nand.geometry().flash_page_count()).map(Ppn).map(sequence).collect()
}

pub(crate) fn geometry(shape: &Shape) -> Geometry {
    Geometry {
        channel_count: 1,
        dies_per_channel: shape.dies,
        planes_per_die: shape.planes,
        erase_blocks_per_plane: shape.blocks,
        flash_pages_per_erase_block: shape.pages,
        flash_page_bytes: shape.flash_page_bytes,
        spare_bytes: 16,
    }
}

fn array_config(subject: &Subject) -> NandConfig {
    let shape = subject.shape;
    NandConfig {
        geometry: geometry(&shape),
        timing: quick_timing(),
        energy: Energy::default(),
        rules: Rules { endurance: shape.endurance, paired_pages: shape.paired, ..Rules::default() },
        units_per_flash_page: shape.units_per_flash_page,
        keep_content: true,
        power_cut_journal: true,
    }
}
