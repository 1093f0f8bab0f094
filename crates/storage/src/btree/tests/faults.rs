//! Failing pages and hostile bytes: errors, and neither panics nor endless walks.

use super::*;
use std::cell::Cell;

/// Pages whose n-th read or change fails.
struct Failing {
    pages: MemoryPages,
    left: Cell<u64>,
}

impl Failing {
    fn step(&self) -> Result<(), StorageError> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => return Err(StorageError::PoolExhausted { frame_count: 1 }),
        }
        Ok(())
    }
}

impl ReadPages for Failing {
    fn usable_bytes(&self) -> usize {
        self.pages.usable_bytes()
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.step()?;
        self.pages.read(address, look)
    }
}

impl ChangePages for Failing {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        self.step()?;
        self.pages.change(address, operation)
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        self.step()?;
        self.pages.create(address)
    }
}

type Act = fn(&mut Failing, &Tree) -> Result<(), StorageError>;

fn filled() -> (MemoryPages, Tree) {
    let (mut pages, tree) = empty(512);
    for index in 0..60 {
        let value = vec![3; if index % 7 == 0 { 900 } else { 60 }];
        tree.insert(&mut pages, &number(index * 10), &value, &mut Vec::new()).unwrap();
    }
    (pages, tree)
}

#[test]
fn every_failing_request_gives_its_error() {
    let acts: [(&str, Act); 6] = [
        ("insert", |pages, tree| {
            for index in 0..8 {
                tree.insert(pages, &number(305 + index * 256), &[1; 90], &mut Vec::new())?;
            }
            Ok(())
        }),
        ("update", |pages, tree| {
            tree.update(pages, &number(70), &[5; 1200], &mut Vec::new()).map(drop)
        }),
        ("delete", |pages, tree| {
            for index in 5..40 {
                tree.delete(pages, &number(index * 10), &mut Vec::new())?;
            }
            Ok(())
        }),
        ("get", |pages, tree| tree.get(pages, &number(70), |_| ()).map(drop)),
        ("batch", |pages, tree| {
            let keys: Vec<_> = (0..20).map(|index| number(index * 10)).collect();
            tree.get_batch(pages, &keys, |_, _| ())
        }),
        ("scan", |pages, tree| {
            let mut cursor = tree.scan(everything(), Direction::Backward);
            while cursor.next(pages)?.is_some() {}
            Ok(())
        }),
    ];
    for (name, act) in acts {
        let mut limit = 0;
        loop {
            let (pages, tree) = filled();
            let mut failing = Failing { pages, left: Cell::new(limit) };
            match act(&mut failing, &tree) {
                Ok(()) => break,
                Err(error) => assert_eq!(error, StorageError::PoolExhausted { frame_count: 1 }),
            }
            limit += 1;
            assert!(limit < 2000, "{name} comes to an end");
        }
        assert!(limit > 1, "{name} makes requests");
    }
}

/// All that can be asked of a tree; answers do not matter.
fn ask_everything(pages: &mut MemoryPages, tree: &Tree, rng: &mut Rng) {
    let key = number(rng.below(700));
    let _ = tree.get(pages, &key, |value| value.len());
    let _ = tree.get_batch(pages, &[key, number(3)], |_, _| ());
    for direction in [Direction::Forward, Direction::Backward] {
        let mut cursor = tree.scan(everything(), direction);
        for _ in 0..100_000 {
            if !matches!(cursor.next(pages), Ok(Some(_))) {
                break;
            }
        }
    }
    let _ = check(pages, FILE);
    let mut undo = Vec::new();
    let _ = tree.insert(pages, &key, &[1; 200], &mut undo);
    let _ = tree.update(pages, &number(70), &[1; 900], &mut undo);
    let _ = tree.delete(pages, &number(rng.below(60) * 10), &mut undo);
    let _ = apply_undo(pages, FILE, &undo);
}

#[test]
fn flipped_bytes_never_panic_or_loop() {
    for seed in 0..1500 {
        let mut rng = Rng::new(seed);
        let (mut pages, tree) = filled();
        let page_count = u64::from(tree.page_count(&pages).unwrap());
        for _ in 0..=rng.below(4) {
            let page = u32::try_from(1 + rng.below(page_count)).unwrap();
            // The header, most of the time.
            let header = rng.below(4) > 0;
            let at = rng.below(if header { 48 } else { 496 });
            let bytes = [u8::try_from(rng.below(256)).unwrap()];
            let operand = u32::try_from(at).unwrap();
            let code = PageOperation::BYTES;
            let change = PageOperation { code, operand, first: &bytes, second: &[] };
            pages.change(PageAddress::new(FILE, page), change).unwrap();
        }
        ask_everything(&mut pages, &tree, &mut rng);
    }
}

#[test]
fn random_operations_on_random_pages_never_panic() {
    let mut rng = Rng::new(11);
    let (pages, _) = filled();
    let sound: Vec<Vec<u8>> = pages.pages().map(|(_, bytes)| bytes.to_vec()).collect();
    for round in 0..60_000_u64 {
        let mut page = sound[usize::try_from(round).unwrap() % sound.len()].clone();
        match round % 3 {
            0 => rng.fill(&mut page),
            1 => {
                let from = usize::try_from(rng.below(40)).unwrap();
                rng.fill(&mut page[from..from + 3]);
            }
            _ => {}
        }
        if round % 6 == 0 {
            page[0] = 0xB2;
        }
        let mut operand = vec![0; usize::try_from(rng.below(60)).unwrap()];
        rng.fill(&mut operand);
        let other = &sound[usize::try_from(rng.below(sound.len() as u64)).unwrap()];
        let length = usize::try_from(rng.below(497)).unwrap();
        let bits = rng.below(33);
        let operation = PageOperation {
            code: 0x20 + u8::try_from(rng.below(11)).unwrap(),
            operand: u32::try_from(rng.below(1 << bits)).unwrap(),
            first: &operand
                [..operand.len().min([4, 8, 60][usize::try_from(rng.below(3)).unwrap()])],
            second: if round % 2 == 0 { &operand } else { &other[..length] },
        };
        let before = page.clone();
        if apply(&mut page, &operation).is_ok() {
            continue;
        }
        assert_eq!(page.len(), before.len());
    }
}

#[test]
fn broken_undo_is_refused() {
    let (mut pages, tree) = filled();
    for bytes in [&[][..], &[9, 0, 0, 0, 0], &[1, 0, 0, 0, 9, 1], &[1, 0, 0, 0, 1, 1, 1]] {
        assert!(matches!(Undo::decode(bytes), Err(StorageError::Corrupt { .. })), "{bytes:?}");
    }
    let mut undo = Vec::new();
    Undo::Delete { key: b"absent" }.encode(&mut undo);
    let refused = apply_undo(&mut pages, FILE, &undo);
    assert!(matches!(refused, Err(StorageError::NotFound { .. })));
    assert_eq!(tree.get(&pages, &number(70), |value| value.len()).unwrap(), Some(900));
}

#[test]
fn a_file_without_a_tree_is_told_from_one() {
    let pages = MemoryPages::new(512, apply);
    let refused = Tree::open(&pages, FILE);
    assert!(matches!(refused, Err(StorageError::NotADatabase { .. })), "{refused:?}");
    assert_eq!(check(&pages, FILE).findings.len(), 1);
}

/// Pages whose bytes begin so, in the order of their numbers.
fn pages_of(pages: &MemoryPages, begin: &[u8]) -> Vec<u32> {
    let found = pages.pages().filter(|(_, bytes)| bytes.starts_with(begin));
    found.map(|(address, _)| address.page).collect()
}

#[test]
fn the_check_finds_what_is_broken() {
    let (sound, _) = filled();
    let (leaves, overflow) = (pages_of(&sound, &[0xB2, 0]), pages_of(&sound, &[0xB3]));
    assert!(leaves.len() > 4 && overflow.len() > 4, "there is something to break");
    let (root, leaf) = (2, leaves[2]);
    let damage: [(&str, u32, u32, &[u8]); 9] = [
        ("it is used twice", root, 16, &leaf.to_be_bytes()),
        ("not at the level", root, 1, &[5]),
        ("its successor", leaf, 12, &0_u32.to_be_bytes()),
        ("no node", leaf, 0, &[0]),
        ("ascending order", leaf, 24, &[0xFF; 8]),
        ("garbage", leaf, 6, &[0, 1]),
        ("no overflow page", overflow[0], 0, &[0]),
        ("chain", overflow[0], 12, &0_u32.to_be_bytes()),
        ("nothing uses it", 1, 12, &5000_u32.to_be_bytes()),
    ];
    for (what, page, operand, bytes) in damage {
        let (mut pages, _) = filled();
        let code = PageOperation::BYTES;
        let change = PageOperation { code, operand, first: bytes, second: &[] };
        pages.change(PageAddress::new(FILE, page), change).unwrap();
        let report = check(&pages, FILE);
        let told = report.findings.iter().any(|finding| finding.contains(what));
        assert!(told, "{what}: {:?}", report.findings);
    }
}
