//! A sort whose runs are kept, so that another process goes on with them.
//!
//! ```text
//!   push ──► runs ──kept──► … finish ──► all runs ──kept──► a merge in between ──kept──► … last merge
//! ```
//!
//! 1. Before the end is said, runs are what was put in first: who goes on puts in the rest.
//! 2. Runs that a merge in between has read away are found whole again where room is held
//!    ([`Store::hold`]). The last merge writes nothing.

use super::Sorter;
use crate::store::misfit;
use crate::{ExternalError, KeptVector, Order, Record, SortedStream, Store, Vector};

impl<R: Record, O: Order<R>> Sorter<R, O> {
    /// Where the runs lie that are written, for [`Self::resume`] in a store that is kept.
    #[must_use]
    pub fn kept_runs(&self) -> Vec<KeptVector> {
        self.runs.iter().map(Vector::kept).collect()
    }

    /// How many records they have: the first that were put in.
    #[must_use]
    pub fn written_count(&self) -> u64 {
        self.runs.iter().map(Vector::len).sum()
    }

    /// A sorter with `bytes` of the store's grant and with runs that were kept, in a store that was
    /// resumed with them: what is put in comes to what they have. The store holds their room from now
    /// on ([`Store::hold`]), so that they can be resumed again.
    ///
    /// # Errors
    /// As [`Self::with_bytes`], and as [`Vector::resume`].
    pub fn resume(
        store: &Store,
        order: O,
        bytes: u64,
        kept: &[KeptVector],
    ) -> Result<Self, ExternalError> {
        // Blocks are checked before all memory is the sort's.
        let runs = kept.iter().map(|run| Vector::resume(store, run));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        if runs.iter().any(Vector::is_empty) {
            return Err(misfit("a run has no records"));
        }
        let mut sorter = Self::with_bytes(store, order, bytes)?;
        store.hold();
        sorter.len = runs.iter().map(Vector::len).sum();
        sorter.runs = runs;
        Ok(sorter)
    }

    /// As [`Self::finish`], and calls `watch` when the last runs are written, and after each merge in
    /// between; not at all where all is sorted in memory.
    ///
    /// # Errors
    /// As [`Self::finish`], and as `watch`.
    pub fn finish_watched<E: From<ExternalError>>(
        mut self,
        mut watch: impl FnMut(&Self) -> Result<(), E>,
    ) -> Result<SortedStream<R, O>, E> {
        self.failure.check()?;
        if self.run_count() == 0 {
            return Ok(self.finish_in_memory()?);
        }
        let written = self.runs.len();
        self.end_runs()?;
        if self.runs.len() > written {
            watch(&self)?;
        }
        while let Some(count) = self.division.next_merge(self.runs.len() as u64) {
            self.merge_smallest(count)?;
            watch(&self)?;
        }
        Ok(self.merge_last()?)
    }

    /// How many records merges in between still write, as far as runs and memory say.
    #[must_use]
    pub fn merged_left_count(&self) -> u64 {
        let runs = self.runs.iter().map(Vector::len);
        self.division.plan(runs).map(|merge| merge.records).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::memory_io;
    use crate::{
        ExternalError, Grant, Io, KeptStore, KeptVector, Natural, RecordStream, Settings, Sorter,
        Store,
    };
    use nandu_base::Rng;

    const COUNT: u64 = 20_000;
    const SORT_BYTES: u64 = 6 << 10;

    fn store_on(io: &Io) -> Store {
        let settings = Settings { block_bytes: 512, in_flight: 1 };
        Store::new(std::slice::from_ref(io), settings, Grant::new(1 << 20)).unwrap()
    }

    fn numbers() -> Vec<u64> {
        let mut rng = Rng::new(1);
        (0..COUNT).map(|_| rng.below(1000)).collect()
    }

    /// A sort that goes on with what was kept, in a store of its own; what it noted last where it ends
    /// after so many notes.
    fn go_on(
        io: &Io,
        kept: Option<&(KeptStore, Vec<KeptVector>)>,
        notes_max: usize,
    ) -> Result<Vec<u64>, (KeptStore, Vec<KeptVector>)> {
        let settings = Settings { block_bytes: 512, in_flight: 1 };
        let grant = Grant::new(1 << 20);
        let store = match kept {
            None => store_on(io),
            Some((store, runs)) => {
                let runs: Vec<&KeptVector> = runs.iter().collect();
                let volumes = std::slice::from_ref(io);
                Store::resume(volumes, settings, grant, Default::default(), (store, &runs)).unwrap()
            }
        };
        let runs = kept.map_or(&[][..], |kept| &kept.1[..]);
        let mut sorter = Sorter::resume(&store, Natural, SORT_BYTES, runs).unwrap();
        let (mut note_count, mut last) = (0, None);
        let skipped = nandu_base::to_index(sorter.len());
        let mut run_count = sorter.kept_runs().len();
        for &number in &numbers()[skipped..] {
            sorter.push(number).unwrap();
            if sorter.kept_runs().len() > run_count {
                run_count = sorter.kept_runs().len();
                note_count += 1;
                let kept = (store.keep().unwrap(), sorter.kept_runs());
                store.hold();
                if note_count == notes_max {
                    // More is pushed, and written, before the end.
                    (0..5000).for_each(|_| sorter.push(7).unwrap());
                    return Err(kept);
                }
            }
        }
        let stop = ExternalError::Cancelled;
        let finished = sorter.finish_watched(|sorter| {
            if note_count >= notes_max {
                return Err(stop.clone());
            }
            note_count += 1;
            last = Some((store.keep()?, sorter.kept_runs()));
            store.hold();
            store.audit();
            Ok(())
        });
        let Ok(mut stream) = finished else { return Err(last.unwrap()) };
        let mut found = Vec::new();
        while let Some(number) = stream.next_record().unwrap() {
            found.push(number);
            if note_count == notes_max && found.len() == 15_000 {
                return Err(last.unwrap());
            }
        }
        store.let_go();
        Ok(found)
    }

    #[test]
    fn a_sort_that_ends_after_any_note_goes_on_with_what_was_noted() {
        let mut expected = numbers();
        expected.sort_unstable();
        for notes_max in 1..6 {
            let io = memory_io(16 << 20);
            let (mut kept, mut found) = (None, None);
            for _ in 0..60 {
                match go_on(&io, kept.as_ref(), notes_max) {
                    Ok(numbers) => {
                        found = Some(numbers);
                        break;
                    }
                    Err(noted) => kept = Some(noted),
                }
            }
            assert!(found.expect("each end has one more note") == expected, "{notes_max}");
            assert_eq!(io.files().len(), 0, "nothing stays");
        }
    }

    #[test]
    fn a_sort_that_ends_before_its_first_note_goes_on_with_the_one_before() {
        let io = memory_io(16 << 20);
        let mut expected = numbers();
        expected.sort_unstable();
        // All runs are kept, then the process ends.
        let mut kept = None;
        let store = store_on(&io);
        let mut sorter = Sorter::with_bytes(&store, Natural, SORT_BYTES).unwrap();
        numbers().into_iter().for_each(|number| sorter.push(number).unwrap());
        let ended = sorter.finish_watched(|sorter| {
            kept = Some((store.keep()?, sorter.kept_runs()));
            store.hold();
            Err(ExternalError::Cancelled)
        });
        assert_eq!(ended.map(drop), Err(ExternalError::Cancelled));
        drop(store);
        let (kept_store, runs) = kept.unwrap();
        let all: Vec<&KeptVector> = runs.iter().collect();
        // Whoever goes on merges, and ends before anything was noted.
        for is_last in [false, false, true] {
            let settings = Settings { block_bytes: 512, in_flight: 1 };
            let (volumes, grant) = (std::slice::from_ref(&io), Grant::new(1 << 20));
            let kept = (&kept_store, &all[..]);
            let store = Store::resume(volumes, settings, grant, Default::default(), kept).unwrap();
            let sorter: Sorter<u64, _> =
                Sorter::resume(&store, Natural, SORT_BYTES, &runs).unwrap();
            let mut merge_count = 0;
            let finished = sorter.finish_watched(|_| {
                merge_count += 1;
                if is_last || merge_count < 3 { Ok(()) } else { Err(ExternalError::Cancelled) }
            });
            if !is_last {
                assert_eq!(finished.map(drop), Err(ExternalError::Cancelled));
                continue;
            }
            let mut stream = finished.unwrap();
            let mut found = Vec::new();
            while let Some(number) = stream.next_record().unwrap() {
                found.push(number);
            }
            assert!(found == expected);
            store.let_go();
        }
    }
}
