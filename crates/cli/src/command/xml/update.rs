//! `nandu xml update`: nodes that an expression of `XPath` chooses get a value, go, or get new ones in or
//! beside them.
//!
//! 1. All is done in one transaction: after an error nothing has changed.
//! 2. Nodes are chosen before anything changes, and changed from the last to the first, so that one that
//!    lies in another is changed before that goes.

use super::query::{asked, parse_namespace};
use crate::Context;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use nandu::DatabaseOptions;
use nandu_base::words::counted;
use nandu_base::{ByteCount, to_index};
use nandu_xml::xpath::{Content, FragmentKind, Located, QueryLimits, QueryPlan, locate};
use nandu_xml::{DocumentFormat, Editor, Label, Spot, XmlError};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct UpdateArguments {
    /// The directory of the database
    directory: PathBuf,
    /// An expression of `XPath` 1.0 that chooses nodes, such as `//order[@id = 7]/status`
    expression: String,
    #[command(flatten)]
    change: ChangeArguments,
    /// Where it is inserted
    #[arg(long, value_enum, default_value = "last", requires = "insert")]
    at: Place,
    /// What a prefix of the expression stands for
    #[arg(long, value_name = "PREFIX=URI", value_parser = parse_namespace)]
    namespace: Vec<(String, String)>,
    /// Memory for a part of the document that has to be seen as a whole
    #[arg(long, default_value = "256MiB", value_parser = crate::command::parse_size, value_name = "SIZE")]
    memory: ByteCount,
}

/// What is done to nodes: one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ChangeArguments {
    /// Give them this value: attributes, texts, comments, and elements with nothing but text in them; in
    /// a document of JSON any value of JSON, such as 7, '"sent"', null or '{"a": [1]}'
    #[arg(long, value_name = "VALUE")]
    set: Option<String>,
    /// Insert this text of XML in them or beside them; in a document of JSON items of an array, such as
    /// '1, {"a": 2}', or members of an object, such as '"a": 1, "b": []'
    #[arg(long, value_name = "TEXT")]
    insert: Option<String>,
    /// Remove them, and all that is in them
    #[arg(long)]
    delete: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Place {
    /// Before the first child of an element
    First,
    /// Behind the last child of an element
    Last,
    /// Before the node
    Before,
    /// Behind the node and all that is in it
    Behind,
}

/// What `update --json` prints.
#[derive(Serialize)]
struct UpdateAnswer<'a> {
    name: &'a str,
    /// The expression with abbreviations spelt out.
    expression: String,
    change: &'static str,
    /// How many nodes it has chosen.
    node_count: u64,
}

/// Changes what an expression chooses.
pub(super) fn run(
    arguments: &UpdateArguments,
    name: &str,
    as_json: bool,
    context: &Context,
) -> Result<(), Failure> {
    let (expression, namespaces) = asked(&arguments.expression, &arguments.namespace)?;
    let (database, _) = crate::database::open(&arguments.directory, &DatabaseOptions::default())?;
    let change = || -> Result<u64, Failure> {
        let mut write = database.write()?;
        let mut editor = Editor::begin(&mut write, name)?;
        let document = editor.document();
        let plan = QueryPlan::new(&expression, document, &namespaces)?;
        let plan = plan.choose(editor.tables(), document, &namespaces)?;
        let limits = QueryLimits { fragment_bytes: to_index(arguments.memory.0) };
        let is_stopped = || context.interrupt.is_set();
        let with = (&namespaces, limits);
        let nodes = locate(editor.tables(), document, &plan, with, &is_stopped).map_err(told)?;
        for node in nodes.iter().rev() {
            if is_stopped() {
                return Err(told(XmlError::Cancelled));
            }
            arguments.change(&mut editor, node)?;
        }
        editor.finish()?;
        write.commit()?;
        Ok(nodes.len() as u64)
    };
    let changed = change();
    let closed = crate::database::close(database, &arguments.directory);
    let node_count = changed?;
    closed?;
    let change = arguments.word();
    let done = format!("{}: {} {}", name, counted(node_count, "node"), change);
    let output = context.output;
    let answered = if as_json {
        let expression = expression.to_string();
        output.json("xml update", &UpdateAnswer { name, expression, change, node_count })
    } else {
        output.line(&done)
    };
    crate::database::answered(answered, &done)
}

fn told(error: XmlError) -> Failure {
    match error {
        XmlError::Cancelled => Failure::interrupted("nothing was changed"),
        error => error.into(),
    }
}

impl UpdateArguments {
    /// What is done to nodes.
    const fn word(&self) -> &'static str {
        match (&self.change.set, &self.change.insert) {
            (Some(_), _) => "set",
            (_, Some(_)) => "inserted at",
            _ => "deleted",
        }
    }

    fn change(&self, editor: &mut Editor<'_, '_>, node: &Located) -> Result<(), Failure> {
        let [first, ..] = &node.labels[..] else {
            return Err(Failure::input(
                "the document itself cannot be changed; choose nodes in it",
            ));
        };
        if let Some(value) = &self.change.set {
            return set(editor, node, value);
        }
        let Some(fragment) = &self.change.insert else {
            return remove(editor, &node.labels);
        };
        let (first, last) = (editor.now(first), node.labels.last().unwrap_or(first));
        let spot = match self.at {
            Place::First | Place::Last if node.kind != FragmentKind::Element => {
                return Err(Failure::input(
                    "only elements have something in them; insert with --at before or behind",
                ));
            }
            Place::First => Spot::FirstIn(first),
            Place::Last => Spot::LastIn(first),
            Place::Before => Spot::Before(first),
            Place::Behind => Spot::Behind(editor.now(last)),
        };
        editor.insert(&spot, fragment)?;
        Ok(())
    }
}

/// Removes nodes. One that went with the one that it was in is no trouble.
fn remove(editor: &mut Editor<'_, '_>, labels: &[Label]) -> Result<(), Failure> {
    for label in labels {
        editor.delete(&editor.now(label))?;
    }
    Ok(())
}

/// Gives a node a value: the first of texts that touch gets all of it.
fn set(editor: &mut Editor<'_, '_>, node: &Located, value: &str) -> Result<(), Failure> {
    if editor.document().format() == DocumentFormat::Json {
        return set_json(editor, node, value);
    }
    let labels = match (&node.content, node.kind) {
        (Content::Nodes, _) => {
            let what = "an element that is to be set has other nodes than a text in it; choose one of these";
            return Err(Failure::input(what));
        }
        (Content::Text(labels), _) => labels,
        (Content::Nothing, FragmentKind::Element) => {
            if !value.is_empty() {
                let text = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                // Ends of lines are what they are.
                let text = text.replace('\r', "&#13;");
                editor.insert(&Spot::LastIn(editor.now(&node.labels[0])), &text)?;
            }
            return Ok(());
        }
        (Content::Nothing, _) => &node.labels,
    };
    let is_text = node.kind == FragmentKind::Text || node.kind == FragmentKind::Element;
    if is_text && value.is_empty() {
        return remove(editor, labels);
    }
    let Some((first, others)) = labels.split_first() else { return Ok(()) };
    let value = match node.kind {
        FragmentKind::Instruction => {
            return Err(Failure::input(
                "an instruction is not set; delete it and insert another one",
            ));
        }
        _ => value,
    };
    editor.set_value(&editor.now(first), value)?;
    remove(editor, others)
}

/// Gives a value of JSON another one, of any type.
fn set_json(editor: &mut Editor<'_, '_>, node: &Located, value: &str) -> Result<(), Failure> {
    let Some(label) = node.labels.first() else { return Ok(()) };
    let label = editor.now(label);
    let element = match node.kind {
        FragmentKind::Text => label.parent().unwrap_or_default(),
        _ => label,
    };
    // One that went with the one that it was in is no trouble.
    editor.replace(&element, value)?;
    Ok(())
}
