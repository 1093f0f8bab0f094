//! Answers an expression over nodes in memory.
//!
//! 1. Nodes of a value are in the order of the document, each once; so a step costs at most the
//!    nodes times those of the axis.
//! 2. Whoever asks can stop: `look` is called for each step from a node.

use super::fragment::{Fragment, FragmentKind, Node};
use super::functions;
use super::tree::{Axis, Expression, NodeTest, Operator, Path, Step};
use super::value::Value;
use crate::vocabulary::{Name, XML_NAMESPACE};
use std::collections::BTreeMap;

/// What prefixes of an expression stand for.
pub type Namespaces = BTreeMap<String, String>;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The expression asks what is not known here.
    Invalid {
        /// What, and what would do.
        what: String,
    },
    /// Whoever asked wanted to stop.
    Stopped,
}

type Answer<T> = Result<T, Refusal>;

/// An expression that is being answered.
pub(super) struct Question<'q> {
    pub(super) fragment: &'q Fragment,
    namespaces: &'q Namespaces,
    look: &'q dyn Fn() -> bool,
}

/// The node at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub(super) node: Node,
    /// From 1 on.
    pub(super) position: usize,
    pub(super) size: usize,
}

/// Answers `expression` at `node`. `look` says whether to stop.
///
/// # Errors
/// If a prefix stands for nothing, nodes are wanted and the value is none, or `look` says so.
pub fn evaluate(
    expression: &Expression,
    fragment: &Fragment,
    node: Node,
    namespaces: &Namespaces,
    look: &dyn Fn() -> bool,
) -> Answer<Value> {
    let question = Question { fragment, namespaces, look };
    question.value(expression, Context { node, position: 1, size: 1 })
}

/// Names that a step wants: in this namespace, with this rest, any where nothing is said.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameTest<'q> {
    namespace: Option<&'q str>,
    local: Option<&'q str>,
}

impl<'q> NameTest<'q> {
    /// Of a test that is one of names; `None` if it is of other things.
    pub(super) fn of(test: &'q NodeTest, namespaces: &'q Namespaces) -> Answer<Option<Self>> {
        Ok(Some(match test {
            NodeTest::Name(name) => {
                let namespace = match &name.prefix {
                    Some(prefix) => uri_of(namespaces, prefix)?,
                    None => "",
                };
                Self { namespace: Some(namespace), local: Some(&name.local) }
            }
            NodeTest::AnyOf { prefix } => {
                Self { namespace: Some(uri_of(namespaces, prefix)?), local: None }
            }
            NodeTest::AnyName => Self { namespace: None, local: None },
            _ => return Ok(None),
        }))
    }

    /// Whether it is a name that is wanted.
    pub(super) fn fits(&self, name: &Name) -> bool {
        self.local.is_none_or(|local| local == name.local)
            && self.namespace.is_none_or(|namespace| namespace == name.namespace)
    }
}

/// What a prefix stands for.
fn uri_of<'q>(namespaces: &'q Namespaces, prefix: &str) -> Answer<&'q str> {
    match namespaces.get(prefix) {
        Some(uri) => Ok(uri),
        None if prefix == "xml" => Ok(XML_NAMESPACE),
        None => invalid(format!(
            "the prefix {prefix} stands for no namespace; say which with --namespace {prefix}=URI"
        )),
    }
}

pub(super) fn invalid<T>(what: impl Into<String>) -> Answer<T> {
    Err(Refusal::Invalid { what: what.into() })
}

impl Question<'_> {
    pub(super) fn value(&self, expression: &Expression, at: Context) -> Answer<Value> {
        Ok(match expression {
            Expression::Or(operands) => Value::Boolean(self.any(operands, at, true)?),
            Expression::And(operands) => Value::Boolean(!self.any(operands, at, false)?),
            Expression::Compare(first, others) => {
                let mut left = self.value(first, at)?;
                for (comparison, other) in others {
                    let right = self.value(other, at)?;
                    left = Value::Boolean(left.compares(*comparison, &right, self.fragment));
                }
                left
            }
            Expression::Arithmetic(first, others) => {
                let mut left = self.number(first, at)?;
                for (operator, other) in others {
                    left = operator.of(left, self.number(other, at)?);
                }
                Value::Number(left)
            }
            Expression::Negated(operand) => Value::Number(-self.number(operand, at)?),
            Expression::Union(operands) => {
                let mut all = Vec::new();
                for operand in operands {
                    all.extend(self.nodes(operand, at)?);
                }
                Value::Nodes(in_order(all))
            }
            Expression::Path(Path { from_document, steps }) => {
                let start = if *from_document { 0 } else { at.node };
                Value::Nodes(self.steps(vec![start], steps)?)
            }
            Expression::From { start, predicates, steps } => {
                let mut nodes = self.nodes(start, at)?;
                for predicate in predicates {
                    nodes = self.chosen(nodes, predicate)?;
                }
                Value::Nodes(self.steps(nodes, steps)?)
            }
            Expression::Call(function, arguments) => {
                functions::call(self, *function, arguments, at)?
            }
            Expression::Text(text) => Value::Text(text.clone()),
            Expression::Number(number) => Value::Number(*number),
        })
    }

    /// Whether one of them is `wanted`; the others are not looked at then.
    fn any(&self, operands: &[Expression], at: Context, wanted: bool) -> Answer<bool> {
        for operand in operands {
            if self.value(operand, at)?.boolean() == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn number(&self, expression: &Expression, at: Context) -> Answer<f64> {
        Ok(self.value(expression, at)?.number(self.fragment))
    }

    pub(super) fn text(&self, expression: &Expression, at: Context) -> Answer<String> {
        Ok(self.value(expression, at)?.text(self.fragment))
    }

    pub(super) fn nodes(&self, expression: &Expression, at: Context) -> Answer<Vec<Node>> {
        match self.value(expression, at)? {
            Value::Nodes(nodes) => Ok(nodes),
            _ => invalid(format!("{expression} gives no nodes, and nodes are wanted there")),
        }
    }

    fn steps(&self, mut nodes: Vec<Node>, steps: &[Step]) -> Answer<Vec<Node>> {
        for step in steps {
            nodes = self.step(&nodes, step)?;
        }
        Ok(nodes)
    }

    fn step(&self, from: &[Node], step: &Step) -> Answer<Vec<Node>> {
        let is_wanted = self.test(step)?;
        let mut all = Vec::new();
        // Below a node that was below another one there is nothing new.
        let takes_all_below = matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf)
            && step.predicates.is_empty();
        let mut seen = 0;
        for &node in from {
            if (self.look)() {
                return Err(Refusal::Stopped);
            }
            if takes_all_below && !self.is_beside(node) && self.fragment.end(node) <= seen {
                continue;
            }
            let mut found = Vec::new();
            self.along(step.axis, node, &mut |node| {
                if is_wanted(node) {
                    found.push(node);
                }
            });
            for predicate in &step.predicates {
                found = self.chosen(found, predicate)?;
            }
            seen = seen.max(self.fragment.end(node));
            all.append(&mut found);
            // Many nodes may lead to the same ones.
            if all.len() > 2 * self.fragment.node_count() {
                all = in_order(all);
            }
        }
        Ok(in_order(all))
    }

    /// Whether a node lies beside what is in its element.
    fn is_beside(&self, node: Node) -> bool {
        matches!(self.fragment.kind(node), FragmentKind::Attribute | FragmentKind::Namespace)
    }

    /// Of nodes in the order of an axis those of which `predicate` holds.
    fn chosen(&self, nodes: Vec<Node>, predicate: &Expression) -> Answer<Vec<Node>> {
        if let Expression::Number(number) = predicate {
            // Most predicates that are numbers are written as such.
            let is_it = |position: usize| position as f64 == *number;
            let chosen = nodes.into_iter().zip(1..).find(|&(_, position)| is_it(position));
            return Ok(chosen.into_iter().map(|(node, _)| node).collect());
        }
        let size = nodes.len();
        let mut chosen = Vec::new();
        for (node, position) in nodes.into_iter().zip(1..) {
            if (self.look)() {
                return Err(Refusal::Stopped);
            }
            let is_chosen = match self.value(predicate, Context { node, position, size })? {
                Value::Number(number) => number == position as f64,
                value => value.boolean(),
            };
            if is_chosen {
                chosen.push(node);
            }
        }
        Ok(chosen)
    }

    /// Which nodes of an axis a step wants.
    fn test<'s>(&'s self, step: &'s Step) -> Answer<Box<dyn Fn(Node) -> bool + 's>> {
        let fragment = self.fragment;
        let own_kind = match step.axis {
            Axis::Attribute => FragmentKind::Attribute,
            Axis::Namespace => {
                return invalid("the namespace axis is not known here; namespace-uri() is");
            }
            _ => FragmentKind::Element,
        };
        if let Some(names) = NameTest::of(&step.test, self.namespaces)? {
            let is_own = move |node: Node| fragment.kind(node) == own_kind;
            return Ok(Box::new(move |node| is_own(node) && names.fits(fragment.name(node))));
        }
        let is_of = move |kind: FragmentKind| move |node: Node| fragment.kind(node) == kind;
        Ok(match &step.test {
            NodeTest::Text => Box::new(is_of(FragmentKind::Text)),
            NodeTest::Comment => Box::new(is_of(FragmentKind::Comment)),
            NodeTest::Instruction(None) => Box::new(is_of(FragmentKind::Instruction)),
            NodeTest::Instruction(Some(target)) => {
                let is_instruction = is_of(FragmentKind::Instruction);
                Box::new(move |node| is_instruction(node) && *target == fragment.name(node).local)
            }
            _ => Box::new(|_| true),
        })
    }

    /// Tells `tell` the nodes of an axis, in its direction.
    fn along(&self, axis: Axis, node: Node, tell: &mut dyn FnMut(Node)) {
        let fragment = self.fragment;
        let is_beside = |node: Node| fragment.is_beside(node);
        let above =
            |node: Node| std::iter::successors(fragment.parent(node), |&it| fragment.parent(it));
        let siblings = |node: Node| {
            let parent = fragment.parent(node).filter(|_| !is_beside(node));
            parent.map(|parent| fragment.children(parent)).into_iter().flatten()
        };
        let all = 0..u32::try_from(fragment.node_count()).unwrap_or(u32::MAX);
        match axis {
            Axis::SelfNode => tell(node),
            Axis::Parent => fragment.parent(node).into_iter().for_each(tell),
            Axis::Ancestor => above(node).for_each(tell),
            Axis::AncestorOrSelf => {
                tell(node);
                above(node).for_each(tell);
            }
            Axis::Attribute => fragment.attributes(node).for_each(tell),
            Axis::Namespace => {}
            Axis::Child => fragment.children(node).for_each(tell),
            Axis::Descendant | Axis::DescendantOrSelf => {
                if axis == Axis::DescendantOrSelf {
                    tell(node);
                }
                (node + 1..fragment.end(node)).filter(|&it| !is_beside(it)).for_each(tell);
            }
            Axis::Following => {
                // What is in its element follows an attribute.
                let begin = if is_beside(node) { node + 1 } else { fragment.end(node) };
                (begin..all.end).filter(|&it| !is_beside(it)).for_each(tell);
            }
            Axis::FollowingSibling => {
                siblings(node).filter(|&it| it > node).for_each(tell);
            }
            Axis::Preceding => {
                (1..node)
                    .rev()
                    .filter(|&it| !is_beside(it) && fragment.end(it) <= node)
                    .for_each(tell);
            }
            Axis::PrecedingSibling => {
                let before: Vec<Node> = siblings(node).take_while(|&it| it < node).collect();
                before.into_iter().rev().for_each(tell);
            }
        }
    }
}

/// In the order of the document, each once.
fn in_order(mut nodes: Vec<Node>) -> Vec<Node> {
    if !nodes.is_sorted_by(|left, right| left < right) {
        nodes.sort_unstable();
        nodes.dedup();
    }
    nodes
}

impl Operator {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Plus => left + right,
            Self::Minus => left - right,
            Self::Times => left * right,
            Self::Divided => left / right,
            Self::Remainder => left % right,
        }
    }
}
