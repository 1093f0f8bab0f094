//! LMDB 0.9 through its C interface (`lmdb.h`): a copy-on-write B+-tree in a file that is mapped
//! into memory. Its cache is the kernel's page cache.
//!
//! 1. One write transaction per call of `insert`; without `MDB_NOSYNC` its commit is durable. Where
//!    nothing is durable, calls are cut so that a transaction's pages, which the library keeps apart
//!    until it commits, fit the cache's budget.
//! 2. With `MDB_WRITEMAP` pages are changed in the mapped file, which then is as long as the map, with
//!    holes; else they are written by calls.
//! 3. A reader keeps one read transaction for its life. A client puts one aside after each call and
//!    takes it up anew for the next, as the library's documents advise.

#![allow(unsafe_code, reason = "a C interface")]

use super::{Client, Purpose, Reader, Settings, Store, Visitor};
use crate::Failure;
use crate::library::{c_functions, c_path, load, text_of};
use crate::workload::Record;
use nandu_base::to_index;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

/// LMDB's `MDB_val`: bytes and their length.
#[repr(C)]
struct Bytes {
    size: usize,
    data: *const c_void,
}

c_functions!(Functions {
    mdb_version(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;
    mdb_strerror(c_int) -> *const c_char;
    mdb_env_create(*mut *mut c_void) -> c_int;
    mdb_env_set_mapsize(*mut c_void, usize) -> c_int;
    mdb_env_open(*mut c_void, *const c_char, c_uint, libc::mode_t) -> c_int;
    mdb_env_sync(*mut c_void, c_int) -> c_int;
    mdb_env_close(*mut c_void);
    mdb_txn_begin(*mut c_void, *mut c_void, c_uint, *mut *mut c_void) -> c_int;
    mdb_txn_commit(*mut c_void) -> c_int;
    mdb_txn_abort(*mut c_void);
    mdb_txn_reset(*mut c_void);
    mdb_txn_renew(*mut c_void) -> c_int;
    mdb_dbi_open(*mut c_void, *const c_char, c_uint, *mut c_uint) -> c_int;
    mdb_put(*mut c_void, c_uint, *mut Bytes, *mut Bytes, c_uint) -> c_int;
    mdb_get(*mut c_void, c_uint, *mut Bytes, *mut Bytes) -> c_int;
    mdb_cursor_open(*mut c_void, c_uint, *mut *mut c_void) -> c_int;
    mdb_cursor_get(*mut c_void, *mut Bytes, *mut Bytes, c_int) -> c_int;
    mdb_cursor_close(*mut c_void);
});

const MDB_NOSYNC: c_uint = 0x1_0000;
const MDB_RDONLY: c_uint = 0x2_0000;
const MDB_WRITEMAP: c_uint = 0x8_0000;
const MDB_MAPASYNC: c_uint = 0x10_0000;
const MDB_NORDAHEAD: c_uint = 0x80_0000;
/// A thread may have a transaction that reads and one that writes.
const MDB_NOTLS: c_uint = 0x20_0000;
const MDB_NEXT: c_int = 8;
const MDB_SET_RANGE: c_int = 17;
const MDB_NOTFOUND: c_int = -30798;

/// Room in the address space, far above any database of ours.
const MAP_BYTES: usize = 64 << 30;

struct Lmdb {
    functions: Functions,
    environment: *mut c_void,
    database: c_uint,
    /// Most records of a transaction.
    transaction_records: usize,
}

// SAFETY: an environment may be used by several threads at once (lmdb.h, "thread-safe").
unsafe impl Sync for Lmdb {}

struct LmdbReader<'a> {
    store: &'a Lmdb,
    transaction: *mut c_void,
    cursor: *mut c_void,
}

struct LmdbClient<'a> {
    store: &'a Lmdb,
    /// That reads; put aside between calls.
    transaction: *mut c_void,
}

fn functions() -> Result<Functions, Failure> {
    Functions::of(load(&["liblmdb.so.0"], "liblmdb0")?.0)
}

/// As the library tells it.
pub(super) fn version() -> Result<String, Failure> {
    let functions = functions()?;
    let [mut major, mut minor, mut patch] = [0; 3];
    // SAFETY: three integers that outlive the call.
    unsafe { (functions.mdb_version)(&raw mut major, &raw mut minor, &raw mut patch) };
    Ok(format!("{major}.{minor}.{patch}"))
}

/// Opens or makes a database, written by calls or through its map; the page size is the machine's.
pub(super) fn open(
    settings: &Settings<'_>,
    is_written_in_map: bool,
) -> Result<Box<dyn Store>, Failure> {
    let functions = functions()?;
    let path = c_path(settings.directory)?;
    let mode = match (settings.purpose, is_written_in_map) {
        (Purpose::Load | Purpose::Serve, true) => MDB_NOSYNC | MDB_WRITEMAP | MDB_MAPASYNC,
        (Purpose::Load | Purpose::Serve, false) => MDB_NOSYNC,
        (Purpose::LoadDurably | Purpose::ServeDurably, true) => MDB_WRITEMAP,
        _ => 0,
    };
    let mode = if settings.purpose.has_clients() { mode | MDB_NOTLS } else { mode };
    let mut environment = ptr::null_mut();
    let mut database = 0;
    let mut transaction = ptr::null_mut();
    // SAFETY: the calls of lmdb.h in their documented order, with places that outlive them.
    unsafe {
        check(functions, (functions.mdb_env_create)(&raw mut environment))?;
        check(functions, (functions.mdb_env_set_mapsize)(environment, MAP_BYTES))?;
        let flags = mode | MDB_NORDAHEAD;
        check(functions, (functions.mdb_env_open)(environment, path.as_ptr(), flags, 0o644))?;
        let none = ptr::null_mut();
        check(functions, (functions.mdb_txn_begin)(environment, none, 0, &raw mut transaction))?;
        check(functions, (functions.mdb_dbi_open)(transaction, ptr::null(), 0, &raw mut database))?;
        check(functions, (functions.mdb_txn_commit)(transaction))?;
    }
    let transaction_records = to_index(settings.cache_bytes / u64::from(settings.page_bytes));
    Ok(Box::new(Lmdb { functions, environment, database, transaction_records }))
}

impl Lmdb {
    fn begin(&self, flags: c_uint) -> Result<*mut c_void, Failure> {
        let mut transaction = ptr::null_mut();
        // SAFETY: the environment is open.
        check(self.functions, unsafe {
            let none = ptr::null_mut();
            (self.functions.mdb_txn_begin)(self.environment, none, flags, &raw mut transaction)
        })?;
        Ok(transaction)
    }

    fn commit(&self, records: &[Record]) -> Result<(), Failure> {
        let transaction = self.begin(0)?;
        for record in records {
            let key = record.key.to_be_bytes();
            let (mut key, mut value) = (bytes(&key), bytes(&record.value));
            // SAFETY: the transaction is open and both byte strings outlive the call, which copies.
            check(self.functions, unsafe {
                let (key, value) = (&raw mut key, &raw mut value);
                (self.functions.mdb_put)(transaction, self.database, key, value, 0)
            })?;
        }
        // SAFETY: the transaction is open and not used afterwards.
        check(self.functions, unsafe { (self.functions.mdb_txn_commit)(transaction) })
    }
}

impl Lmdb {
    /// Looks a key up in a transaction that is open.
    fn get_in(
        &self,
        transaction: *mut c_void,
        key: u64,
        visit: &mut Visitor<'_>,
    ) -> Result<bool, Failure> {
        let key_bytes = key.to_be_bytes();
        let (mut wanted, mut value) = (bytes(&key_bytes), bytes(&[]));
        let Self { functions, database, .. } = *self;
        // SAFETY: the transaction is open; both places outlive the call.
        let code =
            unsafe { (functions.mdb_get)(transaction, database, &raw mut wanted, &raw mut value) };
        if code == MDB_NOTFOUND {
            return Ok(false);
        }
        check(functions, code)?;
        // SAFETY: what the library points at is mapped while the read transaction lives.
        visit(key, unsafe { slice(&value) })?;
        Ok(true)
    }
}

impl Store for Lmdb {
    fn insert(&mut self, records: &[Record]) -> Result<(), Failure> {
        records.chunks(self.transaction_records).try_for_each(|records| self.commit(records))
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Failure> {
        let transaction = self.begin(MDB_RDONLY)?;
        let mut cursor = ptr::null_mut();
        // SAFETY: the transaction is open.
        check(self.functions, unsafe {
            (self.functions.mdb_cursor_open)(transaction, self.database, &raw mut cursor)
        })?;
        Ok(Box::new(LmdbReader { store: self, transaction, cursor }))
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Failure> {
        let transaction = self.begin(MDB_RDONLY)?;
        // SAFETY: the transaction is open and reads only.
        unsafe { (self.functions.mdb_txn_reset)(transaction) };
        Ok(Box::new(LmdbClient { store: self, transaction }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        // SAFETY: the environment is open, no transaction is left, and nobody uses it afterwards.
        unsafe {
            check(self.functions, (self.functions.mdb_env_sync)(self.environment, 1))?;
            (self.functions.mdb_env_close)(self.environment);
        }
        Ok(())
    }
}

impl Reader for LmdbReader<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        self.store.get_in(self.transaction, key, visit)
    }

    fn scan(&mut self, start: u64, count: u64, visit: &mut Visitor<'_>) -> Result<(), Failure> {
        let functions = self.store.functions;
        let start = start.to_be_bytes();
        let (mut key, mut value) = (bytes(&start), bytes(&[]));
        let mut operation = MDB_SET_RANGE;
        for _ in 0..count {
            // SAFETY: the cursor is open; both places outlive the call.
            let code = unsafe {
                (functions.mdb_cursor_get)(self.cursor, &raw mut key, &raw mut value, operation)
            };
            if code == MDB_NOTFOUND {
                return Ok(());
            }
            check(functions, code)?;
            // SAFETY: as in `get`.
            let (key, value) = unsafe { (slice(&key), slice(&value)) };
            visit(super::key_of(key)?, value)?;
            operation = MDB_NEXT;
        }
        Ok(())
    }
}

impl Client for LmdbClient<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        let functions = self.store.functions;
        // SAFETY: the transaction was put aside.
        check(functions, unsafe { (functions.mdb_txn_renew)(self.transaction) })?;
        let found = self.store.get_in(self.transaction, key, visit);
        // SAFETY: it is open and reads only.
        unsafe { (functions.mdb_txn_reset)(self.transaction) };
        found
    }

    fn put(&mut self, record: &Record) -> Result<(), Failure> {
        self.store.commit(std::slice::from_ref(record))
    }
}

impl Drop for LmdbClient<'_> {
    fn drop(&mut self) {
        // SAFETY: the transaction is not used afterwards.
        unsafe { (self.store.functions.mdb_txn_abort)(self.transaction) };
    }
}

impl Drop for LmdbReader<'_> {
    fn drop(&mut self) {
        let functions = self.store.functions;
        // SAFETY: both are open and not used afterwards, the cursor ends before its transaction.
        unsafe {
            (functions.mdb_cursor_close)(self.cursor);
            (functions.mdb_txn_abort)(self.transaction);
        }
    }
}

fn bytes(bytes: &[u8]) -> Bytes {
    Bytes { size: bytes.len(), data: bytes.as_ptr().cast() }
}

/// # Safety
/// The library filled `bytes`, and its transaction lives.
unsafe fn slice(bytes: &Bytes) -> &[u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes.data.cast(), bytes.size) }
}

fn check(functions: Functions, code: c_int) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: any code is allowed, the answer is a constant text.
    let text = text_of(unsafe { (functions.mdb_strerror)(code) });
    Err(Failure::Engine(format!("LMDB: {text}")))
}
