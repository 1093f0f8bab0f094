//! RocksDB through its C interface (`rocksdb/c.h`): sorted runs in levels, no compression, a Bloom
//! filter of 10 bits a key, everything else as it comes.
//!
//! 1. Loading goes without the log and ends with a flush of the write buffer; durable batches are
//!    synced to the log.
//! 2. What compacts after a load is waited for outside the times; its bytes are told apart.
//! 3. Memory: to read, all of it is block cache; to write, half is, and a quarter each of two write
//!    buffers.

#![allow(unsafe_code, reason = "a C interface")]
#![allow(non_snake_case, reason = "functions are called as in their header")]

use super::{Client, Purpose, Reader, Settings, Store, Visitor};
use crate::Failure;
use crate::library::{c_functions, c_path, load, text_of};
use crate::workload::Record;
use nandu_base::to_index;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::ptr;

type Handle = *mut c_void;

c_functions!(Functions {
    rocksdb_options_create() -> Handle;
    rocksdb_options_set_create_if_missing(Handle, c_uchar);
    rocksdb_options_set_compression(Handle, c_int);
    rocksdb_options_set_write_buffer_size(Handle, usize);
    rocksdb_options_set_block_based_table_factory(Handle, Handle);
    rocksdb_block_based_options_create() -> Handle;
    rocksdb_block_based_options_set_block_cache(Handle, Handle);
    rocksdb_block_based_options_set_block_size(Handle, usize);
    rocksdb_block_based_options_set_filter_policy(Handle, Handle);
    rocksdb_filterpolicy_create_bloom_full(f64) -> Handle;
    rocksdb_cache_create_lru(usize) -> Handle;
    rocksdb_open(Handle, *const c_char, *mut *mut c_char) -> Handle;
    rocksdb_close(Handle);
    rocksdb_property_int(Handle, *const c_char, *mut u64) -> c_int;
    rocksdb_multi_get(
        Handle, Handle, usize, *const *const c_char, *const usize, *mut *mut c_char, *mut usize,
        *mut *mut c_char,
    );
    rocksdb_free(Handle);
    rocksdb_writeoptions_create() -> Handle;
    rocksdb_writeoptions_disable_WAL(Handle, c_int);
    rocksdb_writeoptions_set_sync(Handle, c_uchar);
    rocksdb_readoptions_create() -> Handle;
    rocksdb_flushoptions_create() -> Handle;
    rocksdb_writebatch_create() -> Handle;
    rocksdb_writebatch_clear(Handle);
    rocksdb_writebatch_put(Handle, *const c_char, usize, *const c_char, usize);
    rocksdb_write(Handle, Handle, Handle, *mut *mut c_char);
    rocksdb_put(
        Handle, Handle, *const c_char, usize, *const c_char, usize, *mut *mut c_char,
    );
    rocksdb_flush(Handle, Handle, *mut *mut c_char);
    rocksdb_get_pinned(Handle, Handle, *const c_char, usize, *mut *mut c_char) -> Handle;
    rocksdb_pinnableslice_value(Handle, *mut usize) -> *const c_char;
    rocksdb_pinnableslice_destroy(Handle);
    rocksdb_create_iterator(Handle, Handle) -> Handle;
    rocksdb_iter_seek(Handle, *const c_char, usize);
    rocksdb_iter_valid(Handle) -> c_uchar;
    rocksdb_iter_next(Handle);
    rocksdb_iter_key(Handle, *mut usize) -> *const c_char;
    rocksdb_iter_value(Handle, *mut usize) -> *const c_char;
    rocksdb_iter_get_error(Handle, *mut *mut c_char);
    rocksdb_iter_destroy(Handle);
});

/// Records in one batch where nothing asks for durability.
const LOAD_BATCH_RECORDS: usize = 1000;
/// What is above 0 while the library works by itself, or is about to.
const BUSY_PROPERTIES: [&CStr; 4] = [
    c"rocksdb.mem-table-flush-pending",
    c"rocksdb.num-running-flushes",
    c"rocksdb.compaction-pending",
    c"rocksdb.num-running-compactions",
];
/// Those of Debian 12 and 13, then what a development package links to.
const NAMES: [&str; 3] = ["librocksdb.so.7.8", "librocksdb.so.9.10", "librocksdb.so"];
const PACKAGE: &str = "librocksdb7.8";
const BLOOM_BITS: f64 = 10.0;

struct RocksDb {
    functions: Functions,
    database: Handle,
    write_options: Handle,
    read_options: Handle,
    batch: Handle,
    purpose: Purpose,
}

// SAFETY: a database may be read by several threads at once (rocksdb/db.h); the batch is only used
// through a unique reference.
unsafe impl Sync for RocksDb {}

struct RocksDbReader<'a>(&'a RocksDb);

fn functions() -> Result<Functions, Failure> {
    Functions::of(load(&NAMES, PACKAGE)?.0)
}

/// As the name of the library tells it; no function does.
pub(super) fn version() -> Result<String, Failure> {
    functions()?;
    let (_, name) = load(&NAMES, PACKAGE)?;
    Ok(name.trim_start_matches("librocksdb.so").trim_start_matches('.').into())
}

/// Opens or makes a database.
pub(super) fn open(settings: &Settings<'_>) -> Result<Box<dyn Store>, Failure> {
    let functions = functions()?;
    let path = c_path(settings.directory)?;
    let memory = to_index(settings.cache_bytes);
    let cache = if settings.purpose == Purpose::Read { memory } else { memory / 2 };
    // SAFETY: the calls of c.h in their documented order; option objects live until the process
    // ends.
    unsafe {
        let table = (functions.rocksdb_block_based_options_create)();
        let cache = (functions.rocksdb_cache_create_lru)(cache);
        (functions.rocksdb_block_based_options_set_block_cache)(table, cache);
        let block_bytes = settings.page_bytes as usize;
        (functions.rocksdb_block_based_options_set_block_size)(table, block_bytes);
        let filter = (functions.rocksdb_filterpolicy_create_bloom_full)(BLOOM_BITS);
        (functions.rocksdb_block_based_options_set_filter_policy)(table, filter);
        let options = (functions.rocksdb_options_create)();
        (functions.rocksdb_options_set_create_if_missing)(options, 1);
        (functions.rocksdb_options_set_compression)(options, 0);
        (functions.rocksdb_options_set_write_buffer_size)(options, memory / 4);
        (functions.rocksdb_options_set_block_based_table_factory)(options, table);
        let write_options = (functions.rocksdb_writeoptions_create)();
        match settings.purpose {
            purpose if purpose.is_durable() => {
                (functions.rocksdb_writeoptions_set_sync)(write_options, 1);
            }
            _ => (functions.rocksdb_writeoptions_disable_WAL)(write_options, 1),
        }
        let mut error = ptr::null_mut();
        let database = (functions.rocksdb_open)(options, path.as_ptr(), &raw mut error);
        check(functions, error)?;
        Ok(Box::new(RocksDb {
            functions,
            database,
            write_options,
            read_options: (functions.rocksdb_readoptions_create)(),
            batch: (functions.rocksdb_writebatch_create)(),
            purpose: settings.purpose,
        }))
    }
}

impl Store for RocksDb {
    fn insert(&mut self, records: &[Record]) -> Result<(), Failure> {
        let functions = self.functions;
        for chunk in records.chunks(LOAD_BATCH_RECORDS) {
            let mut error = ptr::null_mut();
            // SAFETY: keys and values outlive the calls, which copy.
            unsafe {
                (functions.rocksdb_writebatch_clear)(self.batch);
                for record in chunk {
                    let key = record.key.to_be_bytes();
                    let (key, value) = (key.as_ptr().cast(), record.value.as_ptr().cast());
                    let size = record.value.len();
                    (functions.rocksdb_writebatch_put)(self.batch, key, 8, value, size);
                }
                let (database, options) = (self.database, self.write_options);
                (functions.rocksdb_write)(database, options, self.batch, &raw mut error);
            }
            check(functions, error)?;
        }
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Failure> {
        Ok(Box::new(RocksDbReader(self)))
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(RocksDbReader(self)))
    }

    fn settle(&mut self) -> Result<(), Failure> {
        super::wait_while("RocksDB compacts", || {
            BUSY_PROPERTIES.iter().any(|name| {
                let mut value = 0;
                let property = self.functions.rocksdb_property_int;
                // SAFETY: the database is open; name and place outlive the call.
                let code = unsafe { property(self.database, name.as_ptr(), &raw mut value) };
                code != 0 || value > 0
            })
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let functions = self.functions;
        let mut error = ptr::null_mut();
        // SAFETY: the database is open, and not used after it is closed.
        unsafe {
            if self.purpose != Purpose::Read {
                let options = (functions.rocksdb_flushoptions_create)();
                (functions.rocksdb_flush)(self.database, options, &raw mut error);
            }
            (functions.rocksdb_close)(self.database);
        }
        check(functions, error)
    }
}

impl Reader for RocksDbReader<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        let RocksDb { functions, database, read_options, .. } = *self.0;
        let bytes = key.to_be_bytes();
        let mut error = ptr::null_mut();
        // SAFETY: the key outlives the call; the value is seen before it is given back.
        unsafe {
            let bytes = bytes.as_ptr().cast();
            let found =
                (functions.rocksdb_get_pinned)(database, read_options, bytes, 8, &raw mut error);
            check(functions, error)?;
            if found.is_null() {
                return Ok(false);
            }
            let mut size = 0;
            let data = (functions.rocksdb_pinnableslice_value)(found, &raw mut size);
            let outcome = visit(key, std::slice::from_raw_parts(data.cast(), size));
            (functions.rocksdb_pinnableslice_destroy)(found);
            outcome?;
        }
        Ok(true)
    }

    fn get_batch(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<Option<u64>, Failure> {
        let RocksDb { functions, database, read_options, .. } = *self.0;
        let count = keys.len();
        let bytes: Vec<[u8; 8]> = keys.iter().map(|key| key.to_be_bytes()).collect();
        let places: Vec<*const c_char> = bytes.iter().map(|it| it.as_ptr().cast()).collect();
        let key_sizes = vec![8_usize; count];
        let (mut values, mut sizes) = (vec![ptr::null_mut(); count], vec![0_usize; count]);
        let mut errors = vec![ptr::null_mut(); count];
        // SAFETY: all six lists have `count` entries and outlive the call.
        unsafe {
            let (places, key_sizes) = (places.as_ptr(), key_sizes.as_ptr());
            let (values, sizes) = (values.as_mut_ptr(), sizes.as_mut_ptr());
            let errors = errors.as_mut_ptr();
            let multi_get = functions.rocksdb_multi_get;
            multi_get(database, read_options, count, places, key_sizes, values, sizes, errors);
        }
        let mut found = 0;
        let mut outcome = Ok(());
        for (((&key, value), size), error) in keys.iter().zip(values).zip(sizes).zip(errors) {
            outcome = outcome.and(check(functions, error));
            if !value.is_null() {
                found += 1;
                // SAFETY: the library gave `size` bytes away, which are freed once and not used after.
                unsafe {
                    if outcome.is_ok() {
                        outcome = visit(key, std::slice::from_raw_parts(value.cast(), size));
                    }
                    (functions.rocksdb_free)(value.cast());
                }
            }
        }
        outcome.map(|()| Some(found))
    }

    fn scan(&mut self, start: u64, count: u64, visit: &mut Visitor<'_>) -> Result<(), Failure> {
        let RocksDb { functions, database, read_options, .. } = *self.0;
        let start = start.to_be_bytes();
        let mut error = ptr::null_mut();
        // SAFETY: the iterator lives from its creation to its end in this block; what it points at
        // is seen before it moves.
        unsafe {
            let iterator = (functions.rocksdb_create_iterator)(database, read_options);
            (functions.rocksdb_iter_seek)(iterator, start.as_ptr().cast(), 8);
            let mut outcome = Ok(());
            for _ in 0..count {
                if (functions.rocksdb_iter_valid)(iterator) == 0 || outcome.is_err() {
                    break;
                }
                let (mut key_size, mut size) = (0, 0);
                let key = (functions.rocksdb_iter_key)(iterator, &raw mut key_size);
                let data = (functions.rocksdb_iter_value)(iterator, &raw mut size);
                let key = std::slice::from_raw_parts(key.cast(), key_size);
                let value = std::slice::from_raw_parts(data.cast(), size);
                outcome = super::key_of(key).and_then(|key| visit(key, value));
                (functions.rocksdb_iter_next)(iterator);
            }
            (functions.rocksdb_iter_get_error)(iterator, &raw mut error);
            (functions.rocksdb_iter_destroy)(iterator);
            outcome?;
        }
        check(functions, error)
    }
}

impl Client for RocksDbReader<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        Reader::get(self, key, visit)
    }

    fn put(&mut self, record: &Record) -> Result<(), Failure> {
        let RocksDb { functions, database, write_options, .. } = *self.0;
        let key = record.key.to_be_bytes();
        let mut error = ptr::null_mut();
        // SAFETY: key and value outlive the call, which copies.
        unsafe {
            let (key, value) = (key.as_ptr().cast(), record.value.as_ptr().cast());
            let put = functions.rocksdb_put;
            put(database, write_options, key, 8, value, record.value.len(), &raw mut error);
        }
        check(functions, error)
    }
}

fn check(functions: Functions, error: *mut c_char) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    let text = text_of(error);
    // SAFETY: the library gave the text away, and it is not used afterwards.
    unsafe { (functions.rocksdb_free)(error.cast()) };
    Err(Failure::Engine(format!("RocksDB: {text}")))
}
