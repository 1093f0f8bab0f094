//! What the processor does for a tuple and for a request, in nanoseconds.

use serde::{Deserialize, Serialize};

/// Nanoseconds of single steps. Measured on the machine, or modelled so that a run is bit-identical.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuCosts {
    /// Finding the next tuple on a page, and its key.
    pub scan_ns: u64,
    /// Putting a tuple's key into a hash table.
    pub hash_build_ns: u64,
    /// Looking a key up in a hash table; also hashing a key to a bucket.
    pub hash_probe_ns: u64,
    /// Comparing two keys.
    pub compare_ns: u64,
    /// Copying a tuple: into a hash area, an output buffer, or a result.
    pub copy_ns: u64,
    /// Descending an index from its root.
    pub index_descent_ns: u64,
    /// Issuing a request and taking its answer.
    pub request_ns: u64,
}

impl CpuCosts {
    /// The processor takes no time.
    pub const NONE: Self = Self {
        scan_ns: 0,
        hash_build_ns: 0,
        hash_probe_ns: 0,
        compare_ns: 0,
        copy_ns: 0,
        index_descent_ns: 0,
        request_ns: 0,
    };

    /// Chosen, not measured and not published: the order of a server core of the 2020s, for runs that
    /// have to be the same everywhere.
    pub const MODELLED: Self = Self {
        scan_ns: 25,
        hash_build_ns: 60,
        hash_probe_ns: 45,
        compare_ns: 12,
        copy_ns: 20,
        index_descent_ns: 700,
        request_ns: 6_000,
    };
}
