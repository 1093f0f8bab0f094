//! Any bytes as a file of Parquet. What the crate `parquet` panics about is an error to our reader, but libFuzzer
//! ends at the first panic whoever catches it: so its hook is replaced.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_load::{ParquetRows, RowSource};
use std::sync::Once;

/// Calls of a reader whose rows take no bytes.
const CALL_COUNT_MAX: usize = 1000;

static HOOK: Once = Once::new();

fuzz_target!(|bytes: &[u8]| {
    HOOK.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let path = std::env::temp_dir().join(format!("nandu-fuzz-{}.parquet", std::process::id()));
    std::fs::write(&path, bytes).expect("the directory takes a file");
    let read = std::panic::catch_unwind(|| {
        let Ok(mut rows) = ParquetRows::open(&path) else { return };
        for _ in 0..CALL_COUNT_MAX {
            let Ok(true) = rows.next_rows(&mut |_| Ok(())) else { break };
        }
    });
    if read.is_err() {
        std::process::abort();
    }
});
