//! `nandu db schema`: what tables there are.

use super::{Answering, Place, open_to_read};
use crate::failure::Failure;
use nandu::{Settings, TableDefinition};
use nandu_base::words::visible;
use serde::Serialize;

/// What `schema --json` prints.
#[derive(Serialize)]
struct SchemaAnswer<'a> {
    page_bytes: u32,
    log_bytes: u64,
    tables: &'a [TableDefinition],
}

/// Prints the commands that make the tables, or JSON.
pub(super) fn schema(
    place: Place<'_>,
    table: Option<&str>,
    to: &Answering<'_>,
) -> Result<(), Failure> {
    let (database, _) = open_to_read(place)?;
    let (definitions, Settings { page_bytes, log_bytes, .. }): (Vec<TableDefinition>, _) = {
        let tables = database.read();
        let definitions = match table {
            Some(table) => vec![tables.definition(table)?.clone()],
            None => tables.definitions()?.cloned().collect(),
        };
        (definitions, tables.engine().settings().clone())
    };
    crate::database::close(database, place.directory)?;
    if to.as_json {
        let answer = SchemaAnswer { page_bytes, log_bytes, tables: &definitions };
        return to.context.output.json("db schema", &answer);
    }
    let place = place.directory.display().to_string();
    // What is as usual needs no words.
    let (usual, mut sizes) = (Settings::default(), Vec::new());
    if page_bytes != usual.page_bytes {
        sizes.push(format!("--page-size={page_bytes}"));
    }
    if log_bytes != usual.log_bytes {
        sizes.push(format!("--log-size={log_bytes}"));
    }
    let of = |table| commands_of(table, &place, &sizes);
    to.context.output.text(&definitions.iter().map(of).collect::<String>())
}

/// The commands that make a table. A shell reads them as they are meant, whatever the names are: those
/// of columns come from files that nobody vouches for.
fn commands_of(table: &TableDefinition, place: &str, sizes: &[String]) -> String {
    let TableDefinition { name, columns, kind, indexes, .. } = table;
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let typed = columns
        .iter()
        .map(|column| format!("{}:{}", column.name, column.column_type.label()))
        .collect::<Vec<String>>();
    let typed = typed.iter().map(String::as_str);
    let mut options: Vec<String> = Vec::new();
    if let Some(span_pages) = kind.span_pages() {
        let columns: Vec<String> = typed.map(|column| in_shell(&visible(column))).collect();
        let columns = columns.join(" ");
        return format!(
            "# {name} {columns}, loaded in PAX pages, {span_pages} at a time: nandu load --pax\n"
        );
    }
    if kind.own_columns().is_some() {
        options.push(format!("--{}", kind.label()));
        options.extend_from_slice(sizes);
        return command("create", [place, name].into_iter(), &options);
    }
    let key: Vec<&str> = kind.key_columns().iter().map(|place| names[*place]).collect();
    if let Some(column) = key.iter().find(|column| column.contains(',')) {
        let column = visible(column);
        return format!("# {name}: no command makes a key of the column {column}, for its comma\n");
    }
    if !key.is_empty() {
        options.push(format!("--key={}", key.join(",")));
    }
    options.extend_from_slice(sizes);
    let mut lines = command("create", [place, name].into_iter().chain(typed), &options);
    for index in indexes {
        let columns = index.columns.iter().map(|place| names[*place]);
        lines += &command("index", [place, name, &index.name].into_iter().chain(columns), &[]);
    }
    lines
}

/// A line `nandu db ACTION`. Options are `--NAME`, or `--NAME=VALUE`, written in two words where that is the
/// same.
fn command<'a>(action: &str, words: impl Iterator<Item = &'a str>, options: &[String]) -> String {
    let words: Vec<&str> = words.collect();
    let positional = words.iter().map(|word| in_shell(word)).collect::<Vec<String>>().join(" ");
    let mut flags = String::new();
    for option in options {
        let Some((flag, value)) = option.split_once('=') else {
            flags += &format!(" {option}");
            continue;
        };
        let between = if value.starts_with('-') { '=' } else { ' ' };
        flags += &format!(" {flag}{between}{}", in_shell(value));
    }
    // Behind two hyphens nothing is an option.
    match words.iter().any(|word| word.starts_with('-')) {
        true => format!("nandu db {action}{flags} -- {positional}\n"),
        false => format!("nandu db {action} {positional}{flags}\n"),
    }
}

/// One word of a shell.
fn in_shell(word: &str) -> String {
    // Only NUL cannot be quoted. No argument holds it, so nothing is lost by leaving it out.
    let word = word.replace('\0', "");
    shlex::try_quote(&word).map_or_else(|_| String::new(), |quoted| quoted.into_owned())
}
