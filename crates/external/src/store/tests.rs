//! Flights by themselves.

use super::*;
use crate::testing::store;

#[test]
fn who_gives_up_waits_for_what_is_in_flight() {
    let store = store(512, 2, 4);
    let mut blocks = Blocks::new(&store, 4);
    let mut buffers = Buffers::new(&store, "test", 4).unwrap();
    for _ in 0..4 {
        let place = blocks.push_back().unwrap();
        drop(store.write(place, buffers.take()).unwrap());
    }
    let flight = store.read(blocks.place(3), buffers.take()).unwrap();
    assert!(flight.is_at(blocks.place(3)) && !flight.is_at(blocks.place(2)));
    assert_eq!(store.counts().read_blocks, 1);
    assert_eq!(flight.wait().unwrap().len(), 512);
    assert_eq!(store.counts().write_bytes, 4 * 512);
    assert!(store.counts().wait_ns > 0, "devices in memory take their time");
}
