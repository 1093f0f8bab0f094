//! What an insert, a lookup and a scanned record cost in a tree of 8-byte keys and 100-byte values on
//! pages of 4 KiB that are all in memory: S000 section 4.1 with 2,000,000 records, sorted (r = 0) and
//! random (r = 1), without pool and log. Processor time, the median of three trees; a word as argument
//! chooses one r, a number another count of records. Run by `cargo test` it only checks that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{Rng, to_index};
use nandu_storage::access::{ChangePages, ReadPages};
use nandu_storage::btree::{Direction, Tree, apply, check};
use nandu_storage::page::TRAILER_BYTES;
use nandu_storage::{FileId, PageAddress, PageOperation, StorageError};
use std::hint::black_box;
use std::ops::Bound;
use std::time::Instant;

const FILE: FileId = FileId(1);
const PAGE_BYTES: usize = 4096;
const BATCH: usize = 64;

/// The pages of one file, one behind the other.
struct DensePages {
    usable_bytes: usize,
    bytes: Vec<u8>,
}

impl DensePages {
    fn range(&self, address: PageAddress) -> std::ops::Range<usize> {
        let start = (address.page as usize - 1) * self.usable_bytes;
        start..start + self.usable_bytes
    }
}

impl ReadPages for DensePages {
    fn usable_bytes(&self) -> usize {
        self.usable_bytes
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        Ok(look(&self.bytes[self.range(address)]))
    }
}

impl ChangePages for DensePages {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        let range = self.range(address);
        apply(&mut self.bytes[range], &operation)
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        let range = self.range(address);
        if self.bytes.len() < range.end {
            self.bytes.resize(range.end, 0);
        }
        self.bytes[range].fill(0);
        Ok(())
    }
}

/// Nanoseconds of one of `count` steps: those that this thread ran, where the kernel tells them, so
/// that what else the machine does counts less.
fn time(count: usize, work: impl FnOnce()) -> f64 {
    let ran = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    let (wall, start) = (Instant::now(), ran());
    work();
    let wall_ns = wall.elapsed().as_nanos() as f64;
    let ran_ns = start.zip(ran()).map(|(start, end)| (end - start) as f64);
    ran_ns.unwrap_or(wall_ns) / count as f64
}

fn run(keys: &[[u8; 8]], wanted: &[[u8; 8]]) -> [f64; 5] {
    let mut pages = DensePages { usable_bytes: PAGE_BYTES - TRAILER_BYTES, bytes: Vec::new() };
    pages.bytes.reserve(keys.len() * 180);
    let tree = Tree::create(&mut pages, FILE).expect("pages of any number");
    let mut undo = Vec::new();
    let insert = time(keys.len(), || {
        for key in keys {
            undo.clear();
            tree.insert(&mut pages, key, &[7; 100], &mut undo).expect("a sound tree");
        }
    });
    let lookup = time(wanted.len(), || {
        for key in wanted {
            let found = tree.get(&pages, key, |value| value[0]).expect("a sound tree");
            assert!(black_box(found).is_some());
        }
    });
    let batch = time(wanted.len(), || {
        let mut found = 0;
        for keys in wanted.chunks(BATCH) {
            tree.get_batch(&pages, keys, |_, value| found += usize::from(value.is_some()))
                .expect("a sound tree");
        }
        assert_eq!(found, wanted.len());
    });
    let scan = time(keys.len(), || {
        let mut cursor = tree.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward);
        while let Some(entry) = cursor.next(&pages).expect("a sound tree") {
            black_box(entry);
        }
    });
    let report = check(&pages, FILE);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    [insert, lookup, batch, scan, report.levels[0].fill_ppm() as f64 / 1e6]
}

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let words: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let number = words.iter().find_map(|word| word.parse().ok());
    let (count, lookups, runs) =
        if measure { (2_000_000, 1_000_000, 3) } else { (5_000, 5_000, 1) };
    let count: u64 = number.unwrap_or(count);
    for r in [0, 1] {
        if words.iter().any(|word| word.starts_with("r=") && *word != format!("r={r}")) {
            continue;
        }
        let mut rng = Rng::new(1);
        let keys: Vec<[u8; 8]> = (0..count)
            .map(|index: u64| if r == 0 { index } else { rng.next_u64() }.to_be_bytes())
            .collect();
        let wanted: Vec<[u8; 8]> = (0..lookups).map(|_| keys[to_index(rng.below(count))]).collect();
        let mut results: Vec<[f64; 5]> = (0..runs).map(|_| run(&keys, &wanted)).collect();
        let mut median = |column: usize| {
            results.sort_by(|one, other| one[column].total_cmp(&other[column]));
            results[results.len() / 2][column]
        };
        println!(
            "r = {r}: insert {:.0} ns, lookup {:.0} ns, in batches of {BATCH} {:.0} ns, \
             scan {:.0} ns a record, leaves {:.3} full",
            median(0),
            median(1),
            median(2),
            median(3),
            median(4)
        );
    }
}
