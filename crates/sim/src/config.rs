//! How a simulation runs, apart from the drive.

use nandu_nand::{BusPolicy, Suspend};
use serde::{Deserialize, Serialize};

/// The two ways to tell time; both issue the same chip commands for the same requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A single server, first come first served: what papers on translation layers report.
    #[default]
    Closed,
    /// Dies, planes and channels in parallel, several requests in flight, completions out of order.
    Event,
}

impl Mode {
    /// The name used in tables and JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Event => "event",
        }
    }
}

/// What the arrival times of requests mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// As the source says: those of a trace with times and of a workload with a rate count.
    #[default]
    Auto,
    /// They count: a response lasts from arrival to completion.
    Open,
    /// They do not: the next request comes when there is room, and a response lasts from then.
    Closed,
}

/// What the drive holds before the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitialState {
    /// It holds nothing: no unit was ever written.
    Fresh,
    /// Every unit, as written once in order, without time or counts.
    Sequential,
    /// Every unit, as a long run of uniform random writes leaves it, without time or counts; in
    /// order where the layer has no closed form for that.
    Steady,
    /// Every unit, as written once in order, without time or counts, each in the stream in which the
    /// workload writes it.
    ByStream,
}

/// Settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// How time passes in the simulation.
    pub mode: Mode,
    /// Requests in flight at most; the closed mode has one.
    pub queue_depth: u32,
    /// Whether requests come at their times, or as soon as there is room.
    pub arrivals: Arrivals,
    /// Units of a write buffer before the layer, in the event mode; 0 has none.
    pub write_buffer_units: u32,
    /// Units of the controller's cache before the layer, which merges writes and answers reads; 0 has
    /// none. It takes the place of a write buffer.
    pub cache_units: u32,
    /// Whether the host's reads go before everything of their die that has not begun; event mode.
    pub read_priority: bool,
    /// Whether they also interrupt what has begun, and what that costs; needs `read_priority`.
    pub suspend: Option<Suspend>,
    /// Whose transfer a channel takes first; event mode.
    pub bus: BusPolicy,
    /// Whether the layer works in the background where nothing has arrived. Then operation counts
    /// depend on time, and the modes differ.
    pub background: bool,
    /// What the drive holds at first; by default what a long run of uniform random writes leaves, for
    /// a workload, and for a trace what one sequential pass leaves. A workload of several streams finds
    /// each unit in its stream where the layer keeps streams apart.
    pub initial: Option<InitialState>,
    /// Multiples of the logical space that are written before anything counts. By default a workload
    /// writes [`RunConfig::WARM_UP`] and what else the array has space for, uniform random writes over
    /// a steady page map [`RunConfig::STEADY_WARM_UP`]; a trace and a fresh drive have none.
    pub warm_up: Option<f64>,
    /// Whether the conservation checks run, which take memory and time.
    pub checks: bool,
    /// Seed of everything random.
    pub seed: u64,
}

impl RunConfig {
    /// Drive writes that bring a drive into steady state: uniform random writes are within 1.5 % of
    /// the closed form after it, up to a utilisation of 0.9 (`tests/oracles.rs`).
    pub const WARM_UP: f64 = 4.0;
    /// Drive writes that even out what one pass has prepared (the same tests).
    pub const STEADY_WARM_UP: f64 = 1.0;
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            queue_depth: 32,
            arrivals: Arrivals::default(),
            write_buffer_units: 0,
            cache_units: 0,
            read_priority: false,
            suspend: None,
            bus: BusPolicy::InOrder,
            background: false,
            initial: None,
            warm_up: None,
            checks: false,
            seed: 1,
        }
    }
}
