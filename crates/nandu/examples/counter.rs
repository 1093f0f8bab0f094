//! A table of words and how often each came, kept in a directory over several runs:
//!
//! `cargo run -p nandu --example counter -- /some/directory to be or not to be`

#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use nandu::{Column, ColumnType, Database, DatabaseOptions, Flow, StorageError, TableKind, Value};
use std::path::{Path, PathBuf};

const TABLE: &str = "words";

fn open(directory: &Path) -> Result<Database, StorageError> {
    let mut options = DatabaseOptions::default();
    (options.settings.log_bytes, options.settings.checkpoint_bytes) = (16 << 20, 2 << 20);
    if directory.exists() {
        let (database, report) = nandu::open_database(directory, &options)?;
        if !report.was_closed {
            println!("restarted after a crash");
        }
        return Ok(database);
    }
    let database = nandu::create_database(directory, &options)?;
    let columns = vec![
        Column::new("word", ColumnType::Text).not_null(),
        Column::new("count", ColumnType::Integer).not_null(),
    ];
    let mut write = database.write()?;
    write.create_table(TABLE, columns, TableKind::Clustered { key: vec![0] })?;
    write.commit()?;
    Ok(database)
}

fn main() -> Result<(), StorageError> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(|| PathBuf::from("words.nandu"), PathBuf::from);
    let database = open(&directory)?;
    let mut write = database.write()?;
    for word in arguments {
        let word = Value::from(word.as_str());
        let before = write.get_by_key(TABLE, &[word.as_ref()], |row| row.get(1).to_value())?;
        let count = match before {
            Some(Value::Integer(count)) => count + 1,
            _ => 1,
        };
        write.put(TABLE, &[word.as_ref(), Value::from(count).as_ref()])?;
    }
    write.commit()?;
    database.read().scan(TABLE, |_, row| {
        if let (Value::Text(word), Value::Integer(count)) =
            (row.get(0).to_value(), row.get(1).to_value())
        {
            println!("{count:6}  {word}");
        }
        Flow::Continue(())
    })?;
    database.close()
}
