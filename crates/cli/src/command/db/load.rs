//! `nandu db load`: the rows of a file of lines.
//!
//! 1. A load commits every `ROWS_PER_COMMIT` rows, and earlier where the log has no room for the next one,
//!    so that any number fits any log. It always ends between two commits and says where; a file with fewer
//!    rows, which fit, is stored as a whole or not at all.

use super::text::{parse_row, refs};
use super::{Answering, Place, open};
use crate::Context;
use crate::failure::Failure;
use crate::input::Input;
use crate::output;
use crate::progress::Progress;
use nandu::{Database, Row, StorageError, TableDefinition, WriteTransaction};
use nandu_base::words::counted;
use serde::Serialize;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Even if each row changes a page of 64 KiB of its own, their images fill half a log of the usual size.
const ROWS_PER_COMMIT: u64 = 2048;
/// Or so much text, for rows that are large.
const TEXT_BYTES_PER_COMMIT: u64 = 4 << 20;
/// Bytes of a line at most, which hold while it is read.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// What is read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// What `load --json` prints.
#[derive(Serialize)]
struct LoadAnswer<'a> {
    table: &'a str,
    row_count: u64,
    /// Lines of the file that are stored, those that were left out included: what `--skip` takes.
    line_count: u64,
}

/// Stores the rows of a file, but for lines at its beginning.
pub(super) fn load(
    place: Place<'_>,
    table: &str,
    file: &Path,
    skip: u64,
    to: &Answering<'_>,
) -> Result<(), Failure> {
    let mut lines = Lines::open(file, skip, to.context)?;
    let database = open(place)?;
    let start = lines.number;
    let mut stored = start;
    let outcome = load_lines(&database, table, &mut lines, &mut stored, to.context);
    let closed = crate::database::close(database, place.directory);
    let how_far = match stored {
        1 => "the first row is stored; --skip 1 goes on from there".to_owned(),
        _ => format!("the first {stored} rows are stored; --skip {stored} goes on from there"),
    };
    if let Err(failure) = outcome {
        if failure.is_interrupted() {
            return Err(Failure::interrupted(how_far));
        }
        if stored > start {
            output::complain(&how_far);
        }
        return Err(failure);
    }
    closed?;
    let row_count = stored - start;
    let answer = LoadAnswer { table, row_count, line_count: stored };
    let rows = counted(row_count, "row");
    to.tell("db load", &answer, Some(rows.clone()), &format!("{rows} stored"))
}

/// Keeps in `stored` how many lines are durable.
fn load_lines(
    database: &Database,
    table: &str,
    lines: &mut Lines<'_>,
    stored: &mut u64,
    context: &Context,
) -> Result<(), Failure> {
    let definition = database.read().definition(table)?.clone();
    let progress = Progress::new(context, 1);
    loop {
        let mut write = database.write()?;
        let bytes_before = lines.bytes_read;
        let mut has_more = true;
        while has_more
            && lines.number < *stored + ROWS_PER_COMMIT
            && lines.bytes_read < bytes_before + TEXT_BYTES_PER_COMMIT
        {
            has_more = lines.advance()?;
            if !has_more {
                break;
            }
            let row = row_of(&definition, &lines.line).map_err(|bad| bad.at(&lines.place()))?;
            match store(&mut write, &definition, &row) {
                // The rows before it are there all the same, and make room by being committed.
                Err(StorageError::NoSpace { .. }) if lines.number > *stored + 1 => {
                    lines.is_held = true;
                    break;
                }
                outcome => outcome.map_err(|error| Failure::from(error).at(&lines.place()))?,
            }
        }
        // Leaving drops `write`, which rolls back the rows that are not committed.
        if context.interrupt.is_set() {
            return Err(Failure::interrupted(""));
        }
        write.commit()?;
        *stored = lines.number - u64::from(lines.is_held);
        if !has_more {
            return Ok(());
        }
        progress.show(lines.fraction(), &counted(*stored, "row"));
    }
}

fn row_of(definition: &TableDefinition, line: &str) -> Result<Row, Failure> {
    let (found, wanted) = (line.split('\t').count(), definition.columns.len());
    if found != wanted {
        return Err(Failure::input(format!(
            "{} instead of {wanted}; put one tab between two values",
            counted(found as u64, "value")
        )));
    }
    parse_row(line.split('\t'), definition.columns.iter().map(|column| column.column_type))
}

fn store(
    write: &mut WriteTransaction<'_>,
    definition: &TableDefinition,
    row: &Row,
) -> Result<(), StorageError> {
    match definition.key_columns() {
        // A table that takes no changes says why.
        [] => write.insert(&definition.name, &refs(row)).map(drop),
        _ => write.put(&definition.name, &refs(row)).map(drop),
    }
}

/// A file that is read line by line.
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<Input>,
    byte_count: u64,
    bytes_read: u64,
    /// Of the current line, from 1.
    number: u64,
    line: String,
    /// The current line is the next one, too.
    is_held: bool,
}

impl<'a> Lines<'a> {
    /// Opens a file and leaves out lines at its beginning.
    fn open(path: &'a Path, skip: u64, context: &Context) -> Result<Self, Failure> {
        let failed = |error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                Failure::input(format!("{}: no such file; check the spelling", path.display()))
            }
            _ => Failure::system(format!("cannot read {}", path.display()), error),
        };
        let input = Input::open(path, &context.interrupt).map_err(|error| failed(&error))?;
        let byte_count = input.byte_count().unwrap_or(0);
        let reader = BufReader::with_capacity(BUFFER_BYTES, input);
        let mut lines = Self {
            path,
            reader,
            byte_count,
            bytes_read: 0,
            number: 0,
            line: String::new(),
            is_held: false,
        };
        while lines.number < skip {
            if !lines.advance()? {
                let count = counted(lines.number, "line");
                return Err(Failure::input(format!(
                    "{}: --skip {skip}, but it has {count}",
                    path.display()
                )));
            }
        }
        Ok(lines)
    }

    /// Goes to the next line; false behind the last one.
    fn advance(&mut self) -> Result<bool, Failure> {
        if std::mem::take(&mut self.is_held) {
            return Ok(true);
        }
        self.line.clear();
        let what = || format!("cannot read line {} of {}", self.number + 1, self.path.display());
        let mut bounded = self.reader.by_ref().take(LINE_BYTES_MAX + 1);
        let byte_count = bounded.read_line(&mut self.line).map_err(|error| {
            let what = what();
            match error.kind() {
                io::ErrorKind::InvalidData => Failure::input(format!("{what}: it is not UTF-8")),
                _ => Failure::system(what, &error),
            }
        })?;
        if byte_count == 0 {
            return Ok(false);
        }
        if byte_count as u64 > LINE_BYTES_MAX {
            let most = LINE_BYTES_MAX >> 20;
            return Err(Failure::input(format!("{}: it has more than {most} MiB", what())));
        }
        self.bytes_read += byte_count as u64;
        self.number += 1;
        if self.line.ends_with('\n') {
            self.line.pop();
        }
        if self.line.ends_with('\r') {
            self.line.pop();
        }
        Ok(true)
    }

    fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.number)
    }

    fn fraction(&self) -> f64 {
        self.bytes_read as f64 / self.byte_count.max(1) as f64
    }
}
