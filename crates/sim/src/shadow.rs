//! The conservation checks: what every unit must hold, and sums that must agree whatever the layer
//! does (flash reference 2.1.7: I2, I3, I7, I8, I9).
//!
//! 1. A read delivers what was last written to the unit: nothing where that is nothing, where it was
//!    trimmed, or where the drive was filled at once.
//! 2. Erases counted in the cells = wear gained by all erase blocks.
//! 3. Programs * units of a flash page >= units written to the layer, less what may wait in open flash
//!    pages.
//! 4. The layer's own audit and those of the array and the cache hold.

use crate::CacheUse;
use crate::engine::{Engine, HostCounts};
use nandu_base::{FlashCounters, FlashOperation, Lpn, to_index};
use nandu_nand::Content;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Open flash pages that a layer may keep for each plane: host, cleaning and streams.
const OPEN_PAGES_PER_PLANE: u64 = 16;

/// The version that each unit holds; the content is the version and the unit.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    versions: Vec<u64>,
    last_version: u64,
    compared_count: u64,
    audit_count: u64,
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CheckSummary {
    /// Units that were read and compared with what was last written.
    pub compared_units: u64,
    /// Audits of layer, array and sums.
    pub audit_count: u64,
}

impl Shadow {
    /// All units without content.
    pub(crate) fn new(unit_count: u64) -> Self {
        let versions = vec![0; to_index(unit_count)];
        Self { versions, last_version: 0, compared_count: 0, audit_count: 0 }
    }

    /// A new version of a unit, as content.
    pub(crate) fn write(&mut self, lpn: Lpn) -> Content {
        self.last_version += 1;
        self.versions[to_index(lpn.0)] = self.last_version;
        Some(Arc::from(content_of(lpn, self.last_version)))
    }

    /// Forgets the contents of `count` units from `first` on.
    pub(crate) fn trim(&mut self, first: u64, count: u64) {
        self.versions[to_index(first)..to_index(first + count)].fill(0);
    }

    /// Checks invariant 1 for a unit that was read.
    pub(crate) fn compare(&mut self, lpn: Lpn, content: &Content) -> Result<(), String> {
        self.compared_count += 1;
        let version = self.versions[to_index(lpn.0)];
        let expected = (version > 0).then(|| content_of(lpn, version));
        if content.as_deref() == expected.as_ref().map(<[u8; 16]>::as_slice) {
            return Ok(());
        }
        let found = match content.as_deref().map(<[u8; 16]>::try_from) {
            None => "nothing".into(),
            Some(Ok(bytes)) => {
                let word = |from: usize| {
                    let bytes = bytes[from..from + 8].try_into().expect("half of sixteen bytes");
                    u64::from_le_bytes(bytes)
                };
                format!("version {} of unit {}", word(8), word(0))
            }
            Some(Err(_)) => "content that nobody wrote".into(),
        };
        Err(format!("unit {} reads {found}, but version {version} was written last", lpn.0))
    }

    pub(crate) const fn summary(&self) -> CheckSummary {
        CheckSummary { compared_units: self.compared_count, audit_count: self.audit_count }
    }
}

fn content_of(lpn: Lpn, version: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&lpn.0.to_le_bytes());
    bytes[8..].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Counters and wear at one moment, against which invariants 2 and 3 are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline {
    pub(crate) counters: FlashCounters,
    pub(crate) host: HostCounts,
    pub(crate) cache: CacheUse,
    pub(crate) erase_sum: u64,
}

impl Baseline {
    /// The counters as they stand in `engine` now.
    pub(crate) fn of(engine: &Engine) -> Self {
        Self {
            counters: *engine.nand.counters(),
            host: engine.host,
            cache: engine.cache_use().unwrap_or_default(),
            erase_sum: engine.nand.wear().erase_count_sum,
        }
    }
}

/// Checks invariants 2 to 4 since `baseline`.
pub(crate) fn audit(engine: &mut Engine, baseline: &Baseline) -> Result<(), String> {
    let counters = engine.nand.counters().since(&baseline.counters);
    let erases = counters.total(FlashOperation::Erase);
    let wear = engine.nand.wear().erase_count_sum - baseline.erase_sum;
    if erases != wear {
        return Err(format!("{erases} erases are counted, but erase blocks wore by {wear}"));
    }
    let config = engine.nand.config();
    let geometry = engine.nand.geometry();
    let units = u64::from(config.units_per_flash_page);
    let planes = u64::from(geometry.die_count() * geometry.planes_per_die);
    let width = units * u64::from(geometry.planes_per_die);
    let waiting = if width > 1 { units * planes * OPEN_PAGES_PER_PLANE } else { 0 };
    let written = match engine.cache_use() {
        Some(cache) => cache.since(&baseline.cache).layer_writes(),
        None => engine.host.since(&baseline.host).write_units,
    };
    let programmed = counters.programmed_pages() * units;
    if programmed + waiting < written {
        return Err(format!("{written} units were written, but only {programmed} programmed"));
    }
    let audits = || {
        engine.ftl.audit(&engine.nand);
        engine.nand.audit();
        if let Some(cache) = &engine.cache {
            cache.audit();
        }
    };
    catch_unwind(AssertUnwindSafe(audits)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("audit: {}", text.unwrap_or("an invariant is broken"))
    })?;
    if let Some(shadow) = &mut engine.shadow {
        shadow.audit_count += 1;
    }
    Ok(())
}
