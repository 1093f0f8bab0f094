//! The engine in turns: held for some steps of a long work, left to those who wait, held again. So the making
//! of an index or the end of a load does not keep others out until it is over.

use super::Shared;
use super::core::Core;
use crate::StorageError;
use nandu_workers::sync::RwLockWriteGuard;

/// Steps of a turn: entries of a tree that is filled, most of which touch a page in memory.
const STEP_COUNT: u32 = 64;

/// Turns of one work. Between two steps others may have changed what is theirs.
pub(super) struct Turns<'s> {
    shared: &'s Shared,
    core: Option<RwLockWriteGuard<'s, Core>>,
    steps_left: u32,
}

impl<'s> Turns<'s> {
    pub(super) const fn new(shared: &'s Shared) -> Self {
        Self { shared, core: None, steps_left: STEP_COUNT }
    }

    /// The engine, for a step. Where a turn is over, others go first.
    pub(super) fn step<T>(
        &mut self,
        step: impl FnOnce(&mut Core) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        if self.steps_left == 0 {
            self.leave();
            self.shared.core.let_others_in();
        }
        self.steps_left -= 1;
        step(self.core.get_or_insert_with(|| self.shared.core.write()))
    }

    /// Leaves the engine until the next step: who knows when that comes.
    pub(super) fn pause(&mut self) {
        self.core = None;
    }

    /// As [`Self::pause`], and begins a turn: what comes meanwhile takes as long as others need to come in.
    pub(super) fn leave(&mut self) {
        self.pause();
        self.steps_left = STEP_COUNT;
    }
}
