//! `nandu xml query`: what an expression of `XPath` finds in a document.
//!
//! 1. Nodes are printed when they are found, so a long answer takes no memory; `--json` holds all of
//!    them.

use super::read;
use crate::Context;
use crate::failure::Failure;
use crate::output::DataStream;
use clap::Args;
use nandu_base::ByteCount;
use nandu_base::to_index;
use nandu_base::words::counted;
use nandu_xml::xpath::{
    Access, Expression, Fold, Found, Fragment, Namespaces, Node, Place, QueryLimits, QueryPlan,
    parse, query, write_node,
};
use nandu_xml::{ClassId, Document, XmlError};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct QueryArguments {
    /// The directory of the database
    directory: PathBuf,
    /// An expression of `XPath` 1.0, such as `//book[@year > 1990]/title`
    expression: String,
    /// What a prefix of the expression stands for
    #[arg(long, value_name = "PREFIX=URI", value_parser = parse_namespace)]
    namespace: Vec<(String, String)>,
    /// Print the strings of nodes in place of their tags
    #[arg(long)]
    text: bool,
    /// Show how it would be answered, and do not answer
    #[arg(long)]
    plan: bool,
    /// Memory for a part of the document that has to be seen as a whole
    #[arg(long, default_value = "256MiB", value_parser = crate::command::parse_size, value_name = "SIZE")]
    memory: ByteCount,
}

/// What `query --json` prints.
#[derive(Serialize)]
struct QueryAnswer<'a> {
    name: &'a str,
    /// The expression with abbreviations spelt out.
    expression: String,
    plan: PlanAnswer,
    /// What was found: nodes, a boolean, a number or a string; nothing if only the plan was asked.
    kind: Option<&'static str>,
    /// As text, if it is no nodes.
    value: Option<String>,
    nodes: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct PlanAnswer {
    /// Paths of the elements that are held, one after the other; none for the document as a whole.
    paths: Vec<String>,
    /// How many such elements the document has.
    element_count: u64,
    /// Paths of the elements in which the rest is answered, where these lie in those that are held.
    asked_paths: Vec<String>,
    /// Which of those in one element, counted from 1, if that is one.
    place: Option<u32>,
    /// Which of them, in words; all without it.
    places: Option<String>,
    /// What is answered in each.
    rest: String,
    /// The indexes that have found them; none where the document is read.
    indexes: Vec<String>,
    /// How many elements they have found.
    found_count: Option<u64>,
}

pub(super) fn parse_namespace(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((prefix, uri)) if !prefix.is_empty() => Ok((prefix.to_owned(), uri.to_owned())),
        _ => Err("write PREFIX=URI, such as a=http://www.w3.org/2005/Atom".to_owned()),
    }
}

/// An expression, and what prefixes stand for in it.
pub(super) fn asked(
    expression: &str,
    namespaces: &[(String, String)],
) -> Result<(Expression, Namespaces), Failure> {
    let expression = parse(expression).map_err(|error| Failure::input(error.to_string()))?;
    Ok((expression, namespaces.iter().cloned().collect()))
}

/// Answers an expression.
pub(super) fn run(
    arguments: &QueryArguments,
    name: &str,
    as_json: bool,
    context: &Context,
) -> Result<(), Failure> {
    let (expression, namespaces) = asked(&arguments.expression, &arguments.namespace)?;
    read(&arguments.directory, name, |database, document| {
        let tables = database.read();
        let plan = QueryPlan::new(&expression, document, &namespaces)?;
        let plan = plan.choose(&tables, document, &namespaces)?;
        let shown = shown(&plan, document);
        if arguments.plan && !as_json {
            return tell_plan(&shown, context);
        }
        let mut printer = Printer {
            as_json,
            as_text: arguments.text,
            stream: DataStream::new(context.output),
            bytes: Vec::new(),
            kind: None,
            value: None,
            nodes: Vec::new(),
        };
        if !arguments.plan {
            printer.kind = gives_nodes(&expression).then_some("nodes");
            let limits = QueryLimits { fragment_bytes: to_index(arguments.memory.0) };
            let is_stopped = || context.interrupt.is_set();
            let mut tell = |found: Found<'_>| printer.tell(found);
            let asked = (&namespaces, limits);
            let answered = query(&tables, document, &plan, asked, &is_stopped, &mut tell);
            answered.map_err(|error| match error {
                XmlError::Cancelled => Failure::interrupted("the answer is not whole"),
                error => error.into(),
            })?;
        }
        let Printer { kind, value, nodes, .. } = printer;
        if as_json {
            let expression = expression.to_string();
            let answer = QueryAnswer { name, expression, plan: shown, kind, value, nodes };
            return context.output.json("xml query", &answer);
        }
        Ok(())
    })
}

/// Whether an expression gives nodes, also where it finds none.
const fn gives_nodes(expression: &Expression) -> bool {
    matches!(expression, Expression::Path(_) | Expression::From { .. } | Expression::Union(_))
}

pub(super) fn shown(plan: &QueryPlan, document: &Document) -> PlanAnswer {
    let rest = match plan.fold {
        None => plan.rest.to_string(),
        Some(Fold::Count) => format!("count({})", plan.rest),
        Some(Fold::Sum) => format!("sum({})", plan.rest),
    };
    if plan.holds_document() {
        let [paths, asked_paths, indexes] = [const { Vec::new() }; 3];
        let (place, places, found_count) = (None, None, None);
        return PlanAnswer {
            paths,
            element_count: 1,
            asked_paths,
            place,
            places,
            rest,
            indexes,
            found_count,
        };
    }
    let synopsis = document.synopsis();
    let held = plan.held(document);
    let classes = held.iter().filter_map(|&class| synopsis.get(class));
    let element_count = classes.map(|class| class.node_count).sum();
    let path_of = |class: &ClassId| document.path_of(*class);
    let paths = held.iter().map(path_of).collect();
    let asked_paths = match plan.around.is_empty() {
        true => Vec::new(),
        false => plan.classes.iter().map(path_of).collect(),
    };
    let place = match plan.place {
        Some(Place::Range(first, last)) if first == last => Some(first),
        _ => None,
    };
    let places = plan.place.map(|place| place.to_string());
    let (indexes, found_count) = match &plan.access {
        Access::Scan => (Vec::new(), None),
        Access::Found(found) => {
            let indexes = found.indexes.iter().map(ToString::to_string).collect();
            (indexes, Some(found.labels.len() as u64))
        }
    };
    PlanAnswer { paths, element_count, asked_paths, place, places, rest, indexes, found_count }
}

pub(super) fn tell_plan(plan: &PlanAnswer, context: &Context) -> Result<(), Failure> {
    let output = context.output;
    match plan.paths.as_slice() {
        [] if plan.element_count == 1 => {
            output.line("the document is held in memory as a whole")?;
        }
        [] => output.line("no path of the document fits: nothing is read")?,
        _ if plan.element_count == 0 => {
            output.line("the document has no such element any more: nothing is read")?;
        }
        _ if plan.found_count.is_some() && plan.indexes.is_empty() => {
            output.line("no value of the document fits: nothing is read")?;
        }
        paths => {
            let elements = counted(plan.element_count, "element");
            let line = match plan.found_count {
                None => format!("{elements} held in memory, one after the other:"),
                Some(found) => format!(
                    "{found} of {elements} held in memory, one after the other, found by {}:",
                    plan.indexes.join(" and ")
                ),
            };
            output.line(&line)?;
            for path in paths {
                output.line(&format!("  {path}"))?;
            }
            if let Some(places) = &plan.places {
                output.line(&format!("of those in one element {places}"))?;
            }
            if !plan.asked_paths.is_empty() {
                output.line("asked are those in them of:")?;
            }
            for path in &plan.asked_paths {
                output.line(&format!("  {path}"))?;
            }
        }
    }
    output.line(&format!("in each: {}", plan.rest))
}

/// Prints what is found, or keeps it.
struct Printer {
    as_json: bool,
    as_text: bool,
    stream: DataStream,
    bytes: Vec<u8>,
    kind: Option<&'static str>,
    value: Option<String>,
    nodes: Vec<String>,
}

impl Printer {
    fn tell(&mut self, found: Found<'_>) -> Result<(), XmlError> {
        self.bytes.clear();
        match found {
            Found::Node(fragment, node) => self.put(fragment, node),
            Found::Value(value) => {
                // Values that are no nodes need none to be looked at.
                let text = value.text(&Fragment::default());
                self.bytes.extend_from_slice(text.as_bytes());
                (self.kind, self.value) = (Some(value.label()), Some(text));
            }
        }
        if self.as_json {
            if matches!(found, Found::Node(..)) {
                self.nodes.push(String::from_utf8_lossy(&self.bytes).into_owned());
            }
            return Ok(());
        }
        self.bytes.push(b'\n');
        self.stream.write_all(&self.bytes).map_err(|error| XmlError::Write { error })
    }

    fn put(&mut self, fragment: &Fragment, node: Node) {
        if self.as_text {
            self.bytes.extend_from_slice(fragment.string(node).as_bytes());
        } else {
            write_node(fragment, node, &mut self.bytes);
        }
    }
}
