//! Which blocks suit a search tree on which drive, and what not knowing them costs, as S002 chapter 5 asks:
//! a small part of what `nandu run s002/search-trees` tells.
//!
//! 1. On flash and storage-class memory small blocks are best, and large ones cost more. A disk hardly cares;
//!    it is not here, since so little lies in its buffer.
//! 2. A tree that knows no block stays within a factor of the B-tree whose nodes are the blocks, whatever
//!    these are, and far below a search by halves.

use nandu_base::{ByteCount, Rng};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_external::basic::{EvenNumbers, measure, search_tree};
use nandu_external::search::SearchKind;
use nandu_external::{ExternalError, Grant, Settings, Store};
use nandu_storage::volume::{DeviceVolume, Io};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const CAPACITY_BYTES: u64 = 64 << 20;
const NUMBER_COUNT: u64 = 512 << 10;
/// A 64th of the numbers.
const MEMORY_BYTES: u32 = 64 << 10;
const SEARCH_COUNT: u64 = 200;
const BLOCK_BYTES: [u32; 5] = [2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];

/// Nanoseconds of a search, of each size of blocks.
fn times(drive: &str, kind: SearchKind) -> Result<Vec<f64>, ExternalError> {
    let profile = Profile::load(drive).expect("it is built in");
    let capacity = Some(ByteCount(CAPACITY_BYTES));
    let device = profile.open(SimOptions { capacity, seed: 1, keep_data: true });
    let volume = DeviceVolume::format(device.expect("it can be as small"));
    let io = Io::new(Box::new(volume.expect("it is empty")), Arc::new(AtomicU64::new(0)));
    let time = |&block_bytes: &u32| {
        let settings = Settings { block_bytes, in_flight: 1 };
        let store = Store::new(std::slice::from_ref(&io), settings, Grant::new(1 << 20))?;
        let tree = kind.build(&store, EvenNumbers::new(NUMBER_COUNT))?;
        let mut searcher = tree.searcher(MEMORY_BYTES / block_bytes)?;
        let mut rng = Rng::new(1);
        search_tree(&mut searcher, NUMBER_COUNT, SEARCH_COUNT, &mut rng)?;
        let found =
            measure(&store, || search_tree(&mut searcher, NUMBER_COUNT, SEARCH_COUNT, &mut rng))?;
        Ok(found.elapsed_ns.0 as f64 / SEARCH_COUNT as f64)
    };
    BLOCK_BYTES.iter().map(time).collect()
}

#[test]
fn small_blocks_suit_flash_and_a_tree_that_knows_none_is_not_far_off() {
    for drive in ["hama", "supertalent-ssd-16g", "optane-like"] {
        let of = |kind| times(drive, kind).unwrap();
        let b_tree = of(SearchKind::BTree { node_records: None });
        let (oblivious, halves) = (of(SearchKind::VanEmdeBoas), of(SearchKind::Halves));
        let what = format!("{drive}: {b_tree:?} {oblivious:?} {halves:?}");
        let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        let small = least(&b_tree[..3]);
        assert_eq!(least(&b_tree), small, "{what}");
        let loss = b_tree[4] / small;
        assert!(loss > 1.5, "{what}");
        for index in 0..BLOCK_BYTES.len() {
            assert!(oblivious[index] < 3.0 * b_tree[index], "{what}");
            assert!(oblivious[index] < 0.6 * halves[index], "{what}");
        }
    }
}
