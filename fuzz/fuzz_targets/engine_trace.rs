//! Any bytes as the trace of an engine's pages, and the same with checksums that match.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_base::fnv1a;
use nandu_trace::EngineTraceReader;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    read(&bytes);
    if seal(&mut bytes).is_some() {
        read(&bytes);
    }
});

fn read(bytes: &[u8]) {
    let input = std::io::Cursor::new(bytes.to_vec());
    let Ok(mut reader) = EngineTraceReader::new(input, "bytes") else { return };
    let page_bytes = reader.head().page_bytes;
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.ranges.iter().all(|range| range.end <= page_bytes));
    }
    reader.audit();
}

/// Makes the checksums of the head and of the first chunk match, if both are there.
fn seal(bytes: &mut [u8]) -> Option<()> {
    let mut at = 8;
    for sum_offset in [4, 8] {
        let length = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
        let start = at + sum_offset + 8;
        let sum = fnv1a(bytes.get(start..start.checked_add(length)?)?);
        bytes[at + sum_offset..start].copy_from_slice(&sum.to_le_bytes());
        at = start + length;
    }
    Some(())
}
