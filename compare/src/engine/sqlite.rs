//! SQLite through its C interface (`sqlite3.h`): a rowid table whose integer primary key is the
//! record's key with the highest bit flipped, so that SQLite's signed order is the order of keys
//! and every key takes its full eight bytes.
//!
//! 1. Loading: no journal, no sync, the file locked for good. Durable: write-ahead log, full sync.
//! 2. A reader is a connection of its own in one read transaction for its life; the cache is divided
//!    among them.
//! 3. Clients have connections of their own, each statement a transaction, in a database with a
//!    write-ahead log, synced only where a change is to be durable. They take turns to write, which
//!    is cheaper than the library's way to wait for one another, which is to sleep.
//! 4. With its file mapped (`mmap_size`) the library reads pages where the kernel has them.

#![allow(unsafe_code, reason = "a C interface")]

use super::{Client, Purpose, Reader, Settings, Store, Visitor};
use crate::Failure;
use crate::library::{c_functions, c_path, load, text_of};
use crate::workload::{Record, VALUE_BYTES};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Mutex, PoisonError};

c_functions!(Functions {
    sqlite3_libversion() -> *const c_char;
    sqlite3_open_v2(*const c_char, *mut *mut c_void, c_int, *const c_char) -> c_int;
    sqlite3_close(*mut c_void) -> c_int;
    sqlite3_errmsg(*mut c_void) -> *const c_char;
    sqlite3_exec(*mut c_void, *const c_char, *const c_void, *mut c_void, *mut *mut c_char) -> c_int;
    sqlite3_prepare_v2(
        *mut c_void, *const c_char, c_int, *mut *mut c_void, *mut *const c_char,
    ) -> c_int;
    sqlite3_bind_int64(*mut c_void, c_int, i64) -> c_int;
    sqlite3_bind_blob(*mut c_void, c_int, *const c_void, c_int, *const c_void) -> c_int;
    sqlite3_step(*mut c_void) -> c_int;
    sqlite3_reset(*mut c_void) -> c_int;
    sqlite3_column_int64(*mut c_void, c_int) -> i64;
    sqlite3_column_blob(*mut c_void, c_int) -> *const c_void;
    sqlite3_column_bytes(*mut c_void, c_int) -> c_int;
    sqlite3_finalize(*mut c_void) -> c_int;
});

const SQLITE_OK: c_int = 0;
const SQLITE_ROW: c_int = 100;
const SQLITE_DONE: c_int = 101;
/// As much of a file as the library maps, the most that it is built for: 2 GiB less a page.
const MAP_PRAGMA: &str = "PRAGMA mmap_size=2147418112;";
const OPEN_READWRITE_CREATE_NOMUTEX: c_int = 0x2 | 0x4 | 0x8000;

/// One connection with its statements; all pointers are its own.
struct Connection {
    functions: Functions,
    handle: *mut c_void,
    insert: *mut c_void,
    put: *mut c_void,
    get: *mut c_void,
    scan: *mut c_void,
}

struct Sqlite {
    path: PathBuf,
    reader_pragmas: String,
    /// Of a client, after those of a reader.
    client_pragmas: &'static str,
    /// Only where the database was opened to insert.
    writer: Option<Connection>,
    turn: Mutex<()>,
}

struct SqliteClient<'a> {
    connection: Connection,
    turn: &'a Mutex<()>,
}

// SAFETY: through a shared reference all but `writer` is used.
unsafe impl Sync for Sqlite {}

fn functions() -> Result<Functions, Failure> {
    Functions::of(load(&["libsqlite3.so.0"], "libsqlite3-0")?.0)
}

/// As the library tells it.
pub(super) fn version() -> Result<String, Failure> {
    // SAFETY: the answer is a constant text.
    Ok(text_of(unsafe { (functions()?.sqlite3_libversion)() }))
}

/// Opens or makes the table; mapped into memory, or read and written by calls.
pub(super) fn open(settings: &Settings<'_>, is_mapped: bool) -> Result<Box<dyn Store>, Failure> {
    let map = if is_mapped { MAP_PRAGMA } else { "" };
    let path = settings.directory.join("records.sqlite");
    let cache = |share: u64| format!("PRAGMA cache_size=-{};", settings.cache_bytes / 1024 / share);
    let page = format!("PRAGMA page_size={};", settings.page_bytes);
    let mode = match settings.purpose {
        Purpose::Load => {
            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
        }
        Purpose::LoadDurably => {
            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        }
        Purpose::Serve | Purpose::ServeDurably => "PRAGMA journal_mode=WAL;",
        Purpose::Read => "",
    };
    let client_pragmas = match settings.purpose {
        Purpose::ServeDurably => "PRAGMA synchronous=FULL;",
        _ => "PRAGMA synchronous=OFF;",
    };
    let table = "CREATE TABLE IF NOT EXISTS records (key INTEGER PRIMARY KEY, value BLOB NOT NULL)";
    let reader_pragmas = format!("{}{map}", cache(u64::from(settings.thread_count)));
    let writer = match settings.purpose {
        Purpose::Read => None,
        _ => Some(Connection::open(&path, &format!("{page}{map}{}{mode}{table}", cache(1)))?),
    };
    Ok(Box::new(Sqlite { path, reader_pragmas, client_pragmas, writer, turn: Mutex::new(()) }))
}

impl Connection {
    fn open(path: &std::path::Path, setup: &str) -> Result<Self, Failure> {
        let functions = functions()?;
        let name = c_path(path)?;
        let mut handle = ptr::null_mut();
        let flags = OPEN_READWRITE_CREATE_NOMUTEX;
        // SAFETY: `name` and `handle` outlive the call.
        let code = unsafe {
            (functions.sqlite3_open_v2)(name.as_ptr(), &raw mut handle, flags, ptr::null())
        };
        let none = ptr::null_mut();
        let mut connection =
            Self { functions, handle, insert: none, put: none, get: none, scan: none };
        connection.check(code)?;
        // First of all: even to set a connection up takes a lock that another one may hold.
        connection.execute("PRAGMA busy_timeout=60000;")?;
        connection.execute(setup)?;
        connection.insert = connection.prepare("INSERT INTO records VALUES (?1, ?2)")?;
        connection.put = connection.prepare("INSERT OR REPLACE INTO records VALUES (?1, ?2)")?;
        connection.get = connection.prepare("SELECT value FROM records WHERE key = ?1")?;
        connection.scan = connection
            .prepare("SELECT key, value FROM records WHERE key >= ?1 ORDER BY key LIMIT ?2")?;
        Ok(connection)
    }

    fn execute(&self, statements: &str) -> Result<(), Failure> {
        let text = CString::new(statements).expect("our statements have no zero byte");
        let none = ptr::null_mut();
        // SAFETY: the connection is open and the text outlives the call.
        self.check(unsafe {
            let text = text.as_ptr();
            (self.functions.sqlite3_exec)(self.handle, text, ptr::null(), none, ptr::null_mut())
        })
    }

    fn prepare(&self, statement: &str) -> Result<*mut c_void, Failure> {
        let text = CString::new(statement).expect("our statements have no zero byte");
        let mut prepared = ptr::null_mut();
        let none = ptr::null_mut();
        // SAFETY: the connection is open and the text outlives the call.
        self.check(unsafe {
            let (text, place) = (text.as_ptr(), &raw mut prepared);
            (self.functions.sqlite3_prepare_v2)(self.handle, text, -1, place, none)
        })?;
        Ok(prepared)
    }

    fn bind(&self, statement: *mut c_void, place: c_int, number: i64) -> Result<(), Failure> {
        // SAFETY: the statement is one of ours and reset.
        self.check(unsafe { (self.functions.sqlite3_bind_int64)(statement, place, number) })
    }

    /// Stores a record by a statement that takes key and value.
    fn store(&self, statement: *mut c_void, record: &Record) -> Result<(), Failure> {
        self.bind(statement, 1, rowid_of(record.key))?;
        let size = c_int::try_from(VALUE_BYTES).expect("a value is short");
        // SAFETY: the value outlives the step; no destructor means that it is not kept.
        self.check(unsafe {
            let value = record.value.as_ptr().cast();
            (self.functions.sqlite3_bind_blob)(statement, 2, value, size, ptr::null())
        })?;
        self.step(statement)?;
        self.reset(statement)
    }

    fn step(&self, statement: *mut c_void) -> Result<bool, Failure> {
        // SAFETY: the statement is one of ours with its parameters bound.
        match unsafe { (self.functions.sqlite3_step)(statement) } {
            SQLITE_ROW => Ok(true),
            SQLITE_DONE => Ok(false),
            code => self.check(code).map(|()| false),
        }
    }

    fn reset(&self, statement: *mut c_void) -> Result<(), Failure> {
        // SAFETY: the statement is one of ours.
        self.check(unsafe { (self.functions.sqlite3_reset)(statement) })
    }

    /// The bytes of a column of the row that a statement stands on.
    fn column(&self, statement: *mut c_void, column: c_int) -> &[u8] {
        // SAFETY: the statement stands on a row; its bytes stay until it is stepped or reset, which
        // the borrower does only after the bytes were seen.
        unsafe {
            let data = (self.functions.sqlite3_column_blob)(statement, column);
            let size = (self.functions.sqlite3_column_bytes)(statement, column);
            match usize::try_from(size) {
                Ok(size) if !data.is_null() => std::slice::from_raw_parts(data.cast(), size),
                _ => &[],
            }
        }
    }

    fn check(&self, code: c_int) -> Result<(), Failure> {
        if code == SQLITE_OK {
            return Ok(());
        }
        // SAFETY: the library accepts the handle of a connection, also one that failed to open.
        let text = text_of(unsafe { (self.functions.sqlite3_errmsg)(self.handle) });
        Err(Failure::Engine(format!("SQLite: {text} ({code})")))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: each is ours or null, which the library ignores; nothing is used afterwards.
        unsafe {
            for statement in [self.insert, self.put, self.get, self.scan] {
                (self.functions.sqlite3_finalize)(statement);
            }
            (self.functions.sqlite3_close)(self.handle);
        }
    }
}

impl Store for Sqlite {
    fn insert(&mut self, records: &[Record]) -> Result<(), Failure> {
        let writer = self.writer.as_ref().expect("the database was opened to insert");
        writer.execute("BEGIN")?;
        records.iter().try_for_each(|record| writer.store(writer.insert, record))?;
        writer.execute("COMMIT")
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Failure> {
        let connection = Connection::open(&self.path, &self.reader_pragmas)?;
        // Else each lookup would be a transaction: a lock, a look at the file's head, and back.
        connection.execute("BEGIN")?;
        Ok(Box::new(connection))
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Failure> {
        let pragmas = format!("{}{}", self.reader_pragmas, self.client_pragmas);
        let connection = Connection::open(&self.path, &pragmas)?;
        Ok(Box::new(SqliteClient { connection, turn: &self.turn }))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        drop(self);
        Ok(())
    }
}

impl Reader for Connection {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        self.bind(self.get, 1, rowid_of(key))?;
        let found = self.step(self.get)?;
        if found {
            visit(key, self.column(self.get, 0))?;
        }
        self.reset(self.get)?;
        Ok(found)
    }

    fn scan(&mut self, start: u64, count: u64, visit: &mut Visitor<'_>) -> Result<(), Failure> {
        self.bind(self.scan, 1, rowid_of(start))?;
        self.bind(self.scan, 2, i64::try_from(count).unwrap_or(i64::MAX))?;
        while self.step(self.scan)? {
            // SAFETY: the statement stands on a row.
            let rowid = unsafe { (self.functions.sqlite3_column_int64)(self.scan, 0) };
            visit(rowid.cast_unsigned() ^ SIGN, self.column(self.scan, 1))?;
        }
        self.reset(self.scan)
    }
}

impl Client for SqliteClient<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        self.connection.get(key, visit)
    }

    fn put(&mut self, record: &Record) -> Result<(), Failure> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = self.connection.store(self.connection.put, record);
        drop(turn);
        stored
    }
}

const SIGN: u64 = 1 << 63;

/// The signed number of the same rank.
fn rowid_of(key: u64) -> i64 {
    (key ^ SIGN).cast_signed()
}
