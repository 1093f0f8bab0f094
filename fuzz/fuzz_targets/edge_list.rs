//! Any bytes as a list of edges, of the kind that the first one says or of the one that is found.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_external::graph::edge_list::{EdgeList, EdgeListKind, EdgeListOptions};
use nandu_external::{Grant, RecordStream};

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let kind = EdgeListKind::ALL.get(usize::from(first) % 5).copied();
    let options = EdgeListOptions { kind, ..EdgeListOptions::default() };
    let input = std::io::Cursor::new(rest.to_vec());
    let Ok(mut list) = EdgeList::open(input, "bytes", &options, &Grant::new(1 << 20)) else { return };
    while let Ok(Some((left, right))) = list.next_record() {
        assert_ne!(left, right);
    }
    let _ = list.node_count();
});
