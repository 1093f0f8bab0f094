//! The conservation checks find a broken layer: doubles that each break one thing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Lpn, Nanos};
use nandu_ftl::{Ftl, FtlError, ReadOutcome};
use nandu_nand::{Content, NandArray, Ticket};
use nandu_sim::{DriveChoice, Mode, RunConfig, SimError, Simulation, Unwatched};
use nandu_trace::WorkloadSpec;

/// What a double does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Every thousandth write is acknowledged and dropped.
    LosesWrites,
    /// Every thousandth write goes to the neighbour.
    MixesUpUnits,
    /// A trim does nothing.
    IgnoresTrims,
    /// A read is done before it was issued.
    AnswersEarly,
    /// Erases are not counted.
    HidesErases,
    /// Every tenth read of the chip is not counted.
    HidesReads,
}

#[derive(Debug)]
struct Broken {
    layer: Box<dyn Ftl>,
    fault: Fault,
    writes: u64,
}

impl Ftl for Broken {
    fn unit_bytes(&self) -> u32 {
        self.layer.unit_bytes()
    }

    fn unit_count(&self) -> u64 {
        self.layer.unit_count()
    }

    fn read(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        bytes: u32,
    ) -> Result<ReadOutcome, FtlError> {
        let before = *nand.counters();
        let mut outcome = self.layer.read(nand, after, lpn, bytes)?;
        if self.fault == Fault::HidesReads && lpn.0.is_multiple_of(10) {
            *nand.counters_mut() = before;
        }
        if self.fault == Fault::AnswersEarly {
            outcome.done = Ticket::of_time(Nanos::ZERO);
        }
        Ok(outcome)
    }

    fn peek(&self, nand: &NandArray, lpn: Lpn) -> Content {
        self.layer.peek(nand, lpn)
    }

    fn write(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        lpn: Lpn,
        content: Content,
    ) -> Result<Ticket, FtlError> {
        self.writes += 1;
        let strikes = self.writes.is_multiple_of(1000);
        let before = *nand.counters();
        match self.fault {
            Fault::LosesWrites if strikes => return Ok(after),
            Fault::MixesUpUnits if strikes => {
                return self.layer.write(nand, after, Lpn(lpn.0 ^ 1), content);
            }
            _ => {}
        }
        let done = self.layer.write(nand, after, lpn, content)?;
        let is_hidden = self.fault == Fault::HidesErases;
        if is_hidden && nand.counters().since(&before).total(nandu_base::FlashOperation::Erase) > 0
        {
            *nand.counters_mut() = before;
        }
        Ok(done)
    }

    fn trim(
        &mut self,
        nand: &mut NandArray,
        after: Ticket,
        first: Lpn,
        count: u64,
    ) -> Result<Ticket, FtlError> {
        match self.fault {
            Fault::IgnoresTrims => Ok(after),
            _ => self.layer.trim(nand, after, first, count),
        }
    }

    fn flush(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        self.layer.flush(nand, after)
    }

    fn complete_rows(&mut self, nand: &mut NandArray) -> Result<bool, FtlError> {
        self.layer.complete_rows(nand)
    }

    fn idle(&mut self, nand: &mut NandArray, now: Nanos, until: Nanos) {
        self.layer.idle(nand, now, until);
    }

    fn initialise_sequential(&mut self, nand: &mut NandArray) -> Result<(), FtlError> {
        self.layer.initialise_sequential(nand)
    }

    fn recover(&mut self, nand: &mut NandArray, after: Ticket) -> Result<Ticket, FtlError> {
        self.layer.recover(nand, after)
    }

    fn host_pages(&self) -> (u64, u64) {
        self.layer.host_pages()
    }

    fn map_bytes(&self) -> u64 {
        self.layer.map_bytes()
    }

    fn audit(&self, nand: &NandArray) {
        self.layer.audit(nand);
    }
}

fn run(fault: Fault, mode: Mode) -> Result<(), SimError> {
    let choice = DriveChoice {
        name: "myers_slc".into(),
        physical_erase_blocks: Some(64),
        ..DriveChoice::default()
    };
    let (nand, layer) = choice.resolve(true)?.build(1)?;
    let config = RunConfig { checks: true, mode, ..RunConfig::default() };
    let layer = Box::new(Broken { layer, fault, writes: 0 });
    let mut simulation = Simulation::new(nand, layer, &config)?;
    let capacity = simulation.capacity_bytes();
    let mut source = WorkloadSpec::parse("uniform:read=40,trim=5")?.source(capacity, 2048, 1)?;
    simulation.measure(&mut source, 30_000, &mut Unwatched).map(|measured| {
        assert!(measured.checks.unwrap().compared_units > 10_000);
    })
}

#[test]
fn a_sound_layer_passes() {
    run(Fault::None, Mode::Closed).unwrap();
    run(Fault::None, Mode::Event).unwrap();
}

#[test]
fn each_broken_layer_is_found_by_the_check_meant_for_it() {
    let (closed, event) = (Mode::Closed, Mode::Event);
    for (fault, mode, words) in [
        (Fault::LosesWrites, closed, "was written last"),
        (Fault::LosesWrites, event, "was written last"),
        (Fault::MixesUpUnits, closed, "was written last"),
        (Fault::IgnoresTrims, closed, "but version 0 was written last"),
        (Fault::AnswersEarly, closed, "before its start"),
        (Fault::HidesErases, closed, "erases are counted"),
        (Fault::HidesReads, event, "but what is counted takes"),
    ] {
        let error = run(fault, mode).unwrap_err().to_string();
        assert!(error.starts_with("conservation check failed: "), "{fault:?}: {error}");
        assert!(error.contains(words), "{fault:?}: {error}");
    }
}
