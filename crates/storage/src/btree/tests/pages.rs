//! Redo equals do.

use super::*;

type Logged = (PageAddress, Option<(u8, u32, Vec<u8>, Vec<u8>)>);

/// Pages that note every change, as the log does.
struct Recorder {
    pages: MemoryPages,
    log: Vec<Logged>,
}

impl ReadPages for Recorder {
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
}

impl ChangePages for Recorder {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        let PageOperation { code, operand, first, second } = operation;
        self.log.push((address, Some((code, operand, first.to_vec(), second.to_vec()))));
        self.pages.change(address, operation)
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        self.log.push((address, None));
        self.pages.create(address)
    }
}

#[test]
fn replaying_the_changes_gives_the_same_bytes() {
    for page_bytes in [512, 1024, 4096] {
        let pages = MemoryPages::new(page_bytes, apply);
        let mut recorder = Recorder { pages, log: Vec::new() };
        let tree = Tree::create(&mut recorder, FILE).unwrap();
        let mut rng = Rng::new(u64::from(page_bytes));
        for step in 0..4000_u64 {
            let growing = step % 2000 < 1200;
            let key = number(rng.below(1500));
            let value = vec![9; usize::try_from(rng.below(100)).unwrap()];
            let undo = &mut Vec::new();
            match rng.below(10) {
                1 => {
                    let run: Vec<_> = (0..rng.below(9))
                        .map(|at| (number(2000 + 9 * step + at), [2; 9]))
                        .collect();
                    tree.insert_run(&mut recorder, &run, undo).map(drop).unwrap();
                }
                0 => tree.upsert(&mut recorder, &key, &[1; 3000], undo).map(drop).unwrap(),
                2..7 if growing => {
                    tree.upsert(&mut recorder, &key, &value, undo).map(drop).unwrap()
                }
                _ => tree.delete(&mut recorder, &key, undo).map(drop).unwrap(),
            }
        }
        assert_eq!(check(&recorder, FILE).findings, Vec::<String>::new());
        let mut replayed = MemoryPages::new(page_bytes, apply);
        for (address, change) in &recorder.log {
            match change {
                None => replayed.create(*address).unwrap(),
                Some((code, operand, first, second)) => {
                    let (code, operand) = (*code, *operand);
                    let operation = PageOperation { code, operand, first, second };
                    replayed.change(*address, operation).unwrap();
                }
            }
        }
        assert!(recorder.pages.pages().eq(replayed.pages()));
    }
}

#[test]
fn an_insert_without_a_split_is_one_small_change() {
    let (mut pages, tree) = empty(4096);
    tree.insert(&mut pages, b"one", b"1", &mut Vec::new()).unwrap();
    let (reads, changes) = pages.counts();
    tree.insert(&mut pages, b"two", b"2", &mut Vec::new()).unwrap();
    assert_eq!(pages.counts(), (reads + 1, changes + 1));
}
