//! The library of PostgreSQL's clients (`libpq-fe.h`), loaded where it is installed: a connection over a
//! socket, statements that are prepared once.

#![allow(unsafe_code, non_snake_case, reason = "a C interface, with its names")]

use super::sql::{Cell, Parameter, Row, Stop};
use crate::Failure;
use crate::library::{c_functions, load, text_of};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

c_functions!(Functions {
    PQconnectdb(*const c_char) -> *mut c_void;
    PQstatus(*const c_void) -> c_int;
    PQerrorMessage(*const c_void) -> *const c_char;
    PQfinish(*mut c_void);
    PQexec(*mut c_void, *const c_char) -> *mut c_void;
    PQprepare(*mut c_void, *const c_char, *const c_char, c_int, *const c_uint) -> *mut c_void;
    PQexecPrepared(
        *mut c_void, *const c_char, c_int, *const *const c_char, *const c_int, *const c_int, c_int,
    ) -> *mut c_void;
    PQresultStatus(*const c_void) -> c_int;
    PQresultErrorField(*const c_void, c_int) -> *const c_char;
    PQntuples(*const c_void) -> c_int;
    PQnfields(*const c_void) -> c_int;
    PQftype(*const c_void, c_int) -> c_uint;
    PQgetisnull(*const c_void, c_int, c_int) -> c_int;
    PQgetvalue(*const c_void, c_int, c_int) -> *const c_char;
    PQclear(*mut c_void);
});

const CONNECTION_OK: c_int = 0;
const COMMAND_OK: c_int = 1;
const TUPLES_OK: c_int = 2;
/// Fields of an error: its SQLSTATE, what it says.
const STATE: c_int = b'C' as c_int;
const MESSAGE: c_int = b'M' as c_int;
/// Types by number (`pg_type.dat`).
const BIGINT: c_uint = 20;
const TEXT: c_uint = 25;
const INTEGERS: [c_uint; 4] = [BIGINT, 21, 23, 1700];
/// What SQLSTATEs say that others were in the way: a serialization failure, a deadlock.
const TRANSIENT: [&str; 2] = ["40001", "40P01"];
/// The SQLSTATE of an order that has to be rolled back, which functions of ours raise.
const ROLLED_BACK: &str = "TPCRB";

/// A connection, whose pointer is its own.
pub(super) struct Connection {
    functions: Functions,
    handle: *mut c_void,
    prepared: BTreeMap<&'static str, CString>,
}

// SAFETY: libpq lets any thread use a connection, one at a time, and a reference that changes is needed here.
unsafe impl Send for Connection {}

/// What came of a statement.
pub(super) enum Answer {
    Rows(Vec<Row>),
    /// It has to be rolled back, and says this.
    RolledBack(String),
}

/// Looks for the library.
///
/// # Errors
/// If it is not installed.
pub(super) fn find() -> Result<(), Failure> {
    functions().map(|_| ())
}

fn functions() -> Result<Functions, Failure> {
    Functions::of(load(&["libpq.so.5"], "libpq5")?.0)
}

impl Connection {
    /// A connection to the server whose socket lies in `directory`.
    ///
    /// # Errors
    /// If the library is missing, or there is no such server.
    pub(super) fn open(directory: &Path) -> Result<Self, Failure> {
        let functions = functions()?;
        let (host, user) = (directory.display(), crate::postgresql::USER);
        let words = CString::new(format!("host='{host}' user={user} dbname={user}"))
            .map_err(|_| Failure::Run("a zero byte in a path".to_owned()))?;
        // SAFETY: the text ends with a zero byte; the answer is never null but without memory, and closed on drop.
        let handle = unsafe { (functions.PQconnectdb)(words.as_ptr()) };
        let mut connection = Self { functions, handle, prepared: BTreeMap::new() };
        // SAFETY: the connection is open or failed, both of which may be asked.
        match unsafe { (functions.PQstatus)(connection.handle) } {
            CONNECTION_OK => {}
            _ => return Err(connection.failure()),
        }
        // It would write to our output that there is nothing to roll back.
        match connection.run("SET client_min_messages = error") {
            Ok(_) => Ok(connection),
            Err(_) => Err(connection.failure()),
        }
    }

    /// What the connection says of its last error.
    fn failure(&self) -> Failure {
        // SAFETY: the connection is there, and its text ends with a zero byte.
        let text = text_of(unsafe { (self.functions.PQerrorMessage)(self.handle) });
        Failure::Engine(format!("postgresql: {}", text.trim()))
    }

    /// A statement without parameters.
    ///
    /// # Errors
    /// If it fails, or others are in the way.
    pub(super) fn run(&mut self, statement: &str) -> Result<Vec<Row>, Stop> {
        let text = c_text(statement)?;
        // SAFETY: connection and text live as long as the call.
        let result = unsafe { (self.functions.PQexec)(self.handle, text.as_ptr()) };
        self.rows_of(result)
    }

    /// A statement that is prepared the first time.
    ///
    /// # Errors
    /// If it fails, or others are in the way.
    pub(super) fn ask(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Answer, Stop> {
        if !self.prepared.contains_key(statement) {
            self.prepare(statement, parameters)?;
        }
        let name = &self.prepared[statement];
        let mut texts = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            texts.push(match parameter {
                Parameter::Integer(number) => c_text(&number.to_string())?,
                Parameter::Text(text) => c_text(text)?,
            });
        }
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).expect("a statement has some parameters");
        // SAFETY: all texts end with a zero byte and outlive the call; as many pointers are there as are told;
        // without lengths and formats all are texts.
        let result = unsafe {
            (self.functions.PQexecPrepared)(
                self.handle,
                name.as_ptr(),
                count,
                pointers.as_ptr(),
                ptr::null(),
                ptr::null(),
                0,
            )
        };
        self.answer_of(result)
    }

    fn prepare(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<(), Stop> {
        let name = c_text(&format!("s{}", self.prepared.len()))?;
        let text = c_text(statement)?;
        let kinds: Vec<c_uint> = parameters
            .iter()
            .map(|parameter| match parameter {
                Parameter::Integer(_) => BIGINT,
                Parameter::Text(_) => TEXT,
            })
            .collect();
        let count = c_int::try_from(kinds.len()).expect("a statement has some parameters");
        // SAFETY: as above; as many kinds are there as are told.
        let result = unsafe {
            (self.functions.PQprepare)(
                self.handle,
                name.as_ptr(),
                text.as_ptr(),
                count,
                kinds.as_ptr(),
            )
        };
        self.rows_of(result)?;
        self.prepared.insert(statement, name);
        Ok(())
    }

    fn rows_of(&self, result: *mut c_void) -> Result<Vec<Row>, Stop> {
        match self.answer_of(result)? {
            Answer::Rows(rows) => Ok(rows),
            Answer::RolledBack(text) => Err(Failure::Engine(format!("postgresql: {text}")).into()),
        }
    }

    /// What a result says; it is gone afterwards.
    fn answer_of(&self, result: *mut c_void) -> Result<Answer, Stop> {
        if result.is_null() {
            return Err(self.failure().into());
        }
        let answer = self.look_at(result);
        // SAFETY: the result came from the library and is not used any more.
        unsafe { (self.functions.PQclear)(result) };
        answer
    }

    fn look_at(&self, result: *const c_void) -> Result<Answer, Stop> {
        let functions = &self.functions;
        // SAFETY: here and below the result is there, and rows and columns are within what it tells; a text ends
        // with a zero byte, and one that is not there is null.
        match unsafe { (functions.PQresultStatus)(result) } {
            COMMAND_OK => return Ok(Answer::Rows(Vec::new())),
            TUPLES_OK => {}
            _ => {
                // SAFETY: as above.
                let field =
                    |field| text_of(unsafe { (functions.PQresultErrorField)(result, field) });
                let (state, message) = (field(STATE), field(MESSAGE));
                return match state.as_str() {
                    ROLLED_BACK => Ok(Answer::RolledBack(message)),
                    state if TRANSIENT.contains(&state) => Err(Stop::Again),
                    "" => Err(self.failure().into()),
                    _ => Err(Failure::Engine(format!("postgresql: {message} ({state})")).into()),
                };
            }
        }
        // SAFETY: as above.
        let (row_count, column_count) =
            unsafe { ((functions.PQntuples)(result), (functions.PQnfields)(result)) };
        // SAFETY: as above.
        let is_integer =
            |column| INTEGERS.contains(&unsafe { (functions.PQftype)(result, column) });
        let are_integers: Vec<bool> = (0..column_count).map(is_integer).collect();
        let mut rows = Vec::new();
        for row in 0..row_count {
            let mut cells = Vec::with_capacity(are_integers.len());
            for (column, is_integer) in (0..column_count).zip(&are_integers) {
                // SAFETY: as above.
                if unsafe { (functions.PQgetisnull)(result, row, column) } != 0 {
                    cells.push(Cell::Null);
                    continue;
                }
                // SAFETY: as above.
                let text = text_of(unsafe { (functions.PQgetvalue)(result, row, column) });
                cells.push(match is_integer {
                    true => Cell::Integer(text.parse().map_err(|_| {
                        Failure::Engine(format!("postgresql: {text} is no whole number"))
                    })?),
                    false => Cell::Text(text),
                });
            }
            rows.push(Row(cells.into_iter()));
        }
        Ok(Answer::Rows(rows))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: it came from the library and is not used any more.
        unsafe { (self.functions.PQfinish)(self.handle) };
    }
}

/// A text as C takes it.
fn c_text(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::Run("a zero byte in a text".to_owned()))
}
