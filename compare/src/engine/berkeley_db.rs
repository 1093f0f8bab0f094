//! Berkeley DB 5.3 through the functions of its shared library that stand behind the methods of
//! `db.h`: a B+-tree in place.
//!
//! 1. A private environment holds the cache. Loading and reading go without a log; durable batches
//!    are transactions, logged and synced when they commit. One thread writes, so nothing is locked.
//!    Clients without durability get a concurrent data store, one of them writing at a time; durable
//!    ones transactions that lock pages, and are done again where they were in each other's way.
//! 2. The constants and `DBT` are those of 5.3; any other version is refused.

#![allow(unsafe_code, reason = "a C interface")]

use super::{Client, Purpose, Reader, Settings, Store, Visitor};
use crate::Failure;
use crate::library::{c_functions, c_path, load, text_of};
use crate::workload::{Record, VALUE_BYTES};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

type Handle = *mut c_void;

/// `DBT`: bytes that go in or come out.
#[repr(C)]
struct Bytes {
    data: *mut c_void,
    size: c_uint,
    room: c_uint,
    partial_length: c_uint,
    partial_offset: c_uint,
    application: *mut c_void,
    flags: c_uint,
}

c_functions!(Functions {
    db_version(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;
    db_strerror(c_int) -> *const c_char;
    db_env_create(*mut Handle, c_uint) -> c_int;
    __memp_set_cachesize(Handle, c_uint, c_uint, c_int) -> c_int;
    __env_open_pp(Handle, *const c_char, c_uint, c_int) -> c_int;
    __env_close_pp(Handle, c_uint) -> c_int;
    db_create(*mut Handle, Handle, c_uint) -> c_int;
    __db_set_pagesize(Handle, c_uint) -> c_int;
    __db_open_pp(
        Handle, Handle, *const c_char, *const c_char, c_int, c_uint, c_int,
    ) -> c_int;
    __db_close_pp(Handle, c_uint) -> c_int;
    __db_put_pp(Handle, Handle, *mut Bytes, *mut Bytes, c_uint) -> c_int;
    __db_get_pp(Handle, Handle, *mut Bytes, *mut Bytes, c_uint) -> c_int;
    __db_cursor_pp(Handle, Handle, *mut Handle, c_uint) -> c_int;
    __dbc_get_pp(Handle, *mut Bytes, *mut Bytes, c_uint) -> c_int;
    __dbc_close_pp(Handle) -> c_int;
    __txn_begin_pp(Handle, Handle, *mut Handle, c_uint) -> c_int;
    __txn_commit(Handle, c_uint) -> c_int;
    __txn_abort(Handle) -> c_int;
    __lock_set_lk_detect(Handle, c_uint) -> c_int;
});

const DB_BTREE: c_int = 1;
const DB_CREATE: c_uint = 0x1;
const DB_THREAD: c_uint = 0x20;
const DB_INIT_CDB: c_uint = 0x80;
const DB_AUTO_COMMIT: c_uint = 0x100;
const DB_INIT_LOCK: c_uint = 0x100;
const DB_INIT_LOG: c_uint = 0x200;
const DB_INIT_MPOOL: c_uint = 0x400;
const DB_INIT_TXN: c_uint = 0x2000;
const DB_PRIVATE: c_uint = 0x1_0000;
const DB_DBT_USERMEM: c_uint = 0x800;
const DB_NEXT: c_uint = 0x10;
const DB_SET_RANGE: c_uint = 0x1b;
const DB_NOTFOUND: c_int = -30988;
const DB_LOCK_DEADLOCK: c_int = -30993;
const DB_LOCK_DEFAULT: c_uint = 1;

struct BerkeleyDb {
    functions: Functions,
    environment: Handle,
    database: Handle,
    durable: bool,
}

// SAFETY: both handles were opened with DB_THREAD, so several threads may use them at once.
unsafe impl Sync for BerkeleyDb {}

struct BerkeleyDbReader<'a> {
    store: &'a BerkeleyDb,
    cursor: Handle,
}

struct BerkeleyDbClient<'a>(&'a BerkeleyDb);

fn functions() -> Result<Functions, Failure> {
    Functions::of(load(&["libdb-5.3.so"], "libdb5.3")?.0)
}

/// As the library tells it.
pub(super) fn version() -> Result<String, Failure> {
    let functions = functions()?;
    let [mut major, mut minor, mut patch] = [0; 3];
    // SAFETY: three integers that outlive the call.
    unsafe { (functions.db_version)(&raw mut major, &raw mut minor, &raw mut patch) };
    if (major, minor) != (5, 3) {
        return Err(Failure::Missing(format!("its version is {major}.{minor}, wanted is 5.3")));
    }
    Ok(format!("{major}.{minor}.{patch}"))
}

/// Opens or makes a database.
pub(super) fn open(settings: &Settings<'_>) -> Result<Box<dyn Store>, Failure> {
    version()?;
    let functions = functions()?;
    let directory = c_path(settings.directory)?;
    let durable = settings.purpose.is_durable();
    let purpose = match settings.purpose {
        Purpose::Load | Purpose::Read => 0,
        Purpose::LoadDurably => DB_INIT_LOG | DB_INIT_TXN,
        Purpose::Serve => DB_INIT_CDB,
        Purpose::ServeDurably => DB_INIT_LOG | DB_INIT_TXN | DB_INIT_LOCK,
    };
    let cache_bytes = c_uint::try_from(settings.cache_bytes)
        .map_err(|_| Failure::Engine("Berkeley DB: a cache below 4 GiB is supported".into()))?;
    let none = ptr::null_mut();
    let (mut environment, mut database) = (none, none);
    // SAFETY: the calls of db.h in their documented order, with places that outlive them.
    unsafe {
        check(functions, (functions.db_env_create)(&raw mut environment, 0))?;
        check(functions, (functions.__memp_set_cachesize)(environment, 0, cache_bytes, 1))?;
        let flags = DB_CREATE | DB_INIT_MPOOL | DB_PRIVATE | DB_THREAD | purpose;
        let home = directory.as_ptr();
        if settings.purpose == Purpose::ServeDurably {
            check(functions, (functions.__lock_set_lk_detect)(environment, DB_LOCK_DEFAULT))?;
        }
        check(functions, (functions.__env_open_pp)(environment, home, flags, 0o644))?;
        check(functions, (functions.db_create)(&raw mut database, environment, 0))?;
        check(functions, (functions.__db_set_pagesize)(database, settings.page_bytes))?;
        let flags = DB_CREATE | DB_THREAD | if durable { DB_AUTO_COMMIT } else { 0 };
        let (file, part) = (c"records.db".as_ptr(), ptr::null());
        let open = functions.__db_open_pp;
        check(functions, open(database, none, file, part, DB_BTREE, flags, 0o644))?;
    }
    Ok(Box::new(BerkeleyDb { functions, environment, database, durable }))
}

impl BerkeleyDb {
    /// Stores records, as a transaction if that has to be durable; the code of the call that failed, after
    /// which the transaction is undone.
    fn commit(&self, records: &[Record]) -> Result<c_int, Failure> {
        let functions = self.functions;
        let mut transaction = ptr::null_mut();
        if self.durable {
            // SAFETY: the environment is open and has transactions.
            check(functions, unsafe {
                let none = ptr::null_mut();
                (functions.__txn_begin_pp)(self.environment, none, &raw mut transaction, 0)
            })?;
        }
        for record in records {
            let Record { mut key, mut value } = *record;
            key = key.to_be();
            let mut key = bytes((&raw mut key).cast(), 8);
            let mut value = bytes(value.as_mut_ptr().cast(), VALUE_BYTES);
            // SAFETY: both byte strings outlive the call, which copies.
            let code = unsafe {
                let (key, value) = (&raw mut key, &raw mut value);
                (functions.__db_put_pp)(self.database, transaction, key, value, 0)
            };
            if code != 0 {
                if self.durable {
                    // SAFETY: the transaction is open and not used afterwards.
                    check(functions, unsafe { (functions.__txn_abort)(transaction) })?;
                }
                return Ok(code);
            }
        }
        // SAFETY: the transaction is open and not used afterwards.
        Ok(if self.durable { unsafe { (functions.__txn_commit)(transaction, 0) } } else { 0 })
    }

    fn get(&self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        let Self { functions, database, .. } = *self;
        let mut key_bytes = key.to_be_bytes();
        let mut room = [0; VALUE_BYTES];
        let mut wanted = bytes(key_bytes.as_mut_ptr().cast(), key_bytes.len());
        let mut value = bytes(room.as_mut_ptr().cast(), room.len());
        // SAFETY: the database is open; the value is copied into `room`, which outlives the call.
        let code = unsafe {
            let (wanted, value) = (&raw mut wanted, &raw mut value);
            (functions.__db_get_pp)(database, ptr::null_mut(), wanted, value, 0)
        };
        if code == DB_NOTFOUND {
            return Ok(false);
        }
        check(functions, code)?;
        visit(key, &room[..value.size as usize])?;
        Ok(true)
    }
}

impl Client for BerkeleyDbClient<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        self.0.get(key, visit)
    }

    fn put(&mut self, record: &Record) -> Result<(), Failure> {
        loop {
            match self.0.commit(std::slice::from_ref(record))? {
                DB_LOCK_DEADLOCK => {}
                code => return check(self.0.functions, code),
            }
        }
    }
}

impl Store for BerkeleyDb {
    fn insert(&mut self, records: &[Record]) -> Result<(), Failure> {
        check(self.functions, self.commit(records)?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Failure> {
        let mut cursor = ptr::null_mut();
        // SAFETY: the database is open.
        check(self.functions, unsafe {
            let none = ptr::null_mut();
            (self.functions.__db_cursor_pp)(self.database, none, &raw mut cursor, 0)
        })?;
        Ok(Box::new(BerkeleyDbReader { store: self, cursor }))
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(BerkeleyDbClient(self)))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        // SAFETY: both are open and not used afterwards; closing a database writes its pages.
        unsafe {
            check(self.functions, (self.functions.__db_close_pp)(self.database, 0))?;
            check(self.functions, (self.functions.__env_close_pp)(self.environment, 0))
        }
    }
}

impl Reader for BerkeleyDbReader<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        self.store.get(key, visit)
    }

    fn scan(&mut self, start: u64, count: u64, visit: &mut Visitor<'_>) -> Result<(), Failure> {
        let functions = self.store.functions;
        let mut key_bytes = start.to_be_bytes();
        let mut room = [0; VALUE_BYTES];
        let mut operation = DB_SET_RANGE;
        for _ in 0..count {
            let mut key = bytes(key_bytes.as_mut_ptr().cast(), key_bytes.len());
            let mut value = bytes(room.as_mut_ptr().cast(), room.len());
            // SAFETY: the cursor is open; key and value are copied into arrays that outlive the
            // call.
            let code = unsafe {
                let (key, value) = (&raw mut key, &raw mut value);
                (functions.__dbc_get_pp)(self.cursor, key, value, operation)
            };
            if code == DB_NOTFOUND {
                return Ok(());
            }
            check(functions, code)?;
            visit(u64::from_be_bytes(key_bytes), &room[..value.size as usize])?;
            operation = DB_NEXT;
        }
        Ok(())
    }
}

impl Drop for BerkeleyDbReader<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open and not used afterwards.
        unsafe { (self.store.functions.__dbc_close_pp)(self.cursor) };
    }
}

/// Bytes that the library reads, or writes over up to their length.
fn bytes(data: *mut c_void, length: usize) -> Bytes {
    let length = c_uint::try_from(length).expect("keys and values are short");
    Bytes {
        data,
        size: length,
        room: length,
        partial_length: 0,
        partial_offset: 0,
        application: ptr::null_mut(),
        flags: DB_DBT_USERMEM,
    }
}

fn check(functions: Functions, code: c_int) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: any code is allowed, the answer is a text that stays.
    let text = text_of(unsafe { (functions.db_strerror)(code) });
    Err(Failure::Engine(format!("Berkeley DB: {text}")))
}
