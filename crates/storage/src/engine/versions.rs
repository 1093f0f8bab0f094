//! Earlier versions of pages, for those who look at the database as it was.
//!
//! ```text
//!   page   ──v1──┬──v2──┬──v3 (in the pool)        a view at S sees the version that was replaced first
//!              R1│    R2│                          after S; if none was, the page itself
//!   views    S1 ▲   S2 ▲
//! ```
//!
//! The versions are the images that actions keep anyway until they end (`action`); here they stay as
//! long as somebody may look, and their memory is used for later images then. Nothing of this is on the
//! device.
//!
//! 1. A page whose LSN is below S is as the view at S sees it. Any other has a version here that is,
//!    or the view is too old.
//! 2. Versions take at most the bytes that were granted, with the memory that waits for the next ones; those
//!    that were replaced first go first.
//! 3. Each version is seen by a view. So an old view keeps one version of a page, however often that
//!    changes, and without views nothing is kept.

use crate::{FileId, Lsn, PageAddress};
use nandu_workers::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of memory that waits for later images: a view that ends leaves the versions of all pages that were
/// changed while it was there.
const SPARE_BYTES_MAX: u64 = 4 << 20;

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
    /// The versions by page and by the record that replaced each: whole pages with their trailers.
    images: BTreeMap<(PageAddress, Lsn), Arc<Vec<u8>>>,
    /// All of them in the order in which they were replaced, each with the LSN of its page.
    replaced: BTreeMap<(Lsn, PageAddress), Lsn>,
    bytes: u64,
    /// Memory of versions that nobody sees any more.
    spare: Vec<Vec<u8>>,
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
        state.forget_unseen(seen, self.bytes_max);
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

    /// Keeps what the record at `replaced_at` replaced, if somebody sees it. Gives back memory for another image,
    /// which may be none.
    pub(crate) fn keep(&self, address: PageAddress, replaced_at: Lsn, image: Vec<u8>) -> Vec<u8> {
        let mut state = self.state.lock();
        let page_lsn = crate::page::page_lsn(&image);
        if state.views.last_key_value().is_none_or(|(&youngest, _)| youngest <= page_lsn) {
            return image;
        }
        let spare = state.spare.pop().unwrap_or_default();
        state.bytes += image.len() as u64;
        state.images.insert((address, replaced_at), Arc::new(image));
        state.replaced.insert((replaced_at, address), page_lsn);
        while state.bytes > self.bytes_max
            && let Some((&(replaced_at, address), _)) = state.replaced.first_key_value()
        {
            state.forget(replaced_at, address, self.bytes_max);
            self.lost_at.fetch_max(replaced_at.0, Ordering::AcqRel);
        }
        self.kept_count.store(state.replaced.len() as u64, Ordering::Release);
        spare
    }

    /// The page as the view at `seen` sees it, where it was replaced since; `None` if that is not kept
    /// any more.
    pub(crate) fn find(&self, address: PageAddress, seen: Lsn) -> Option<Arc<Vec<u8>>> {
        let state = self.state.lock();
        let (_, image) = state.images.range((address, seen)..=(address, Lsn(u64::MAX))).next()?;
        let is_seen = crate::page::page_lsn(image) < seen;
        is_seen.then(|| Arc::clone(image))
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
        let bytes: usize = state.images.values().map(|image| image.len()).sum();
        assert_eq!(bytes as u64, state.bytes, "bytes are counted");
        let spare_bytes: usize = state.spare.iter().map(Vec::len).sum();
        assert!(state.bytes + spare_bytes as u64 <= self.bytes_max, "invariant 2");
        assert_eq!(state.images.len(), state.replaced.len(), "each version is listed");
        for (&(replaced_at, address), &page_lsn) in &state.replaced {
            let image = &state.images[&(address, replaced_at)];
            assert_eq!(crate::page::page_lsn(image), page_lsn, "it is listed as what it is");
            let before = state.views.range(..=replaced_at).next_back();
            assert!(before.is_some_and(|(&seen, _)| page_lsn < seen), "invariant 3");
        }
    }
}

impl State {
    /// Forgets what only the view at `seen` saw, which has ended. Of the views that see a version the
    /// youngest is the last one before it was replaced, so these versions were replaced before the next view
    /// began; another sees one of them if the view before does.
    fn forget_unseen(&mut self, seen: Lsn, bytes_max: u64) {
        let before = self.views.range(..seen).next_back().map(|(&seen, _)| seen);
        let after = self.views.range(seen..).next().map_or(Lsn(u64::MAX), |(&seen, _)| seen);
        let least = PageAddress::new(FileId(0), 0);
        let replaced = self.replaced.range((seen, least)..(after, least));
        let is_unseen = |page_lsn: Lsn| before.is_none_or(|before| before <= page_lsn);
        let unseen = replaced.filter(|&(_, &page_lsn)| is_unseen(page_lsn));
        let unseen: Vec<(Lsn, PageAddress)> = unseen.map(|(&version, _)| version).collect();
        for (replaced_at, address) in unseen {
            self.forget(replaced_at, address, bytes_max);
        }
    }

    fn forget(&mut self, replaced_at: Lsn, address: PageAddress, bytes_max: u64) {
        self.replaced.remove(&(replaced_at, address));
        let image = self.images.remove(&(address, replaced_at)).expect("what is listed is there");
        let image_bytes = image.len() as u64;
        self.bytes -= image_bytes;
        // All images are one page long. Whoever looks at one just now has its memory for himself.
        let spare_bytes = (self.spare.len() as u64 + 1) * image_bytes;
        if spare_bytes <= SPARE_BYTES_MAX.min(bytes_max.saturating_sub(self.bytes))
            && let Ok(image) = Arc::try_unwrap(image)
        {
            self.spare.push(image);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::set_page_lsn;

    const PAGE: PageAddress = PageAddress::new(FileId(1), 1);

    fn image(lsn: u64) -> Vec<u8> {
        let mut page = vec![0; 512];
        set_page_lsn(&mut page, Lsn(lsn));
        page
    }

    fn lsn_of(found: Option<Arc<Vec<u8>>>) -> Option<u64> {
        found.map(|image| crate::page::page_lsn(&image).0)
    }

    #[test]
    fn each_view_sees_the_version_that_was_replaced_first_after_it() {
        let versions = Versions::new(1 << 20);
        assert!(!versions.is_seen(Lsn(0)), "without views nothing is seen");
        versions.begin(Lsn(10));
        assert!(versions.is_seen(Lsn(9)) && !versions.is_seen(Lsn(10)));
        versions.keep(PAGE, Lsn(10), image(5));
        versions.begin(Lsn(20));
        versions.keep(PAGE, Lsn(30), image(10));
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
    fn memory_of_a_version_that_nobody_sees_is_given_to_the_next_image() {
        let versions = Versions::new(1024);
        let own = versions.keep(PAGE, Lsn(10), image(5));
        assert_eq!(own, image(5), "without views it is given back as it came");
        versions.begin(Lsn(10));
        let old = image(5);
        let memory = old.as_ptr();
        assert_eq!(versions.keep(PAGE, Lsn(10), old).capacity(), 0, "there is none yet");
        let looked_at = versions.find(PAGE, Lsn(10));
        versions.end(Lsn(10));
        versions.begin(Lsn(20));
        assert_eq!(versions.keep(PAGE, Lsn(20), image(15)).capacity(), 0, "somebody looks at it");
        assert_eq!(lsn_of(looked_at.clone()), Some(5));
        drop(looked_at);
        let seen = versions.find(PAGE, Lsn(20)).map(|image| image.as_ptr());
        versions.end(Lsn(20));
        versions.audit();
        versions.begin(Lsn(30));
        let spare = versions.keep(PAGE, Lsn(30), image(25));
        assert_eq!(Some(spare.as_ptr()), seen);
        assert_ne!(spare.as_ptr(), memory);
        versions.end(Lsn(30));
    }

    #[test]
    fn past_the_bound_the_oldest_versions_go() {
        let versions = Versions::new(1024);
        for (lsn, before) in [(10, 5), (20, 10), (30, 20)] {
            versions.begin(Lsn(lsn));
            versions.keep(PAGE, Lsn(lsn), image(before));
        }
        versions.audit();
        assert_eq!(lsn_of(versions.find(PAGE, Lsn(10))), None, "and no later one in its place");
        assert!(versions.has_lost(Lsn(10)) && !versions.has_lost(Lsn(11)));
        assert_eq!(lsn_of(versions.find(PAGE, Lsn(20))), Some(10));
        [10, 20, 30].into_iter().for_each(|seen| versions.end(Lsn(seen)));
    }

    #[test]
    fn an_old_view_keeps_one_version_of_a_page_that_others_see_changing() {
        let versions = Versions::new(1 << 20);
        versions.begin(Lsn(10));
        versions.keep(PAGE, Lsn(10), image(5));
        let mut before = 10;
        for moment in (20..1000).step_by(10) {
            versions.begin(Lsn(moment));
            versions.keep(PAGE, Lsn(moment), image(before));
            before = moment;
            versions.audit();
            assert_eq!(versions.bytes(), 1024);
            versions.end(Lsn(moment));
            versions.audit();
            assert_eq!(versions.bytes(), 512, "nobody sees what was replaced at {moment}");
        }
        assert_eq!(lsn_of(versions.find(PAGE, Lsn(10))), Some(5));
        versions.end(Lsn(10));
        assert_eq!(versions.bytes(), 0);
    }

    #[test]
    fn whatever_views_begin_and_end_each_sees_its_version_and_no_other_is_kept() {
        let mut rng = nandu_base::Rng::new(7);
        let versions = Versions::new(1 << 20);
        let pages: Vec<PageAddress> =
            (1..5).map(|page| PageAddress::new(FileId(1), page)).collect();
        // The LSNs of each page, from its first on.
        let mut lsns = vec![vec![0]; pages.len()];
        let mut views: Vec<u64> = Vec::new();
        for now in (10..20_000).step_by(10) {
            match rng.below(4) {
                0 => {
                    versions.begin(Lsn(now));
                    views.push(now);
                }
                1 if !views.is_empty() => {
                    let index = nandu_base::to_index(rng.below(views.len() as u64));
                    versions.end(Lsn(views.swap_remove(index)));
                }
                _ => {
                    let index = nandu_base::to_index(rng.below(pages.len() as u64));
                    let before = *lsns[index].last().unwrap();
                    if versions.is_seen(Lsn(before)) {
                        versions.keep(pages[index], Lsn(now), image(before));
                    }
                    lsns[index].push(now);
                }
            }
            versions.audit();
            for &seen in &views {
                for (&page, lsns) in pages.iter().zip(&lsns) {
                    let then = lsns[..lsns.partition_point(|&lsn| lsn < seen)].last().copied();
                    let expected = then.filter(|then| then != lsns.last().unwrap());
                    assert_eq!(lsn_of(versions.find(page, Lsn(seen))), expected, "at {now}");
                }
            }
        }
    }
}
