//! A whole simulated SSD: the cut comes at a moment after the planned request was issued, and what it
//! takes is what controller, translation layer and chips had not finished by then.
//!
//! ```text
//!   request n ──┬─ delay drawn ─┬─► requests and completions until then ─► cut ─► PowerLost …
//!               └─ none ────────┴─► cut before it is served
//!   power on ─► recovery from the cells ─┬─► serves
//!                   ▲                    └─ cut again in the middle, if the drive's seed wants it
//!                   └────────────────────────┘
//! ```
//!
//! 1. Nothing is told that was done after the cut, and all that was done before it.
//! 2. The moments follow from the plan's seed, those inside recoveries from the scenario's.

use super::Ground;
use super::host_cache::HostCache;
use crate::drive::Drive;
use nandu_base::{Nanos, Rng, to_index};
use nandu_device::{
    Completion, Counters, Device, DeviceError, DeviceInfo, FailureCounts, FaultPlan, Geometry,
    Rejected, Request,
};
use nandu_drives::ssd::Ssd;

/// A cut comes within 2^k ns of its request, for a drawn k: an instant, a program, a merge.
const DELAY_LOG2_NS: [u32; 8] = [0, 15, 18, 19, 20, 21, 22, 24];
/// How long the power stays away.
const DARK: Nanos = Nanos(1_000_000);

struct PluggedSsd {
    ssd: Ssd,
    plan: FaultPlan,
    /// Draws for the plan's cut.
    plan_rng: Rng,
    /// Draws for cuts inside recoveries.
    recovery_rng: Rng,
    recovery_cuts_max: u64,
    submitted_count: u64,
    cut_at: Option<Nanos>,
    power_is_on: bool,
}

pub(super) fn ground(geometry: Geometry, drive: &Drive, seed: u64) -> Box<dyn Ground> {
    let mut ssd = Ssd::new("ssd", geometry, &drive.config, true, seed)
        .expect("drives of scenarios fit together");
    if drive.is_full {
        ssd.fill_at_once().expect("the drive is fresh");
    }
    Box::new(HostCache::new(PluggedSsd {
        ssd,
        plan: FaultPlan::default(),
        plan_rng: Rng::new(0),
        recovery_rng: Rng::for_part(seed, "cuts inside recoveries"),
        recovery_cuts_max: drive.recovery_cuts_max,
        submitted_count: 0,
        cut_at: None,
        power_is_on: true,
    }))
}

impl PluggedSsd {
    /// The power goes if its moment is not after `now`.
    fn pass_time(&mut self, now: Nanos) {
        if self.cut_at.is_some_and(|at| at <= now) {
            self.cut_power();
        }
    }

    fn plan_cut(&mut self, now: Nanos) {
        let log2 = DELAY_LOG2_NS[to_index(self.plan_rng.below(DELAY_LOG2_NS.len() as u64))];
        let delay = Nanos(self.plan_rng.below(1 << log2));
        self.cut_at = Some(now.max(self.ssd.now()) + delay);
    }
}

impl Ground for PluggedSsd {
    fn submitted_count(&self) -> u64 {
        self.submitted_count
    }

    // What fails is the business of the host's memory above.
    fn submitted_flush_count(&self) -> u64 {
        0
    }

    fn failed(&self) -> FailureCounts {
        FailureCounts::default()
    }

    fn unreadable_count(&self) -> usize {
        0
    }

    fn make_readable(&mut self) {}

    fn set_plan(&mut self, plan: FaultPlan) {
        self.plan_rng = Rng::for_part(plan.seed, "moment of a cut");
        self.plan = plan;
        self.cut_at = None;
    }

    fn cut_power(&mut self) {
        let now = self.ssd.now();
        let at = self.cut_at.take().unwrap_or(now).max(now);
        self.ssd.power_cut(at).expect("drives of scenarios keep the journal");
        self.power_is_on = false;
    }

    fn is_powered(&self) -> bool {
        self.power_is_on
    }

    fn power_on(&mut self) -> Result<(), String> {
        let refuse = |error: DeviceError| format!("the drive does not recover: {error}");
        if self.power_is_on {
            return Ok(());
        }
        let mut now = self.ssd.now() + DARK;
        for _ in 0..self.recovery_rng.below(self.recovery_cuts_max + 1) {
            let ready_at = self.ssd.power_on(now).map_err(refuse)?;
            let recovery = ready_at.saturating_sub(now);
            let at = now + Nanos(self.recovery_rng.below(recovery.0 + 1));
            self.ssd.power_cut(at).map_err(refuse)?;
            now = at + DARK;
        }
        self.ssd.power_on(now).map_err(refuse)?;
        self.power_is_on = true;
        Ok(())
    }

    fn audit(&self) {
        self.ssd.audit();
    }
}

impl Device for PluggedSsd {
    fn info(&self) -> &DeviceInfo {
        self.ssd.info()
    }

    fn now(&self) -> Nanos {
        self.ssd.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info().check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        self.submitted_count += 1;
        if self.plan.power_cut_at_request == Some(self.submitted_count) && self.power_is_on {
            self.plan_cut(now);
        }
        self.pass_time(now.max(self.ssd.now()));
        self.ssd.submit(now, request)
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let Some(cut_at) = self.cut_at else {
            return self.ssd.next_completion(until);
        };
        if let Some(completion) = self.ssd.next_completion(until.min(cut_at)) {
            return Some(completion);
        }
        // Without anything in flight nobody waits, and no time passes.
        if self.ssd.in_flight() > 0 {
            self.pass_time(until);
        }
        self.ssd.next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.ssd.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        let dark_from = self.cut_at.unwrap_or(time).max(self.ssd.now());
        self.ssd.idle_until(time.min(dark_from));
        self.pass_time(time);
        self.ssd.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.ssd.counters()
    }
}
