//! What is kept of a store and of vectors in it, so that another process goes on with them.
//!
//! ```text
//!   a phase ends ─► files synced ─► KeptStore, KeptVector: the caller's to write down ─► the next phase
//!   another process: volumes opened ─► Store::resume ─► Vector::resume ─► the next phase again
//! ```
//!
//! 1. What is told as kept is durable.
//! 2. Blocks of a kept vector are not written again while it lives; where room is held
//!    ([`Store::hold`]) not after that either, until the next phase is kept.
//! 3. A stamp that is given after a resumption was not given before: what the process that ended
//!    wrote later is never taken for what the next one writes.
//! 4. What does not fit the files is an error, when it is resumed or when it is read; so are files of
//!    the same names that another store wrote, where each has an identity ([`Store::identified`]).

use super::room::{Extent, Room};
use super::{Buffers, FILE_KIND, Settings, Shared, Store, TRAILER_BYTES, TemporaryFile};
use crate::{ExternalError, Grant};
use nandu_storage::StorageError;
use nandu_storage::volume::Io;
use nandu_workers::sync::Mutex;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// So many stamps are left out at each resumption: more than extents that one process makes.
const STAMPS_LEFT_OUT: u32 = 1 << 26;

/// A store whose files stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptStore {
    /// What its blocks know of it.
    pub(super) identity: u64,
    /// Bytes of a block.
    pub(super) block_bytes: u32,
    /// The name of its file on each volume, in their order.
    pub(super) files: Vec<String>,
    /// No stamp above this was given yet.
    pub(super) last_stamp: u32,
}

/// A vector of a kept store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptVector {
    /// How many records it has, and how many bytes one has.
    pub(crate) len: u64,
    pub(crate) record_bytes: u64,
    /// Where its blocks lie, in their order.
    pub(crate) extents: Vec<Extent>,
}

/// What was kept does not fit.
pub(crate) fn misfit(what: &str) -> ExternalError {
    let place = "what was kept of a run".to_owned();
    let what = format!("{what}; begin the run anew");
    StorageError::Corrupt { place, what }.into()
}

impl KeptVector {
    /// Blocks that hold records, extent by extent.
    fn blocks_in_use(&self, block_bytes: u32) -> impl Iterator<Item = Range<u64>> + '_ {
        let room = u64::from(block_bytes) - TRAILER_BYTES as u64;
        // Whether there are as many as its length says is seen when it is resumed.
        let per_block = room.checked_div(self.record_bytes).unwrap_or(1).max(1);
        let mut left = self.len.div_ceil(per_block);
        self.extents.iter().map(move |extent| {
            let count = left.min(extent.count);
            left -= count;
            extent.first..extent.first + count
        })
    }
}

/// How many rounds of blocks the file of a volume has, the `index`-th of `count`: extents of several
/// vectors may all end before they come to it.
fn rounds_in_use(vectors: &[&KeptVector], block_bytes: u32, (index, count): (u64, u64)) -> u64 {
    let ranges = vectors.iter().flat_map(|vector| vector.blocks_in_use(block_bytes));
    let rounds = ranges.map(|used| {
        let behind = (used.end + count - 1 - index) % count;
        let last = used.end.checked_sub(1 + behind).filter(|last| used.contains(last));
        last.map_or(0, |last| last / count + 1)
    });
    rounds.max().unwrap_or(0)
}

impl Store {
    /// Makes all that was written durable. From now on the files stay when the last who holds the
    /// store goes, until [`Self::let_go`].
    ///
    /// # Errors
    /// If the device fails.
    pub fn keep(&self) -> Result<KeptStore, ExternalError> {
        for lane in &self.shared.lanes {
            lane.keep(true);
        }
        for lane in &self.shared.lanes {
            lane.io().sync(lane.id())?;
        }
        Ok(KeptStore {
            identity: self.shared.identity,
            block_bytes: self.shared.settings.block_bytes,
            files: self.shared.lanes.iter().map(|lane| lane.name().to_owned()).collect(),
            last_stamp: self.shared.room.lock().last_stamp(),
        })
    }

    /// From now on room that is given back stays as it is, for who reads away what was kept: who
    /// goes on finds it whole. What was held before is free: call it when what [`Self::keep`] told
    /// is written down, before anything else is done.
    pub fn hold(&self) {
        self.shared.room.lock().hold();
    }

    /// Has the files go with the store again, and holds no room.
    pub fn let_go(&self) {
        self.shared.lanes.iter().for_each(|lane| lane.keep(false));
        self.shared.room.lock().let_go();
    }

    /// A store that was kept, with `vectors`, which are all that was kept in it; others are gone.
    /// The files stay as after [`Self::keep`]. It is stopped as [`Self::stoppable`] says. Who reads
    /// away what was kept calls [`Self::hold`] first, or there is nothing left to be resumed again.
    ///
    /// # Errors
    /// If a file is missing or shorter than its blocks need, blocks have another size, or the
    /// vectors overlap.
    pub fn resume(
        volumes: &[Io],
        settings: Settings,
        grant: Grant,
        stop: Arc<AtomicBool>,
        (kept, vectors): (&KeptStore, &[&KeptVector]),
    ) -> Result<Self, ExternalError> {
        if kept.block_bytes != settings.block_bytes {
            return Err(misfit(&format!(
                "its blocks have {} bytes, and {} were asked for",
                kept.block_bytes, settings.block_bytes
            )));
        }
        if volumes.is_empty() || kept.files.len() != volumes.len() {
            return Err(misfit("it lies on another number of volumes"));
        }
        Self::check_settings(volumes, settings)?;
        let mut extents: Vec<Extent> =
            vectors.iter().flat_map(|vector| &vector.extents).copied().collect();
        let stamp = kept.last_stamp.checked_add(STAMPS_LEFT_OUT).unwrap_or(1);
        let room = Room::with(volumes.len(), &mut extents, stamp)
            .ok_or_else(|| misfit("its vectors are not where vectors can be"))?;
        let lanes = volumes.iter().zip(&kept.files).map(|(io, name)| {
            let missing = || misfit(&format!("its file {name} is missing in {}", io.name()));
            TemporaryFile::found(io, name, FILE_KIND).ok_or_else(missing)
        });
        let lanes = lanes.collect::<Result<Vec<_>, _>>()?;
        for (index, lane) in lanes.iter().enumerate() {
            let volume = (index as u64, lanes.len() as u64);
            let rounds = rounds_in_use(vectors, settings.block_bytes, volume);
            let needed = rounds * u64::from(settings.block_bytes);
            let found = lane.io().byte_count(lane.id());
            if found < needed {
                let what = format!(
                    "the file {} in {} has {found} bytes, and blocks were kept up to byte {needed}",
                    lane.name(),
                    lane.io().name()
                );
                return Err(misfit(&what));
            }
        }
        let shared = Shared::new((settings, kept.identity), grant, lanes, Mutex::new(room), stop);
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Reads blocks at these places and checks them.
    pub(crate) fn check_blocks(
        &self,
        places: impl Iterator<Item = super::Place>,
    ) -> Result<(), ExternalError> {
        let mut buffers = Buffers::new(self, "a check", 1)?;
        for place in places {
            let buffer = self.read(place, buffers.take())?.wait()?;
            buffers.give(buffer);
        }
        Ok(())
    }
}
