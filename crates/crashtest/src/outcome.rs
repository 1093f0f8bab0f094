//! What came of a history, or of many: how often what happened, or which promise was broken.
//!
//! 1. The sum over histories is that of each count.

use serde::Serialize;

/// What a history went through without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// A hash of all requests: equal for equal seeds.
    pub trace: u64,
    /// Requests to the devices.
    pub request_count: u64,
    /// Commits that were acknowledged.
    pub commit_count: u64,
    /// Power cuts that came, those at openings included.
    pub cut_count: u64,
    /// Operations that failed.
    pub error_count: u64,
    /// Requests that failed by plan or ever after.
    pub failed_request_count: u64,
    /// Of them, flushes: each lost some of what it was to make durable.
    pub failed_sync_count: u64,
    /// Openings that failed since a request of theirs did.
    pub failed_opening_count: u64,
    /// Changes that were refused for want of room, and taken back.
    pub refused_count: u64,
    /// Bits that flipped.
    pub flip_count: u64,
    /// Histories that ended since damage was told.
    pub told_count: u64,
    /// Tables that were loaded past the log.
    pub load_count: u64,
    /// Loads that failed, by a cut or otherwise.
    pub failed_load_count: u64,
    /// Torn pages that were rebuilt.
    pub repaired_page_count: u64,
    /// Transactions that a restart rolled back.
    pub loser_count: u64,
    /// Flash pages that simulated SSDs programmed.
    pub program_count: u64,
    /// Erase blocks that they erased.
    pub erase_count: u64,
    /// Of many clients, transactions whose reads and writes were checked against those of all others.
    pub deed_count: u64,
    /// Transactions that gave way to others.
    pub conflict_count: u64,
    /// Changes of documents.
    pub document_change_count: u64,
    /// Transactions of TPC-C whose rows were looked for afterwards.
    pub tpcc_count: u64,
    /// Commits that a crash took back, as their durability allows.
    pub lost_count: u64,
}

impl Outcome {
    /// Adds up another history; the traces are mixed.
    pub const fn add(&mut self, other: &Self) {
        self.trace = self.trace.rotate_left(7) ^ other.trace;
        self.request_count += other.request_count;
        self.commit_count += other.commit_count;
        self.cut_count += other.cut_count;
        self.error_count += other.error_count;
        self.failed_request_count += other.failed_request_count;
        self.failed_sync_count += other.failed_sync_count;
        self.failed_opening_count += other.failed_opening_count;
        self.refused_count += other.refused_count;
        self.flip_count += other.flip_count;
        self.told_count += other.told_count;
        self.load_count += other.load_count;
        self.failed_load_count += other.failed_load_count;
        self.repaired_page_count += other.repaired_page_count;
        self.loser_count += other.loser_count;
        self.program_count += other.program_count;
        self.erase_count += other.erase_count;
        self.deed_count += other.deed_count;
        self.conflict_count += other.conflict_count;
        self.document_change_count += other.document_change_count;
        self.tpcc_count += other.tpcc_count;
        self.lost_count += other.lost_count;
    }
}

/// A promise of the engine that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The seed that shows it.
    pub seed: u64,
    /// Which promise, and when.
    pub what: String,
}
