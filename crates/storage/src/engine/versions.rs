//! Earlier versions of pages, for those who look at the database as it was.
//!
//! ```text
//!   page   ──v1──┬──v2──┬──v3 (in the pool)        a view at S sees the version that was replaced first
//!              R1│    R2│                          after S; if none was, the page itself
//!   views    S1 ▲   S2 ▲
//! ```
//!
//! The versions are the images that actions keep anyway until they end (`action`); here they stay as
//! long as somebody may look. Nothing of this is on the device.
//!
//! 1. A page whose LSN is below S is as the view at S sees it. Any other has a version here that is,
//!    or the view is too old.
//! 2. Versions take at most the bytes that were granted; those that were replaced first go first.
//! 3. Without views nothing is kept.

use crate::{Lsn, PageAddress};
use nandu_workers::sync::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The versions of all pages of an open database.
#[derive(Debug)]
pub(crate) struct Versions {
    state: Mutex<State>,
    /// The present S of the youngest view; 0 without views.
    youngest: AtomicU64,
    /// How many versions there are.
    kept_count: AtomicU64,
    /// How many views there are.
    view_count: AtomicU64,
    /// The record that replaced the last one of those that went for want of room.
    lost_at: AtomicU64,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct State {
    /// How many views there are at each S.
    views: BTreeMap<Lsn, u32>,
    /// The versions of each page, those that were replaced first in front.
    pages: BTreeMap<PageAddress, VecDeque<Version>>,
    /// All of them, in the order in which they were replaced.
    replaced: VecDeque<(Lsn, PageAddress)>,
    bytes: u64,
}

#[derive(Debug)]
struct Version {
    /// The record that replaced it.
    replaced_at: Lsn,
    /// The whole page with its trailer.
    image: Arc<[u8]>,
}

impl Versions {
    /// No versions, and at most `bytes_max` of them later.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            state: Mutex::new(State::default()),
            youngest: AtomicU64::new(0),
            kept_count: AtomicU64::new(0),
            view_count: AtomicU64::new(0),
            lost_at: AtomicU64::new(0),
            bytes_max,
        }
    }

    /// A view at `seen` begins. No action runs meanwhile, and none has an LSN from `seen` on.
    pub(crate) fn begin(&self, seen: Lsn) {
        let mut state = self.state.lock();
        *state.views.entry(seen).or_insert(0) += 1;
        self.view_count.fetch_add(1, Ordering::Relaxed);
        self.note_youngest(&state);
    }

    /// It ends.
    ///
    /// # Panics
    /// If there was none.
    pub(crate) fn end(&self, seen: Lsn) {
        let mut state = self.state.lock();
        let count = state.views.get_mut(&seen).expect("a view that ends has begun");
        *count -= 1;
        self.view_count.fetch_sub(1, Ordering::Relaxed);
        if *count > 0 {
            return;
        }
        state.views.remove(&seen);
        self.note_youngest(&state);
        let oldest = state.views.first_key_value().map_or(Lsn(u64::MAX), |(&seen, _)| seen);
        state.forget_while(|_, replaced_at| replaced_at < oldest);
        self.kept_count.store(state.replaced.len() as u64, Ordering::Release);
    }

    /// How many views there are just now.
    pub(crate) fn view_count(&self) -> u64 {
        self.view_count.load(Ordering::Relaxed)
    }

    /// Whether a page with this LSN, which is about to be replaced, is seen by anybody.
    pub(crate) fn is_seen(&self, page_lsn: Lsn) -> bool {
        page_lsn.0 < self.youngest.load(Ordering::Acquire)
    }

    /// Keeps what the record at `replaced_at` replaced.
    pub(crate) fn keep(&self, address: PageAddress, replaced_at: Lsn, image: &[u8]) {
        let mut state = self.state.lock();
        state.bytes += image.len() as u64;
        let version = Version { replaced_at, image: image.into() };
        state.pages.entry(address).or_default().push_back(version);
        state.replaced.push_back((replaced_at, address));
        let bytes_max = self.bytes_max;
        state.forget_while(|state, replaced_at| {
            let is_lost = state.bytes > bytes_max;
            if is_lost {
                self.lost_at.store(replaced_at.0, Ordering::Release);
            }
            is_lost
        });
        self.kept_count.store(state.replaced.len() as u64, Ordering::Release);
    }

    /// The page as the view at `seen` sees it, where it was replaced since; `None` if that is not kept
    /// any more.
    pub(crate) fn find(&self, address: PageAddress, seen: Lsn) -> Option<Arc<[u8]>> {
        let state = self.state.lock();
        let versions = state.pages.get(&address)?;
        let at = versions.partition_point(|version| version.replaced_at < seen);
        let version = versions.get(at)?;
        let is_seen = crate::page::page_lsn(&version.image) < seen;
        is_seen.then(|| Arc::clone(&version.image))
    }

    /// Whether the page was replaced since `seen`, and is kept as it was then.
    pub(crate) fn has(&self, address: PageAddress, seen: Lsn) -> bool {
        self.kept_count.load(Ordering::Acquire) > 0 && self.find(address, seen).is_some()
    }

    /// Whether a page that was replaced since `seen` is not kept any more, so that one that is not here may
    /// have been replaced all the same.
    pub(crate) fn has_lost(&self, seen: Lsn) -> bool {
        self.lost_at.load(Ordering::Acquire) >= seen.0
    }

    /// The moment of the oldest view; the end of time without views.
    pub(crate) fn oldest(&self) -> Lsn {
        let state = self.state.lock();
        state.views.first_key_value().map_or(Lsn(u64::MAX), |(&seen, _)| seen)
    }

    /// Bytes of all versions.
    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    fn note_youngest(&self, state: &State) {
        let youngest = state.views.last_key_value().map_or(0, |(seen, _)| seen.0);
        self.youngest.store(youngest, Ordering::Release);
    }

    /// Asserts the numbered invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub(crate) fn audit(&self) {
        let state = self.state.lock();
        let versions = state.pages.values().flatten();
        let bytes: usize = versions.clone().map(|version| version.image.len()).sum();
        assert_eq!(bytes as u64, state.bytes, "bytes are counted");
        assert!(state.bytes <= self.bytes_max, "invariant 2");
        assert_eq!(versions.count(), state.replaced.len(), "each version is listed");
        assert!(!state.views.is_empty() || state.replaced.is_empty(), "invariant 3");
        assert!(state.replaced.iter().is_sorted_by_key(|&(lsn, _)| lsn), "in order");
    }
}

impl State {
    /// Forgets versions from the front of the list, while `goes` says so.
    fn forget_while(&mut self, goes: impl Fn(&Self, Lsn) -> bool) {
        while let Some(&(replaced_at, address)) = self.replaced.front()
            && goes(self, replaced_at)
        {
            self.replaced.pop_front();
            let versions = self.pages.get_mut(&address).expect("what is listed is there");
            let version = versions.pop_front().expect("what is listed is there");
            self.bytes -= version.image.len() as u64;
            if versions.is_empty() {
                self.pages.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;
    use crate::page::set_page_lsn;

    const PAGE: PageAddress = PageAddress::new(FileId(1), 1);

    fn image(lsn: u64) -> Vec<u8> {
        let mut page = vec![0; 512];
        set_page_lsn(&mut page, Lsn(lsn));
        page
    }

    fn lsn_of(found: Option<Arc<[u8]>>) -> Option<u64> {
        found.map(|image| crate::page::page_lsn(&image).0)
    }

    #[test]
    fn each_view_sees_the_version_that_was_replaced_first_after_it() {
        let versions = Versions::new(1 << 20);
        assert!(!versions.is_seen(Lsn(0)), "without views nothing is seen");
        versions.begin(Lsn(10));
        assert!(versions.is_seen(Lsn(9)) && !versions.is_seen(Lsn(10)));
        versions.keep(PAGE, Lsn(10), &image(5));
        versions.begin(Lsn(20));
        versions.keep(PAGE, Lsn(30), &image(10));
        assert_eq!(lsn_of(versions.find(PAGE, Lsn(10))), Some(5));
        assert_eq!(lsn_of(versions.find(PAGE, Lsn(20))), Some(10));
        versions.audit();
        versions.end(Lsn(10));
        assert_eq!(lsn_of(versions.find(PAGE, Lsn(20))), Some(10), "it is still seen");
        assert_eq!(versions.bytes(), 512);
        versions.end(Lsn(20));
        assert_eq!(versions.bytes(), 0, "invariant 3");
        versions.audit();
    }

    #[test]
    fn past_the_bound_the_oldest_versions_go() {
        let versions = Versions::new(1024);
        versions.begin(Lsn(10));
        for (lsn, before) in [(10, 5), (20, 10), (30, 20)] {
            versions.keep(PAGE, Lsn(lsn), &image(before));
        }
        versions.audit();
        assert_eq!(lsn_of(versions.find(PAGE, Lsn(10))), None, "and no later one in its place");
        assert!(versions.has_lost(Lsn(10)) && !versions.has_lost(Lsn(11)));
        versions.end(Lsn(10));
    }
}
