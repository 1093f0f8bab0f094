//! Where seeds choose, this leaves nothing out: a small run is repeated and cut at each of its requests,
//! and so are restarts after some of these cuts.
//!
//! ```text
//!   create ─► requests 1 2 3 … n of one life and its close        a run for each, with several fates
//!                        └► cut ─► open: requests 1 2 3 … m        a run for each, for every n-th cut
//!                                        └► cut ─► open, compare ─► close, open, compare
//! ```
//!
//! 1. Runs differ in nothing but the cut, so every request is cut at, up to the last.
//! 2. What a second opening shows is what the first one showed.

use crate::life::{End, Simulation, Stop, guarded};
use crate::{Outcome, Scenario, Violation};
use nandu_base::Rng;

/// Runs with a cut at the same request, each with another moment and another fate for what was not
/// flushed.
const FATE_COUNT: u64 = 3;
/// Every so manieth cut has its restart cut at every request, unless somebody wants more.
pub const RESTART_STEP: usize = 16;
/// Most transactions of the run and most changes of one.
const TRANSACTION_COUNT_MAX: u64 = 6;
const CHANGE_COUNT_MAX: u64 = 6;

/// Where the power goes in one run, counted in requests from the end of the creation and from the
/// beginning of the restart.
#[derive(Clone, Copy)]
struct Cut {
    at: u64,
    fate: u64,
    at_of_restart: Option<u64>,
}

/// Cuts the power at every request of a small run: the first life of a scenario's database, with a few
/// transactions and one device; and at every request of the restart after every `restart_step`-th of
/// these cuts. Answers with what happened in all runs together.
///
/// # Errors
/// The first promise that is broken, with the cut that breaks it.
///
/// # Panics
/// If `restart_step` is 0.
pub fn cut_at_every_request(
    scenario: &Scenario,
    restart_step: usize,
) -> Result<Outcome, Violation> {
    let (mut scenario, seed) = (scenario.clone(), scenario.seed);
    scenario.log_apart = false;
    scenario.transaction_count_max = scenario.transaction_count_max.min(TRANSACTION_COUNT_MAX);
    scenario.change_count_max = scenario.change_count_max.min(CHANGE_COUNT_MAX);
    let run = |cut: Cut| {
        let walk = || {
            let _planted = scenario.plant()?;
            Simulation::new(&scenario).run_to_cut(cut)
        };
        guarded(seed, walk).map_err(|mut violation| {
            let restart = cut
                .at_of_restart
                .map_or(String::new(), |at| format!(" and at {at} of the restart"));
            violation.what = format!(
                "cut at request {}{restart}, fate {}: {}",
                cut.at, cut.fate, violation.what
            );
            violation
        })
    };
    let mut total = Outcome::default();
    let mut cuts = Vec::new();
    for fate in 0..FATE_COUNT {
        for at in 1.. {
            let Some(outcome) = run(Cut { at, fate, at_of_restart: None })? else { break };
            total.add(&outcome);
            cuts.push((at, fate));
        }
    }
    for &(at, fate) in cuts.iter().step_by(restart_step) {
        for of_restart in 1.. {
            let cut = Cut { at, fate, at_of_restart: Some(of_restart) };
            let Some(outcome) = run(cut)? else { break };
            total.add(&outcome);
        }
    }
    Ok(total)
}

impl Simulation<'_> {
    /// One run; `None` if it has fewer requests than the cut, or the restart has.
    fn run_to_cut(mut self, cut: Cut) -> Result<Option<Outcome>, String> {
        match self.walk_to_cut(cut) {
            Ok(true) => Ok(Some(self.sum_up())),
            Ok(false) => Ok(None),
            Err(Stop::Broken(what)) => Err(what),
            Err(Stop::Told) => Err("damage is told, though no bit flipped".to_owned()),
        }
    }

    /// False if the cut does not come.
    fn walk_to_cut(&mut self, cut: Cut) -> Result<bool, Stop> {
        let database = self.create().map_err(|error| format!("creation failed: {error}"))?;
        let target = self.plan_cut(cut.at, cut.fate);
        let end = self.live(&database)?;
        let end = if matches!(end, End::Crashed) { End::Crashed } else { End::Closed };
        self.end(database, end)?;
        if !self.goes_dark_after(target) {
            return Ok(false);
        }
        self.restore()?;
        if let Some(at) = cut.at_of_restart {
            let target = self.plan_cut(at, cut.fate);
            let opened = self.open().map(drop);
            if !self.is_dark() {
                opened?;
            }
            if !self.goes_dark_after(target) {
                return Ok(false);
            }
            self.restore()?;
        }
        let database = self.open()?;
        self.verify(&database)?;
        self.end(database, End::Closed)?;
        self.restore()?;
        let database = self.open()?;
        self.verify(&database).map_err(|stop| stop.at("opened again"))?;
        self.end(database, End::Closed)?;
        self.restore()?;
        Ok(true)
    }

    /// Whether request `target` came; the power goes now where its cut is still to come.
    fn goes_dark_after(&self, target: u64) -> bool {
        let came = self.request_count() >= target;
        if came && !self.is_dark() {
            self.cut_power_now();
        }
        came
    }

    /// Answers with the number of the request, counted from the device's first.
    fn plan_cut(&mut self, at: u64, fate: u64) -> u64 {
        let mut rng = Rng::for_part(at * FATE_COUNT + fate, "cut at every request");
        let target = self.request_count() + at;
        let plan = self.scenario.cut(&mut rng, target);
        self.plan(plan);
        target
    }
}
