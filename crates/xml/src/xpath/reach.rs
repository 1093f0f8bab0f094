//! In which elements all lies that steps look at, by the paths of the document: what is above a node or beside
//! it lies in an element above it, and its path says which these are.
//!
//! ```text
//!   //item/ancestor::order/@id         items are /shop/order/item and /shop/stock/item
//!                                      above them are /shop/order, and no order above the others
//! ```
//!
//! 1. Each element is looked at together with the outermost one of these that it is in. What a step up wants is
//!    that one or in it, so places are counted as in the document.
//! 2. Of nodes that are no elements no path is told but by the one above: steps from these are known only if
//!    they stay below.

use super::evaluate::{NameTest, Namespaces};
use super::plan::{asks_below, leads_to_elements, next_classes, refused, stays_below};
use super::tree::{Axis, Expression, Function, NodeTest, Step};
use crate::document::Document;
use crate::error::XmlError;
use crate::synopsis::ClassId;
use std::collections::BTreeSet;

type Classes = BTreeSet<ClassId>;

/// The classes of elements in which all lies that steps from elements of these classes look at, beside these
/// themselves; `None` if that is not known or it is the document.
pub(super) fn around(
    steps: &[Step],
    from: &Classes,
    document: &Document,
    namespaces: &Namespaces,
) -> Result<Option<Classes>, XmlError> {
    let mut reach = Reach { document, namespaces, around: Classes::new() };
    let is_known = reach.steps(steps, from)? && !reach.around.contains(&ClassId::DOCUMENT);
    Ok(is_known.then_some(reach.around))
}

struct Reach<'r> {
    document: &'r Document,
    namespaces: &'r Namespaces,
    around: Classes,
}

impl Reach<'_> {
    /// Notes what steps from elements look at; false if that is not known.
    fn steps(&mut self, steps: &[Step], from: &Classes) -> Result<bool, XmlError> {
        let mut from = from.clone();
        for (place, step) in steps.iter().enumerate() {
            if stays_below(&steps[place..], 0) {
                return Ok(true);
            }
            let plain = Step { predicates: Vec::new(), ..step.clone() };
            from = match step.axis {
                Axis::Parent | Axis::Ancestor | Axis::AncestorOrSelf => {
                    let above = self.above(&from, (step.axis, &step.test))?;
                    self.around.extend(&above);
                    above
                }
                Axis::FollowingSibling | Axis::PrecedingSibling => {
                    let above = self.above(&from, (Axis::Parent, &NodeTest::Node))?;
                    self.around.extend(&above);
                    let beside = Step { axis: Axis::Child, ..plain };
                    if !leads_to_elements(&beside) {
                        let asks = |it: &Expression| asks_below(it, 0);
                        return Ok(
                            step.predicates.iter().all(asks) && stays_below(&steps[place + 1..], 0)
                        );
                    }
                    next_classes(&above, &beside, self.document, self.namespaces)?
                }
                Axis::SelfNode => self.named(&from, &step.test)?,
                _ if leads_to_elements(step) => {
                    next_classes(&from, &plain, self.document, self.namespaces)?
                }
                _ => return Ok(false),
            };
            for predicate in &step.predicates {
                if !self.asks(predicate, &from)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The same of what an expression asks at elements.
    fn asks(&mut self, expression: &Expression, at: &Classes) -> Result<bool, XmlError> {
        let is_known = match expression {
            Expression::Path(path) => !path.from_document && self.steps(&path.steps, at)?,
            Expression::From { predicates, steps, .. } => {
                predicates.iter().all(|predicate| asks_below(predicate, 0)) && stays_below(steps, 0)
            }
            // The language is that of an element above.
            Expression::Call(function, _) => *function != Function::Lang,
            _ => true,
        };
        for operand in expression.operands() {
            if !is_known || !self.asks(operand, at)? {
                return Ok(false);
            }
        }
        Ok(is_known)
    }

    /// The classes above these to which an axis leads.
    fn above(&self, from: &Classes, (axis, test): (Axis, &NodeTest)) -> Result<Classes, XmlError> {
        let synopsis = self.document.synopsis();
        let mut above = Classes::new();
        for &class in from {
            if axis == Axis::AncestorOrSelf {
                above.insert(class);
            }
            let mut at = class;
            while let Some(own) = synopsis.get(at).filter(|_| at != ClassId::DOCUMENT) {
                at = own.parent;
                above.insert(at);
                if axis == Axis::Parent {
                    break;
                }
            }
        }
        self.named(&above, test)
    }

    /// Those of these classes of elements, or of the document, that a test wants.
    fn named(&self, classes: &Classes, test: &NodeTest) -> Result<Classes, XmlError> {
        let (synopsis, vocabulary) = (self.document.synopsis(), self.document.vocabulary());
        let Some(names) = NameTest::of(test, self.namespaces).map_err(refused)? else {
            let is_any = *test == NodeTest::Node;
            return Ok(if is_any { classes.clone() } else { Classes::new() });
        };
        let is_wanted = |class: &ClassId| {
            let class = synopsis.get(*class).filter(|class| class.kind.is_element());
            let name = class.and_then(|class| vocabulary.get(class.name));
            name.is_some_and(|name| names.fits(name))
        };
        Ok(classes.iter().copied().filter(is_wanted).collect())
    }
}
