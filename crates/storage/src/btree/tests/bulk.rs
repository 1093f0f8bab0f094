//! A loaded tree is as good as one that was inserted into.

use super::*;
use nandu_base::Rng;
use proptest::prelude::*;

fn load(page_bytes: u32, model: &Model, fill_percent: usize) -> (MemoryPages, Tree, Vec<u8>) {
    let (mut pages, tree) = empty(page_bytes);
    let mut undo = Vec::new();
    let mut loader = tree.bulk_load(&pages, fill_percent).unwrap();
    for (key, value) in model {
        loader.push(&mut pages, key, value).unwrap();
    }
    loader.finish(&mut pages, &mut undo).unwrap();
    (pages, tree, undo)
}

fn records(count: u64, value_bytes: usize) -> Model {
    (0..count).map(|index| (number(index * 3).to_vec(), vec![1; value_bytes])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_loaded_tree_has_the_records(
        model in prop::collection::btree_map(
            prop::collection::vec(0_u8..4, 0..70),
            prop::collection::vec(any::<u8>(), 0..300),
            0..200,
        ),
        fill_percent in 50_usize..=100,
    ) {
        let (mut pages, tree, undo) = load(512, &model, fill_percent);
        assert_same(&pages, &tree, &model);
        let mut grown = model.clone();
        for index in 0..40 {
            tree.upsert(&mut pages, &number(index), &[5; 30], &mut Vec::new()).unwrap();
            grown.insert(number(index).to_vec(), vec![5; 30]);
        }
        assert_same(&pages, &tree, &grown);
        for key in grown.keys() {
            prop_assert!(tree.delete(&mut pages, key, &mut Vec::new()).unwrap());
        }
        assert_same(&pages, &tree, &Model::new());
        apply_undo(&mut pages, FILE, &undo).unwrap();
        assert_same(&pages, &tree, &Model::new());
    }
}

#[test]
fn leaves_are_as_full_as_asked_for() {
    for page_bytes in page_sizes() {
        let model = records(u64::from(page_bytes) / 16, 40);
        for fill_percent in [60, 80, 100] {
            let (pages, tree, _) = load(page_bytes, &model, fill_percent);
            let report = assert_same(&pages, &tree, &model);
            let leaves = report.levels[0];
            // The last leaf is not full, and each of the others lacks less than a record.
            let usable = (leaves.page_count - 1) * leaves.capacity_bytes / leaves.page_count;
            let wanted = usable * fill_percent as u64 / 100 - leaves.page_count * 60;
            assert!(leaves.used_bytes >= wanted, "{page_bytes}, {fill_percent} %: {leaves:?}");
            assert!(leaves.fill_ppm() <= fill_percent as u64 * 10_000);
        }
    }
}

#[test]
fn until_it_is_finished_a_load_does_not_show_and_then_it_can_be_undone() {
    let (mut pages, tree) = empty(512);
    for index in 0..50 {
        tree.insert(&mut pages, &number(index), &[1; 600], &mut Vec::new()).unwrap();
    }
    for index in 0..50 {
        tree.delete(&mut pages, &number(index), &mut Vec::new()).unwrap();
    }
    let mut loader = tree.bulk_load(&pages, 90).unwrap();
    for index in 0..500 {
        loader.push(&mut pages, &number(index), &[2; 50]).unwrap();
    }
    loader.push(&mut pages, &number(501), &[2; 5000]).unwrap();
    let report = assert_same(&pages, &tree, &Model::new());
    assert!(report.free_page_count > 0, "there were free pages before");
    let mut undo = Vec::new();
    loader.finish(&mut pages, &mut undo).unwrap();
    let report = check(&pages, FILE);
    assert_eq!((report.findings, report.entry_count), (Vec::new(), 501));
    assert_eq!(get(&pages, &tree, &number(501)), Some(vec![2; 5000]));
    apply_undo(&mut pages, FILE, &undo).unwrap();
    assert_same(&pages, &tree, &Model::new());
}

#[test]
fn what_cannot_be_loaded_is_refused() {
    let (mut pages, tree) = empty(512);
    let refused = tree.bulk_load(&pages, 101).unwrap_err();
    assert!(matches!(refused, StorageError::InvalidSetting { .. }));
    let mut loader = tree.bulk_load(&pages, 100).unwrap();
    loader.push(&mut pages, b"b", b"").unwrap();
    let refused = loader.push(&mut pages, b"b", b"").unwrap_err();
    assert!(matches!(refused, StorageError::Exists { .. }));
    let refused = loader.push(&mut pages, b"a", b"").unwrap_err();
    assert!(matches!(refused, StorageError::InvalidSetting { .. }));
    tree.insert(&mut pages, b"c", b"", &mut Vec::new()).unwrap();
    let refused = loader.finish(&mut pages, &mut Vec::new()).unwrap_err();
    assert!(matches!(refused, StorageError::Exists { .. }));
    let refused = tree.bulk_load(&pages, 100).unwrap_err();
    assert!(matches!(refused, StorageError::Exists { .. }));
}

#[test]
fn a_scan_asks_for_leaves_ahead_of_itself() {
    let model = records(3000, 20);
    let (pages, tree, _) = load(512, &model, 100);
    let spy = Spy { pages, asked: std::cell::RefCell::default() };
    for (direction, ahead_count) in [(Direction::Forward, 16), (Direction::Backward, 16)] {
        spy.asked.borrow_mut().clear();
        let cursor = tree.scan(everything(), direction).with_ahead_count(ahead_count);
        assert_eq!(collect(cursor, &spy).len(), model.len());
        let asked = spy.asked.borrow();
        let leaves = check(&spy.pages, FILE).levels[0].page_count;
        assert!(asked.len() as u64 > leaves * 9 / 10, "{} of {leaves}", asked.len());
        let mut once = asked.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), asked.len(), "no leaf is asked for twice");
    }
    spy.asked.borrow_mut().clear();
    let (low, high) = (number(300), number(330));
    let range = (Bound::Included(&low[..]), Bound::Included(&high[..]));
    assert_eq!(collect(tree.scan(range, Direction::Forward), &spy).len(), 11);
    assert!(spy.asked.borrow().len() < 3, "only leaves of the range are asked for");
    let mut rng = Rng::new(1);
    let keys: Vec<_> = (0..64).map(|_| number(rng.below(3000) * 3)).collect();
    let mut count = 0;
    tree.get_batch(&spy, &keys, |_, value| count += usize::from(value.is_some())).unwrap();
    assert_eq!(count, 64);
}

/// Pages that note what is asked for ahead.
struct Spy {
    pages: MemoryPages,
    asked: std::cell::RefCell<Vec<PageAddress>>,
}

impl ReadPages for Spy {
    fn usable_bytes(&self) -> usize {
        self.pages.usable_bytes()
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.pages.read(address, look)
    }

    fn prefetch(&self, addresses: &[PageAddress]) {
        self.asked.borrow_mut().extend_from_slice(addresses);
    }
}
