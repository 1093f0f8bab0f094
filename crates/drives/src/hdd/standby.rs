//! Platters that stop after a rest and get up to speed for the next request.
//!
//! ```text
//!   last work ──standby_after──► standing ──── request ──spin_up──► running
//!               idle power       standby power        spin-up power
//! ```
//!
//! 1. The drive stands or gets up to speed only while no request is served; these times never overlap.
//! 2. What is told at a time is what has passed by then, so that readings only grow.

use super::config::HddStandbyConfig;
use nandu_base::Nanos;

#[derive(Debug)]
pub(super) struct Standby {
    config: HddStandbyConfig,
    /// How long the platters stood in rests that are over.
    stood: Nanos,
    /// How long they got up to speed before the last time.
    spun_up: Nanos,
    /// From when to when they got up to speed the last time.
    last_spin_up: (Nanos, Nanos),
}

impl Standby {
    pub(super) const fn new(config: HddStandbyConfig) -> Self {
        let last_spin_up = (Nanos::ZERO, Nanos::ZERO);
        Self { config, stood: Nanos::ZERO, spun_up: Nanos::ZERO, last_spin_up }
    }

    /// A request comes `now`; when the platters run. `rests_since` is none while something works.
    pub(super) fn wake(&mut self, now: Nanos, rests_since: Option<Nanos>) -> Nanos {
        let stood = self.standing(now, rests_since);
        if stood > Nanos::ZERO {
            let (from, to) = self.last_spin_up;
            self.stood += stood;
            self.spun_up += to - from;
            self.last_spin_up = (now, now + self.config.spin_up_ns);
        }
        now.max(self.last_spin_up.1)
    }

    /// How long the platters have stood and got up to speed by `now`.
    pub(super) fn times(&self, now: Nanos, rests_since: Option<Nanos>) -> (Nanos, Nanos) {
        let (from, to) = self.last_spin_up;
        let open = now.min(to).saturating_sub(from);
        (self.stood + self.standing(now, rests_since), self.spun_up + open)
    }

    /// How long the platters have stood since the last work.
    fn standing(&self, now: Nanos, rests_since: Option<Nanos>) -> Nanos {
        let rested_from = rests_since.map(|since| since.max(self.last_spin_up.1));
        rested_from
            .map_or(Nanos::ZERO, |from| now.saturating_sub(from + self.config.standby_after_ns))
    }
}
