//! Just enough of `CREATE TABLE` to read and write rows: the columns' names, affinities and constant
//! defaults, which column is the rowid, and what kind of table it is (sqlite.org, CREATE TABLE and
//! Datatypes In SQLite, section 3).
//!
//! 1. [`TableSchema::value`] gives what SQLite would: the rowid for its alias, a default for a column
//!    that came after the row, a double for an integer in a REAL column (SQLite saves space there).
//! 2. Virtual generated columns are not stored, so they are not listed.

use super::affinity::Affinity;
use super::record::{RecordView, encode_record};
use super::sql::{Token, tokens};
use super::value::{Value, ValueRef};
use crate::StorageError;
use nandu_base::words::counted;

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, without quotes.
    pub name: String,
    /// Its type as declared; empty where there is none.
    pub declared_type: String,
    /// What the type makes of values.
    pub affinity: Affinity,
    /// The value of rows that were stored before the column came.
    pub default: Value,
}

/// What a `CREATE TABLE` statement says.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// The table's name, without quotes.
    pub name: String,
    /// Its stored columns, in the order of the record.
    pub columns: Vec<Column>,
    /// The column that is another name of the rowid, and is stored as NULL.
    pub rowid_column: Option<usize>,
    /// Whether rows lie in an index tree instead (`WITHOUT ROWID`).
    pub without_rowid: bool,
    /// The statement's text, as it is stored.
    pub sql: String,
}

impl Column {
    /// A stored value as SQLite shows it.
    #[inline]
    fn shown<'a>(&self, stored: ValueRef<'a>) -> ValueRef<'a> {
        match stored {
            #[allow(clippy::cast_precision_loss, reason = "SQLite stores only what fits a double")]
            ValueRef::Integer(number) if self.affinity == Affinity::Real => {
                ValueRef::Real(number as f64)
            }
            value => value,
        }
    }
}

impl TableSchema {
    /// Reads a `CREATE TABLE` statement.
    ///
    /// # Errors
    /// If it is none, or one that makes a table of something else (`AS SELECT`, `VIRTUAL`).
    pub fn parse(sql: &str) -> Result<Self, StorageError> {
        Parser { tokens: tokens(sql), at: 0 }.table(sql).ok_or_else(|| {
            let start: String = sql.chars().take(80).collect();
            let what = format!("`{start}` is no CREATE TABLE statement with a list of columns");
            StorageError::InvalidSetting { what }
        })
    }

    /// The value of a stored column in a row, as SQLite shows it.
    #[inline]
    #[must_use]
    pub fn value<'a>(&'a self, rowid: i64, record: &RecordView<'a>, index: usize) -> ValueRef<'a> {
        if self.rowid_column == Some(index) {
            return ValueRef::Integer(rowid);
        }
        let Some(column) = self.columns.get(index) else {
            return ValueRef::Null;
        };
        let mut stored = record.columns();
        for _ in 0..index {
            if !stored.skip_one() {
                return column.default.as_ref();
            }
        }
        match stored.next() {
            None => column.default.as_ref(),
            Some(value) => column.shown(value),
        }
    }

    /// All stored columns of a row as [`Self::value`] shows each, in one pass over the record.
    #[inline]
    pub fn values<'a>(
        &'a self,
        rowid: i64,
        record: &RecordView<'a>,
    ) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        let mut stored = record.columns();
        let rowid_column = self.rowid_column;
        self.columns.iter().enumerate().map(move |(index, column)| {
            let value = stored.next();
            if rowid_column == Some(index) {
                return ValueRef::Integer(rowid);
            }
            value.map_or(column.default.as_ref(), |value| column.shown(value))
        })
    }

    /// Appends the record of a row to `out`, each value changed as its column's affinity wants. The
    /// value of the rowid's alias is stored as NULL.
    ///
    /// # Errors
    /// If there are not as many values as columns.
    pub fn encode_row(
        &self,
        values: &[ValueRef<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), StorageError> {
        if values.len() != self.columns.len() {
            let (given, columns) = (values.len(), self.columns.len());
            let columns = counted(columns as u64, "column");
            let what = format!("{} has {columns}, the row {given}", self.name);
            return Err(StorageError::InvalidSetting { what });
        }
        let fits = |(index, column): (usize, &Column)| column.affinity.accepts(values[index]);
        if self.rowid_column.is_none() && self.columns.iter().enumerate().all(fits) {
            encode_record(values.iter().copied(), out);
            return Ok(());
        }
        let changed: Vec<Value> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| match Some(index) == self.rowid_column {
                true => Value::Null,
                false => column.affinity.apply(values[index].to_value()),
            })
            .collect();
        encode_record(changed.iter().map(Value::as_ref), out);
        Ok(())
    }

    /// The index of a column; names are compared as SQL does.
    #[must_use]
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }
}

/// A name as SQL wants it, in quotes.
#[must_use]
pub fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

/// A column definition as far as it concerns storage.
#[derive(Default)]
struct Definition {
    primary_key: bool,
    descending: bool,
    virtual_column: bool,
    default: Option<Value>,
    /// A number as it was written, which is what a column of text keeps.
    default_text: Option<String>,
}

/// Most pairs of parentheses around a default that is read.
const DEFAULT_DEPTH_MAX: u32 = 16;

/// The words that end a column's type.
const CONSTRAINT_WORDS: [&str; 11] = [
    "CONSTRAINT",
    "PRIMARY",
    "NOT",
    "NULL",
    "UNIQUE",
    "CHECK",
    "DEFAULT",
    "COLLATE",
    "REFERENCES",
    "GENERATED",
    "AS",
];

impl Parser<'_> {
    fn table(mut self, sql: &str) -> Option<TableSchema> {
        self.word("CREATE")?;
        let _ = self.word("TEMP").or_else(|| self.word("TEMPORARY"));
        self.word("TABLE")?;
        if self.word("IF").is_some() {
            self.word("NOT")?;
            self.word("EXISTS")?;
        }
        let mut name = self.name()?;
        if self.symbol('.').is_some() {
            name = self.name()?;
        }
        self.symbol('(')?;
        let mut columns = Vec::new();
        let mut default_texts = Vec::new();
        let mut rowid_name: Option<String> = None;
        loop {
            if let Some(key) = self.table_constraint() {
                rowid_name = key.or(rowid_name);
            } else {
                let (column, definition) = self.column()?;
                // "INTEGER PRIMARY KEY DESC" is an ordinary column, for compatibility.
                if definition.primary_key && !definition.descending {
                    rowid_name = Some(column.name.clone());
                }
                if !definition.virtual_column {
                    columns.push(column);
                    default_texts.push(definition.default_text);
                }
            }
            match self.symbol(',') {
                Some(()) => {}
                None => break,
            }
        }
        self.symbol(')')?;
        let (mut without_rowid, mut strict) = (false, false);
        while let Some(token) = self.tokens.get(self.at) {
            without_rowid |= token.is_word("WITHOUT");
            strict |= token.is_word("STRICT");
            self.at += 1;
        }
        for (column, text) in columns.iter_mut().zip(default_texts) {
            column.affinity = Affinity::of_type(&column.declared_type, strict);
            column.default = match text {
                Some(text) if column.affinity == Affinity::Text => Value::Text(text),
                _ => column.affinity.apply(std::mem::take(&mut column.default)),
            };
        }
        let is_alias = |column: &Column| {
            let named =
                rowid_name.as_ref().is_some_and(|key| column.name.eq_ignore_ascii_case(key));
            named && column.declared_type.eq_ignore_ascii_case("INTEGER") && !without_rowid
        };
        let rowid_column = columns.iter().position(is_alias);
        Some(TableSchema { name, columns, rowid_column, without_rowid, sql: sql.to_owned() })
    }

    /// Passes over a table constraint; the inner answer is the name of a primary key of one column.
    fn table_constraint(&mut self) -> Option<Option<String>> {
        let start = self.at;
        if self.word("CONSTRAINT").is_some() {
            self.name()?;
        }
        let first = self.tokens.get(self.at)?;
        let known = ["PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];
        if !known.iter().any(|word| first.is_word(word)) {
            self.at = start;
            return None;
        }
        let primary = self.word("PRIMARY").is_some();
        let mut key = None;
        if primary {
            self.word("KEY")?;
            self.symbol('(')?;
            key = self.name();
            while !self.at_end_of_item() {
                if self.tokens[self.at].is_symbol(',') {
                    key = None;
                }
                self.at += 1;
            }
            self.symbol(')')?;
        }
        self.skip_item();
        Some(key)
    }

    fn column(&mut self) -> Option<(Column, Definition)> {
        let name = self.name()?;
        let mut declared_type = String::new();
        while let Some(token) = self.tokens.get(self.at) {
            if token.is_symbol(',') || token.is_symbol(')') {
                break;
            }
            if CONSTRAINT_WORDS.iter().any(|word| token.is_word(word)) {
                break;
            }
            if token.is_symbol('(') {
                self.at += 1;
                self.skip_to_close();
                self.symbol(')')?;
                declared_type.push_str("()");
                continue;
            }
            if !declared_type.is_empty() {
                declared_type.push(' ');
            }
            declared_type.push_str(&token.text());
            self.at += 1;
        }
        let definition = self.constraints();
        let default = definition.default.clone().unwrap_or_default();
        let column = Column { name, declared_type, affinity: Affinity::Blob, default };
        Some((column, definition))
    }

    /// What follows a column's type, up to the end of the column.
    fn constraints(&mut self) -> Definition {
        let mut definition = Definition::default();
        let (mut generated, mut stored) = (false, false);
        while !self.at_comma_or_close() {
            if self.word("DEFAULT").is_some() {
                definition.default = self.literal(&mut definition.default_text, DEFAULT_DEPTH_MAX);
            } else if self.word("PRIMARY").is_some() {
                definition.primary_key = true;
                let _ = self.word("KEY");
                definition.descending = self.word("DESC").is_some();
            } else {
                generated |= self.tokens[self.at].is_word("AS");
                stored |= generated && self.tokens[self.at].is_word("STORED");
                self.skip_one();
            }
        }
        definition.virtual_column = generated && !stored;
        definition
    }

    /// A constant after DEFAULT, in at most `depth` pairs of parentheses; what has to be computed
    /// cannot be the default of a stored row.
    fn literal(&mut self, text: &mut Option<String>, depth: u32) -> Option<Value> {
        let mut negative = false;
        while let Some(token) = self.tokens.get(self.at) {
            match token {
                Token::Symbol('-') => negative = !negative,
                Token::Symbol('+') => {}
                Token::Symbol('(') => {
                    // An expression, unless it is a literal in parentheses.
                    self.at += 1;
                    let inner = if depth == 0 { None } else { self.literal(text, depth - 1) };
                    let alone = self.tokens.get(self.at).is_some_and(|token| token.is_symbol(')'));
                    self.skip_to_close();
                    let _ = self.symbol(')');
                    return inner.filter(|_| alone);
                }
                _ => break,
            }
            self.at += 1;
        }
        let token = self.tokens.get(self.at)?;
        let value = token.literal(negative);
        if matches!(value, Some(Value::Integer(_) | Value::Real(_))) && token.is_number() {
            let sign = if negative { "-" } else { "" };
            *text = Some(format!("{sign}{}", token.text()));
        }
        self.at += 1;
        value
    }

    fn skip_item(&mut self) {
        while !self.at_comma_or_close() {
            self.skip_one();
        }
    }

    /// One token, or all in a pair of parentheses.
    fn skip_one(&mut self) {
        let open = self.tokens.get(self.at).is_some_and(|token| token.is_symbol('('));
        self.at += 1;
        if open {
            self.skip_to_close();
            self.at += 1;
        }
    }

    /// Up to the parenthesis that closes the open one.
    fn skip_to_close(&mut self) {
        let mut depth = 0_u32;
        while let Some(token) = self.tokens.get(self.at) {
            if token.is_symbol('(') {
                depth += 1;
            } else if token.is_symbol(')') {
                if depth == 0 {
                    return;
                }
                depth -= 1;
            }
            self.at += 1;
        }
    }

    fn at_end_of_item(&self) -> bool {
        self.tokens.get(self.at).is_none_or(|token| token.is_symbol(')'))
    }

    fn at_comma_or_close(&self) -> bool {
        self.tokens.get(self.at).is_none_or(|token| token.is_symbol(')') || token.is_symbol(','))
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.tokens.get(self.at).filter(|token| token.is_word(word))?;
        self.at += 1;
        Some(())
    }

    fn symbol(&mut self, symbol: char) -> Option<()> {
        self.tokens.get(self.at).filter(|token| token.is_symbol(symbol))?;
        self.at += 1;
        Some(())
    }

    fn name(&mut self) -> Option<String> {
        let name = self.tokens.get(self.at)?.name()?;
        self.at += 1;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_is_stored_as_its_columns_want() {
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, a REAL, b TEXT, c INT, d)";
        let schema = TableSchema::parse(sql).unwrap();
        let given = [
            ValueRef::Integer(9),
            ValueRef::Integer(2),
            ValueRef::Real(0.5),
            ValueRef::Text(b" 7 "),
            ValueRef::Text(b"7"),
        ];
        let mut bytes = Vec::new();
        schema.encode_row(&given, &mut bytes).unwrap();
        let record = RecordView::new(&bytes).unwrap();
        assert!(record.get(0).is_null(), "the rowid is not stored twice");
        let shown: Vec<_> = (0..6).map(|index| schema.value(9, &record, index)).collect();
        let expected = [
            ValueRef::Integer(9),
            ValueRef::Real(2.0),
            ValueRef::Text(b"0.5"),
            ValueRef::Integer(7),
            ValueRef::Text(b"7"),
            ValueRef::Null,
        ];
        assert_eq!(shown, expected);
        assert_eq!(schema.values(9, &record).collect::<Vec<_>>(), expected[..5]);
        assert!(schema.encode_row(&given[1..], &mut bytes).is_err());
        assert_eq!(schema.column_index("ID"), Some(0));
    }

    #[test]
    fn quoted_names_come_back() {
        for name in ["a", "a b", "\"", "x\"\"y", "select", "\u{e4}]`"] {
            let sql = format!("CREATE TABLE {0}({0} INT)", quoted_name(name));
            let schema = TableSchema::parse(&sql).unwrap();
            assert_eq!((&schema.name[..], &schema.columns[0].name[..]), (name, name));
        }
    }

    #[test]
    fn deep_nesting_is_passed_over() {
        let deep = "(".repeat(100_000);
        let close = ")".repeat(100_000);
        let sql = format!("CREATE TABLE t(a DEFAULT {deep}1{close}, b CHECK {deep}1{close})");
        let schema = TableSchema::parse(&sql).unwrap();
        assert_eq!(schema.columns.len(), 2);
        assert_eq!(schema.columns[0].default, Value::Null);
    }

    proptest! {
        #[test]
        fn no_statement_makes_it_panic(
            words in proptest::collection::vec(
                prop_oneof![
                    Just("CREATE TABLE t("), Just("DEFAULT"), Just("("), Just(")"), Just(","),
                    Just("'"), Just("\""), Just("["), Just("x'a"), Just("-"), Just("1.e+"),
                    Just("PRIMARY"), Just("KEY"), Just("INTEGER"), Just("AS"), Just("\u{e4}"),
                    Just("--"), Just("/*"), Just("CONSTRAINT"), Just("."), Just("0x"),
                ],
                0..20)
        ) {
            let _ = TableSchema::parse(&format!("CREATE TABLE t({}", words.join(" ")));
            let _ = TableSchema::parse(&words.concat());
        }
    }
}
