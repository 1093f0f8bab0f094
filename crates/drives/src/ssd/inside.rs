//! What a solid-state drive tells of its inside, beside the contract of a device: where the time of its chip
//! commands went, how long dies, channels, the controller and the link worked.
//!
//! 1. Nothing is told twice: each time is of one server, and a server works on one thing at a time, so that
//!    none of them worked longer than time passed.

use super::Ssd;
use nandu_base::Nanos;
use nandu_nand::Usage;

/// Since the drive was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Dies, channels, and what commands of the host waited for.
    pub flash: Usage,
    /// How long the controller worked on commands, in all.
    pub controller_busy: Nanos,
    /// The link, with what is written.
    pub link_to_drive: LinkUse,
    /// The link, with what is read.
    pub link_to_host: LinkUse,
}

/// One direction of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUse {
    /// Requests that moved data.
    pub request_count: u64,
    /// How long these waited for it, together.
    pub waited: Nanos,
    /// How long data moved over the link, in all.
    pub busy: Nanos,
}

impl LinkUse {
    pub(super) fn add(&mut self, waited: Nanos, busy: Nanos) {
        self.request_count += 1;
        self.waited += waited;
        self.busy += busy;
    }
}

impl Ssd {
    /// What has ended by now.
    #[must_use]
    pub fn inside(&self) -> Inside {
        Inside {
            flash: self.nand.usage(),
            controller_busy: self.controller_busy,
            link_to_drive: self.link_in_use,
            link_to_host: self.link_out_use,
        }
    }
}
