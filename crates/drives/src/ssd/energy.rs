//! What a drive draws as a whole: at work, idle, in low-power states (NVMe power management).
//!
//! ```text
//!            request                              after_idle + entry
//!   active ◄───────── idle ──────────────────────────────► low-power state ──► the next one
//!      └────────────────▲         a request in a state that is not operational waits: the rest of
//!   nothing in flight,  │         the entry, then the exit
//!   no chip at work ────┘
//! ```
//!
//! 1. The drive is at work while a command is in flight or a chip works, also for the layer.
//! 2. While a state is entered the drive draws what it drew before; while one is left it is at work.
//! 3. What is told at a time is what has passed by then, so that readings only grow.
//! 4. Of a reading ahead of the drive's own clock, commands of chips that are under way end when they do,
//!    and the drive rests from then on.

use nandu_base::{Nanos, Picojoules};
use nandu_device::EnergyParts;
use nandu_device::energy::drawn;
use nandu_nand::ChipEnergy;
use serde::{Deserialize, Serialize};

/// Power by what the drive does: the `[ssd.power]` section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdPowerConfig {
    /// Ready, without work.
    pub idle_milliwatts: u64,
    /// While a command is in the drive or a chip works, at least idle.
    pub active_milliwatts: u64,
    /// Whether `active_milliwatts` has the chips' own energy in it, as what is measured at a plug has.
    /// Otherwise theirs is added.
    #[serde(default)]
    pub includes_chips: bool,
    /// Low-power states, which a drive that rests goes through in this order.
    #[serde(default)]
    pub states: Vec<PowerStateConfig>,
}

/// A low-power state, in the words of NVMe: `[[ssd.power.states]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerStateConfig {
    /// While the drive is in the state, at most what it drew before.
    pub milliwatts: u64,
    /// How long the drive must have rested before it enters the state.
    pub after_idle_ns: Nanos,
    /// How long that takes (ENLAT).
    pub entry_ns: Nanos,
    /// How long the way out takes (EXLAT).
    pub exit_ns: Nanos,
    /// Whether requests are served in the state, so that none waits for an exit.
    #[serde(default)]
    pub is_operational: bool,
}

impl SsdPowerConfig {
    /// Checks ranges and the order of the states.
    ///
    /// # Errors
    /// The first mistake, which names the field.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.active_milliwatts < self.idle_milliwatts {
            return Err("power: active_milliwatts is below idle");
        }
        let (mut milliwatts, mut entered_at) = (self.idle_milliwatts, Nanos::ZERO);
        for state in &self.states {
            if state.milliwatts > milliwatts {
                return Err(
                    "power: states must each have at most the milliwatts of the one before",
                );
            }
            if state.after_idle_ns < entered_at {
                return Err("power: states must be entered one after the other: \
                            after_idle_ns is before the end of the entry of the one before");
            }
            (milliwatts, entered_at) = (state.milliwatts, state.after_idle_ns + state.entry_ns);
        }
        Ok(())
    }

    /// Of a rest that has taken `length`: how long the drive was idle, and what it drew after that.
    fn rest(&self, length: Nanos) -> (Nanos, Picojoules) {
        let ends = self.states.iter().map(|state| state.after_idle_ns + state.entry_ns);
        let mut idle = length;
        let (mut from, mut low) = (None, Picojoules::ZERO);
        for (state, entered_at) in self.states.iter().zip(ends) {
            if length <= entered_at {
                break;
            }
            match from.replace((entered_at, state.milliwatts)) {
                None => idle = entered_at,
                Some((since, milliwatts)) => low += drawn(milliwatts, entered_at - since),
            }
        }
        if let Some((since, milliwatts)) = from {
            low += drawn(milliwatts, length - since);
        }
        (idle, low)
    }

    /// How long a request waits that ends a rest of `length`.
    fn exit_time(&self, length: Nanos) -> Nanos {
        let entered = self.states.iter().take_while(|state| state.after_idle_ns <= length).last();
        match entered {
            Some(state) if !state.is_operational && length > Nanos::ZERO => {
                (state.after_idle_ns + state.entry_ns).saturating_sub(length) + state.exit_ns
            }
            _ => Nanos::ZERO,
        }
    }
}

/// What a drive is at, and since when.
#[derive(Clone, Copy, Debug)]
enum Standing {
    /// Without power it draws nothing.
    Off,
    /// A rest, from its beginning.
    Idle(Nanos),
    /// At work since then.
    Active(Nanos),
}

/// Adds up what a drive draws.
#[derive(Debug)]
pub(super) struct PowerAccount {
    config: SsdPowerConfig,
    standing: Standing,
    /// Time at work that is over.
    active: Nanos,
    /// Time without work, but in no low-power state, that is over.
    idle: Nanos,
    /// Energy of low-power states that are over.
    low: Picojoules,
}

impl PowerAccount {
    pub(super) fn new(config: SsdPowerConfig) -> Self {
        let (standing, time) = (Standing::Idle(Nanos::ZERO), Nanos::ZERO);
        Self { config, standing, active: time, idle: time, low: Picojoules::ZERO }
    }

    /// A request comes `now`: how long it waits for the drive.
    pub(super) fn exit_time(&self, now: Nanos) -> Nanos {
        match self.standing {
            Standing::Idle(since) => self.config.exit_time(now.saturating_sub(since)),
            Standing::Active(_) | Standing::Off => Nanos::ZERO,
        }
    }

    /// From `now` on the drive is at work, or it is not.
    #[inline]
    pub(super) fn note(&mut self, is_active: bool, now: Nanos) {
        match (self.standing, is_active) {
            (Standing::Idle(_), true) => self.stand(Standing::Active(now), now),
            (Standing::Active(_), false) => self.stand(Standing::Idle(now), now),
            _ => {}
        }
    }

    /// The power goes.
    pub(super) fn cut(&mut self, now: Nanos) {
        self.stand(Standing::Off, now);
    }

    /// The power comes back, and the drive works until `ready_at`.
    pub(super) fn restore(&mut self, now: Nanos, ready_at: Nanos) {
        self.stand(Standing::Active(now), now);
        self.stand(Standing::Idle(ready_at), ready_at);
    }

    fn stand(&mut self, standing: Standing, now: Nanos) {
        (self.active, self.idle, self.low) = self.times(now, now);
        self.standing = standing;
    }

    /// Time at work, idle time and energy of low-power states by `now`, if what is under way works until
    /// `works_until`.
    fn times(&self, now: Nanos, works_until: Nanos) -> (Nanos, Nanos, Picojoules) {
        let (mut active, mut idle, mut low) = (self.active, self.idle, self.low);
        let rests_since = match self.standing {
            Standing::Off => now,
            Standing::Active(since) => {
                let end = works_until.clamp(since, now.max(since));
                active += end - since;
                end
            }
            Standing::Idle(since) => since,
        };
        let (rested, drew) = self.config.rest(now.saturating_sub(rests_since));
        idle += rested;
        low += drew;
        (active, idle, low)
    }

    /// Whether the drive is at work.
    pub(super) const fn is_active(&self) -> bool {
        matches!(self.standing, Standing::Active(_))
    }

    /// What the drive has used by `now`, if what is under way works until `works_until`; `chips` is their
    /// own.
    pub(super) fn parts(&self, now: Nanos, works_until: Nanos, chips: &ChipEnergy) -> EnergyParts {
        let (active, idle, low) = self.times(now, works_until);
        let config = &self.config;
        let chips = if config.includes_chips { &ChipEnergy::default() } else { chips };
        EnergyParts {
            idle: drawn(config.idle_milliwatts, active + idle),
            active: drawn(config.active_milliwatts - config.idle_milliwatts, active),
            transfer: chips.transfer,
            cells: chips.cells,
            erase: chips.erase,
            standby: low,
            ..EnergyParts::default()
        }
    }
}
