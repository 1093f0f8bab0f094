//! How an expression is answered over a stored document: what can be is answered part by part.
//!
//! ```text
//!   /bib//book[@year > 1990]/title
//!   └─ front ─┘└──── rest ───────┘
//!
//!   front   steps down by names alone      ─► classes of the synopsis, before anything is read
//!   rest    answered in each element of these classes, with what is below it in memory
//!   fold    of a count or a sum: what becomes of the parts of the answer
//! ```
//!
//! 1. The front has steps to elements without predicates, as many as may be; the rest looks at nothing
//!    that is not the element or below it. Where that cannot be, but the synopsis says in which elements all
//!    lies that the rest looks at (`reach`), these are held. Else the document is.
//! 2. Where some of those in one element are asked for by their place, they are counted as they are read.

use super::choose::FoundElements;
use super::evaluate::{NameTest, Namespaces, Refusal};
use super::reach;
use super::tree::{Axis, Comparison, Expression, Function, NodeTest, Path, Step};
use crate::document::Document;
use crate::error::XmlError;
use crate::synopsis::ClassId;
use crate::vocabulary::NameId;
use std::collections::BTreeSet;
use std::fmt;

/// How an expression is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// Classes of the elements in which the rest is answered; the document's for all of it.
    pub classes: BTreeSet<ClassId>,
    /// Classes of elements around or above these that the rest looks at: each element is held with the
    /// outermost of these that it is in.
    pub around: BTreeSet<ClassId>,
    /// Which of those in one element; all without it.
    pub place: Option<Place>,
    /// What is answered in each of them.
    pub rest: Expression,
    /// What all answers are added up to, if nodes are not what is asked for.
    pub fold: Option<Fold>,
    /// How the elements are found.
    pub access: Access,
}

/// Places among the elements of a plan that lie in one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// From one to another, both counted from 1 and included.
    Range(u32, u32),
    /// The last one.
    Last,
}

/// What becomes of nodes that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// How many there are.
    Count,
    /// The sum of their numbers.
    Sum,
}

/// How elements are found in which an expression is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// All of the document is read.
    Scan,
    /// Indexes have found them, or the document has none.
    Found(FoundElements),
}

impl QueryPlan {
    /// A plan for `expression` over a document with this synopsis.
    ///
    /// # Errors
    /// If a prefix stands for no namespace.
    pub fn new(
        expression: &Expression,
        document: &Document,
        namespaces: &Namespaces,
    ) -> Result<Self, XmlError> {
        let (path, fold) = match expression {
            Expression::Path(path) => (path, None),
            Expression::Call(function, arguments) => match (function, &arguments[..]) {
                (Function::Count, [Expression::Path(path)]) => (path, Some(Fold::Count)),
                (Function::Sum, [Expression::Path(path)]) => (path, Some(Fold::Sum)),
                _ => return Ok(Self::whole(expression.clone())),
            },
            _ => return Ok(Self::whole(expression.clone())),
        };
        if !path.from_document {
            return Ok(Self::whole(expression.clone()));
        }
        // Where several paths are asked for, the last ones may lie in one another.
        let is_known = |plan: &Self| plan.place != Some(Place::Last) || plan.classes.len() <= 1;
        for has_place in [true, false] {
            let Some(divided) = divided(&path.steps, has_place) else { continue };
            let plan = Self::of(divided, fold, document, namespaces)?;
            if is_known(&plan) {
                return Ok(plan);
            }
        }
        let plan = Self::looking_around(&path.steps, fold, document, namespaces)?;
        Ok(plan.unwrap_or_else(|| Self::whole(expression.clone())))
    }

    fn of(
        divided: Divided,
        fold: Option<Fold>,
        document: &Document,
        namespaces: &Namespaces,
    ) -> Result<Self, XmlError> {
        let Divided { front, place, rest } = divided;
        let mut classes = BTreeSet::from([ClassId::DOCUMENT]);
        for step in &front {
            classes = next_classes(&classes, step, document, namespaces)?;
        }
        let rest = Expression::Path(Path { from_document: false, steps: rest });
        let (around, access) = (BTreeSet::new(), Access::Scan);
        Ok(Self { classes, around, place, rest, fold, access })
    }

    /// A plan where the rest looks up or beside, if it is known in which elements all of that lies.
    fn looking_around(
        steps: &[Step],
        fold: Option<Fold>,
        document: &Document,
        namespaces: &Namespaces,
    ) -> Result<Option<Self>, XmlError> {
        let plain_count = steps.iter().take_while(|step| is_front(step)).count();
        let own = steps.get(plain_count).filter(|step| leads_to_elements(step));
        let length = plain_count + usize::from(own.is_some());
        let predicates = own.map_or(&[][..], |own| &own.predicates);
        let is_to_elements = length > 0 && leads_to_elements(&steps[length - 1]);
        if !is_to_elements || predicates.iter().any(is_by_place) {
            return Ok(None);
        }
        let (axis, test, predicates) = (Axis::SelfNode, NodeTest::Node, predicates.to_vec());
        let mut rest = vec![Step { axis, test, predicates }];
        rest.extend_from_slice(&steps[length..]);
        let front = steps[..length].iter().map(alone).collect();
        let mut plan = Self::of(Divided { front, place: None, rest }, fold, document, namespaces)?;
        let Expression::Path(path) = &plan.rest else { return Ok(None) };
        let around = reach::around(&path.steps, &plan.classes, document, namespaces)?;
        let Some(around) = around else { return Ok(None) };
        plan.around = around;
        // With the outermost element in memory it is the document that is held.
        let level_of = |class: &ClassId| document.synopsis().get(*class).map(|class| class.level);
        let is_whole = plan.around.iter().any(|class| level_of(class).is_none_or(|it| it <= 1));
        Ok((!is_whole).then_some(plan))
    }

    fn whole(rest: Expression) -> Self {
        let (classes, access) = (BTreeSet::from([ClassId::DOCUMENT]), Access::Scan);
        Self { classes, around: BTreeSet::new(), place: None, rest, fold: None, access }
    }

    /// Whether elements of a class are held with all in them, wherever they are not in another such one.
    #[must_use]
    pub fn holds(&self, class: ClassId) -> bool {
        self.classes.contains(&class) || self.around.contains(&class)
    }

    /// The classes of elements that are held: those in which the rest is answered, or what they lie in.
    #[must_use]
    pub fn held(&self, document: &Document) -> BTreeSet<ClassId> {
        let is_inside = |class: ClassId| {
            let parent = |class: ClassId| document.synopsis().get(class).map(|it| it.parent);
            let above = std::iter::successors(parent(class), |&class| {
                parent(class).filter(|_| class != ClassId::DOCUMENT)
            });
            above.into_iter().any(|class| self.around.contains(&class))
        };
        let all = self.classes.iter().chain(&self.around).copied();
        all.filter(|&class| !is_inside(class)).collect()
    }

    /// Whether all of the document is held in memory.
    #[must_use]
    pub fn holds_document(&self) -> bool {
        self.classes.contains(&ClassId::DOCUMENT)
    }
}

/// The steps of a path, in two parts.
struct Divided {
    front: Vec<Step>,
    /// Which of the elements that the last step of the front finds in one.
    place: Option<Place>,
    rest: Vec<Step>,
}

/// The most steps that lead to classes, the last of them to those of elements, so that what is left can
/// be asked of each of these; and what is left. `None` if there are none. Of places it may know, or not.
fn divided(steps: &[Step], has_place: bool) -> Option<Divided> {
    let plain_count = steps.iter().take_while(|step| is_front(step)).count();
    // What is asked of the elements to which a step leads can be asked of each alone.
    let own = steps.get(plain_count).filter(|step| leads_to_elements(step));
    let own = own.map(|step| placed(step, has_place));
    let own = own.filter(|(_, predicates)| !predicates.iter().any(is_by_place));
    for length in (1..=plain_count + usize::from(own.is_some())).rev() {
        if !leads_to_elements(&steps[length - 1]) {
            continue;
        }
        let (mut place, mut rest) = (None, Vec::new());
        if let Some((its_place, predicates)) = own.filter(|_| length > plain_count) {
            let (axis, test, predicates) = (Axis::SelfNode, NodeTest::Node, predicates.to_vec());
            rest.push(Step { axis, test, predicates });
            place = its_place;
        }
        rest.extend_from_slice(&steps[length..]);
        if stays_below(&rest, 0) {
            let front = steps[..length].iter().map(alone).collect();
            return Some(Divided { front, place, rest });
        }
    }
    None
}

/// A step without what is asked of its nodes.
fn alone(step: &Step) -> Step {
    Step { predicates: Vec::new(), ..step.clone() }
}

/// The places that the first predicate of a step asks for, if they are those of children and compared with
/// a number; and the other predicates.
fn placed(step: &Step, has_place: bool) -> (Option<Place>, &[Expression]) {
    let first = step.predicates.split_first();
    let first = first.filter(|_| has_place && step.axis == Axis::Child);
    match first.and_then(|(first, others)| Some((Place::of(first)?, others))) {
        Some((place, others)) => (Some(place), others),
        None => (None, &step.predicates),
    }
}

impl Place {
    /// What a predicate asks for, if it is places alone.
    fn of(predicate: &Expression) -> Option<Self> {
        let is_call = |expression: &Expression, wanted: Function| matches!(expression, Expression::Call(function, _) if *function == wanted);
        let position = |expression: &Expression| is_call(expression, Function::Position);
        match predicate {
            Expression::Number(number) => Self::compared(Comparison::Equal, *number),
            last if is_call(last, Function::Last) => Some(Self::Last),
            Expression::Compare(left, others) => match (&**left, &others[..]) {
                (left, [(comparison, Expression::Number(number))]) if position(left) => {
                    Self::compared(*comparison, *number)
                }
                (Expression::Number(number), [(comparison, right)]) if position(right) => {
                    Self::compared(comparison.turned(), *number)
                }
                (left, [(Comparison::Equal, right)])
                    if position(left) && is_call(right, Function::Last)
                        || position(right) && is_call(left, Function::Last) =>
                {
                    Some(Self::Last)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Places that compare so with a number. Of numbers that are far away all may be held.
    fn compared(comparison: Comparison, number: f64) -> Option<Self> {
        let whole = number.to_string().parse::<u32>().ok().filter(|&it| it < u32::MAX)?;
        Some(match comparison {
            Comparison::Equal => Self::Range(whole, whole),
            Comparison::Less => Self::Range(1, whole.checked_sub(1)?),
            Comparison::LessOrEqual => Self::Range(1, whole),
            Comparison::Greater => Self::Range(whole + 1, u32::MAX),
            Comparison::GreaterOrEqual => Self::Range(whole, u32::MAX),
            Comparison::Unequal => return None,
        })
    }

    /// Whether the element that is the so many-th may be one of them.
    pub(super) const fn has(self, count: u32) -> bool {
        match self {
            Self::Range(first, last) => first <= count && count <= last,
            Self::Last => true,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Range(first, last) if first == last => write!(formatter, "number {first} alone"),
            Self::Range(first, u32::MAX) => write!(formatter, "those from number {first} on"),
            Self::Range(first, last) => write!(formatter, "numbers {first} to {last}"),
            Self::Last => formatter.write_str("the last one"),
        }
    }
}

/// Whether a step leads down by names alone, or is that of `//`.
fn is_front(step: &Step) -> bool {
    let is_anywhere = step.axis == Axis::DescendantOrSelf && step.test == NodeTest::Node;
    (is_anywhere || leads_to_elements(step)) && step.predicates.is_empty()
}

/// Whether a step leads down to elements.
pub(super) const fn leads_to_elements(step: &Step) -> bool {
    matches!(step.axis, Axis::Child | Axis::Descendant)
        && matches!(step.test, NodeTest::Name(_) | NodeTest::AnyName | NodeTest::AnyOf { .. })
}

/// Whether a predicate may ask for the place among the nodes of a step. Predicates of a path in it count
/// the nodes of that path's own steps.
fn is_by_place(predicate: &Expression) -> bool {
    fn tells_place(expression: &Expression) -> bool {
        matches!(expression, Expression::Call(Function::Position | Function::Last, _))
            || expression.operands().into_iter().any(tells_place)
    }
    predicate.is_number() || tells_place(predicate)
}

/// Whether steps, and what their predicates ask, stay at an element or below it, from nodes that are so
/// many levels below it at least.
pub(super) fn stays_below(steps: &[Step], mut level: usize) -> bool {
    steps.iter().all(|step| {
        let next = match step.axis {
            Axis::Attribute | Axis::Child | Axis::Descendant => Some(level + 1),
            Axis::DescendantOrSelf | Axis::SelfNode => Some(level),
            Axis::Parent => level.checked_sub(1),
            Axis::FollowingSibling | Axis::PrecedingSibling => Some(level).filter(|&it| it > 0),
            _ => None,
        };
        level = next.unwrap_or(0);
        next.is_some() && step.predicates.iter().all(|predicate| asks_below(predicate, level))
    })
}

/// Whether an expression asks nothing of what is not at an element or below it, at a node so many levels
/// below it at least.
pub(super) fn asks_below(expression: &Expression, level: usize) -> bool {
    let is_below = match expression {
        Expression::Path(path) => !path.from_document && stays_below(&path.steps, level),
        // How deep nodes are at which it begins is not known.
        Expression::From { predicates, steps, .. } => {
            predicates.iter().all(|predicate| asks_below(predicate, 0)) && stays_below(steps, 0)
        }
        // The language is that of an element above.
        Expression::Call(function, _) => *function != Function::Lang,
        _ => true,
    };
    is_below && expression.operands().into_iter().all(|operand| asks_below(operand, level))
}

/// The classes to which a step of a front leads.
pub(super) fn next_classes(
    from: &BTreeSet<ClassId>,
    step: &Step,
    document: &Document,
    namespaces: &Namespaces,
) -> Result<BTreeSet<ClassId>, XmlError> {
    let (synopsis, vocabulary) = (document.synopsis(), document.vocabulary());
    let names = NameTest::of(&step.test, namespaces).map_err(refused)?;
    let is_named = |id: NameId| {
        names.is_none_or(|names| vocabulary.get(id).is_some_and(|name| names.fits(name)))
    };
    let mut next = BTreeSet::new();
    let mut is_below = vec![false; synopsis.classes().len()];
    for (class, id) in synopsis.classes().iter().zip(0_u32..) {
        let (id, parent) = (ClassId(id), class.parent);
        let is_start = from.contains(&id);
        // Classes come after the one above.
        let below_parent = id != ClassId::DOCUMENT && is_below[parent.0 as usize];
        is_below[id.0 as usize] = is_start || below_parent;
        let is_reached = match step.axis {
            Axis::Child => id != ClassId::DOCUMENT && from.contains(&parent),
            Axis::Descendant => below_parent,
            _ => is_start || below_parent,
        };
        let is_element = class.kind.is_element();
        let fits = match step.axis {
            Axis::DescendantOrSelf => is_element || is_start,
            _ => is_element && is_named(class.name),
        };
        if is_reached && fits {
            next.insert(id);
        }
    }
    Ok(next)
}

pub(super) fn refused(refusal: Refusal) -> XmlError {
    match refusal {
        Refusal::Invalid { what } => XmlError::Invalid { what },
        Refusal::Stopped => XmlError::Cancelled,
    }
}
