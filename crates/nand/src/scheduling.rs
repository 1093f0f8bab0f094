//! In what order a chip array serves its commands.
//!
//! The papers' response times come from a single server: one command after the other, whatever the
//! die. A drive works with all dies and channels at once, and may let the host's reads go first.

use crate::BusPolicy;
use nandu_base::Nanos;
use serde::{Deserialize, Serialize};

/// Who works at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Dies and channels work side by side.
    #[default]
    Parallel,
    /// One command at a time, in the order of their issue.
    SingleServer,
}

/// What it costs to interrupt an array for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// Time to suspend and resume a program (MQSim: 100 us).
    pub program_ns: Nanos,
    /// Time to suspend and resume an erase (MQSim: 700 us).
    pub erase_ns: Nanos,
}

impl Suspend {
    /// MQSim's: 100 us for a program, 700 us for an erase \[V\].
    pub const MQSIM: Self =
        Self { program_ns: Nanos::from_micros(100), erase_ns: Nanos::from_micros(700) };
}

/// How commands are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scheduling {
    /// Who works at the same time.
    pub service: Service,
    /// Whether the host's reads go before everything of their die that has not begun.
    pub read_priority: bool,
    /// Whether they also interrupt the program or erase that has begun; absent = no.
    pub suspend: Option<Suspend>,
    /// Whose transfer a channel takes first.
    pub bus: BusPolicy,
}
