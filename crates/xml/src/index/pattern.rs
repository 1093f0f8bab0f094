//! Which paths an index has: a path of names down from the document, as XPath writes it, and which
//! classes of a document it leads to.
//!
//! ```text
//!   //order/@id        steps   descendant order, attribute id
//!
//!   class              here: steps that end here      above: those that end here or above
//!   document           0                              0
//!   /shop              –                              0
//!   /shop/order        1                              0 1
//!   /shop/order/@id    2, the last: it is one
//! ```
//!
//! 1. What a class is reached by follows from the class above it and its own name, so a class that
//!    is new costs as much as the pattern has steps.

use crate::error::XmlError;
use crate::synopsis::{ClassId, PathClass, StepKind, Synopsis};
use crate::vocabulary::{Name, Vocabulary, XML_NAMESPACE};
use crate::xpath::{Axis, Expression, Namespaces, NodeTest, parse};

/// How many steps a pattern has at most: a bit each, and one for the beginning.
const STEP_COUNT_MAX: usize = 63;

/// A path of names down from the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    steps: Vec<PatternStep>,
    /// What its prefixes stand for.
    namespaces: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PatternStep {
    /// Whether there may be elements in between.
    is_anywhere: bool,
    kind: StepKind,
    /// Any, if there is none.
    namespace: Option<String>,
    local: Option<String>,
}

/// Which steps of a pattern lead to a class, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    here: u64,
    above: u64,
}

impl PathPattern {
    /// The pattern that a text is: names, `*` and `prefix:*` after `/` or `//`, in the end perhaps an
    /// attribute.
    ///
    /// # Errors
    /// If it is none, or a prefix stands for no namespace.
    pub fn parse(text: &str, namespaces: &Namespaces) -> Result<Self, XmlError> {
        let refused = |what: String| XmlError::Invalid { what: format!("{text}: {what}") };
        let expression = parse(text).map_err(|error| refused(error.to_string()))?;
        let path = match expression {
            Expression::Path(path) if path.from_document && !path.steps.is_empty() => path,
            _ => return Err(refused("write a path from the document, such as //order/@id".into())),
        };
        let mut pattern =
            Self { text: text.trim().to_owned(), steps: Vec::new(), namespaces: Vec::new() };
        let mut is_anywhere = false;
        let count = path.steps.len();
        for (place, step) in path.steps.into_iter().enumerate() {
            let is_last = place + 1 == count;
            let (axis, test) = (step.axis, step.test);
            if !step.predicates.is_empty() {
                return Err(refused("a path of an index has no predicates".into()));
            }
            if axis == Axis::DescendantOrSelf && test == NodeTest::Node && !is_last {
                is_anywhere = true;
                continue;
            }
            let kind = match axis {
                Axis::Child | Axis::Descendant => StepKind::Element,
                Axis::Attribute if is_last => StepKind::Attribute,
                _ => {
                    return Err(refused(
                        "steps are /name, //name and, as the last one, @name".into(),
                    ));
                }
            };
            is_anywhere |= axis == Axis::Descendant;
            let (namespace, local) = pattern.names(test, namespaces).map_err(refused)?;
            pattern.steps.push(PatternStep { is_anywhere, kind, namespace, local });
            is_anywhere = false;
        }
        if pattern.steps.len() > STEP_COUNT_MAX {
            return Err(refused(format!("it has more than {STEP_COUNT_MAX} steps")));
        }
        Ok(pattern)
    }

    /// The namespace and the rest of the name that a test wants; notes what its prefix stands for.
    fn names(
        &mut self,
        test: NodeTest,
        namespaces: &Namespaces,
    ) -> Result<(Option<String>, Option<String>), String> {
        let mut namespace_of = |prefix: String| match namespaces.get(&prefix) {
            Some(uri) => {
                if !self.namespaces.iter().any(|(known, _)| *known == prefix) {
                    self.namespaces.push((prefix, uri.clone()));
                }
                Ok(uri.clone())
            }
            // What it stands for is fixed, so it is known to whoever reads the definition again.
            None if prefix == "xml" => Ok(XML_NAMESPACE.to_owned()),
            None => Err(format!(
                "the prefix {prefix} stands for no namespace; say which with --namespace {prefix}=URI"
            )),
        };
        match test {
            NodeTest::Name(name) => {
                let namespace = name.prefix.map_or(Ok(String::new()), &mut namespace_of)?;
                Ok((Some(namespace), Some(name.local)))
            }
            NodeTest::AnyOf { prefix } => Ok((Some(namespace_of(prefix)?), None)),
            NodeTest::AnyName => Ok((None, None)),
            _ => Err("steps are names".to_owned()),
        }
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What its prefixes stand for.
    #[must_use]
    pub fn namespaces(&self) -> &[(String, String)] {
        &self.namespaces
    }

    /// Whether it leads to attributes.
    #[must_use]
    pub fn is_of_attributes(&self) -> bool {
        self.steps.last().is_some_and(|step| step.kind == StepKind::Attribute)
    }

    /// Whether two lead to the same, however they are written.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.steps == other.steps
    }

    /// Which steps lead to the document.
    pub(super) const fn at_document() -> Reach {
        Reach { here: 1, above: 1 }
    }

    /// Which steps lead to a class below one that others lead to.
    pub(super) fn below(&self, parent: Reach, kind: StepKind, name: &Name) -> Reach {
        let mut here = 0;
        for (place, step) in self.steps.iter().enumerate() {
            let from = if step.is_anywhere { parent.above } else { parent.here };
            let is_named = step.local.as_ref().is_none_or(|local| *local == name.local)
                && step.namespace.as_ref().is_none_or(|namespace| *namespace == name.namespace);
            let is_of_kind = step.kind == kind || (step.kind.is_element() && kind.is_element());
            if from & (1 << place) != 0 && is_of_kind && is_named {
                here |= 2 << place;
            }
        }
        Reach { here, above: parent.above | here }
    }

    /// Whether the whole pattern leads to a class.
    pub(super) fn leads_to(&self, reach: Reach) -> bool {
        reach.here & (1 << self.steps.len()) != 0
    }
}

/// Which of several patterns lead to which classes of a document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    patterns: Vec<PathPattern>,
    /// For each class, one for each pattern.
    reaches: Vec<Reach>,
    /// For each class a bit for each pattern that leads to it.
    masks: Vec<u64>,
}

impl Coverage {
    /// Of these patterns, 64 at most, with no classes but the document's.
    pub(crate) fn new(patterns: Vec<PathPattern>) -> Self {
        let reaches = vec![PathPattern::at_document(); patterns.len()];
        Self { patterns, reaches, masks: vec![0] }
    }

    /// Of these patterns over a document's classes.
    pub(crate) fn of(
        patterns: Vec<PathPattern>,
        synopsis: &Synopsis,
        vocabulary: &Vocabulary,
    ) -> Self {
        let mut coverage = Self::new(patterns);
        coverage.extend(synopsis, vocabulary);
        coverage
    }

    /// Takes classes that are new.
    pub(crate) fn extend(&mut self, synopsis: &Synopsis, vocabulary: &Vocabulary) {
        let no_name = Name::default();
        let count = self.patterns.len();
        for class in synopsis.classes().iter().skip(self.masks.len()) {
            let PathClass { parent, kind, name, .. } = *class;
            let name = vocabulary.get(name).unwrap_or(&no_name);
            let above = parent.0 as usize * count;
            let mut mask = 0;
            for (place, pattern) in self.patterns.iter().enumerate() {
                let reach = pattern.below(self.reaches[above + place], kind, name);
                self.reaches.push(reach);
                mask |= u64::from(pattern.leads_to(reach)) << place;
            }
            self.masks.push(mask);
        }
    }

    /// How many classes are known.
    #[inline]
    pub(crate) fn class_count(&self) -> usize {
        self.masks.len()
    }

    /// A bit for each pattern that leads to a class.
    #[inline]
    pub(crate) fn mask(&self, class: ClassId) -> u64 {
        self.masks.get(class.0 as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document with these paths, each class below the one of a number.
    fn document(paths: &[(u32, StepKind, &str)]) -> (Synopsis, Vocabulary) {
        let (mut synopsis, mut vocabulary) = (Synopsis::default(), Vocabulary::default());
        for &(parent, kind, name) in paths {
            let (namespace, local) = name.split_once('|').unwrap_or(("", name));
            let (prefix, namespace) = (String::new(), namespace.to_owned());
            let id = vocabulary.id_of(Name { prefix, local: local.to_owned(), namespace });
            synopsis.step(ClassId(parent), kind, id).unwrap();
        }
        (synopsis, vocabulary)
    }

    #[test]
    fn patterns_lead_to_the_classes_that_expressions_would() {
        let (element, attribute) = (StepKind::Element, StepKind::Attribute);
        let (synopsis, vocabulary) = document(&[
            (0, element, "a"),
            (1, element, "b"),
            (2, element, "a"),
            (3, attribute, "id"),
            (3, element, "b"),
            (1, attribute, "id"),
            (5, element, "urn:x|c"),
            (5, StepKind::Namespace, "id"),
            (1, attribute, "http://www.w3.org/XML/1998/namespace|lang"),
        ]);
        let namespaces = Namespaces::from([("x".to_owned(), "urn:x".to_owned())]);
        for (text, classes) in [
            ("/a", &[1][..]),
            ("//a", &[1, 3]),
            ("/a/b", &[2]),
            ("//a/b", &[2, 5]),
            ("/a//b", &[2, 5]),
            ("/a/descendant::b", &[2, 5]),
            ("//b//a", &[3]),
            ("//@id", &[4, 6]),
            ("//a/@*", &[4, 6, 9]),
            ("/a/b//@id", &[4]),
            ("/*/*", &[2]),
            ("//*", &[1, 2, 3, 5, 7]),
            ("//x:c", &[7]),
            ("//x:*", &[7]),
            ("//@xml:lang", &[9]),
            ("//c", &[]),
            ("/b", &[]),
        ] {
            let pattern = PathPattern::parse(text, &namespaces).unwrap();
            assert_eq!(pattern.is_of_attributes(), text.contains('@'));
            let coverage = Coverage::of(vec![pattern], &synopsis, &vocabulary);
            let found: Vec<u32> = (0..10).filter(|&id| coverage.mask(ClassId(id)) == 1).collect();
            assert_eq!(found, classes, "{text}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (text, word) in [
            ("a/b", "path from the document"),
            ("/", "path from the document"),
            ("1 + 1", "path from the document"),
            ("//a[1]", "no predicates"),
            ("//a/@b/c", "as the last one"),
            ("//a/..", "as the last one"),
            ("//a/text()", "steps are names"),
            ("//x:a", "--namespace x=URI"),
            ("//a[", "column"),
        ] {
            let error = PathPattern::parse(text, &Namespaces::new()).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        let long = "/a".repeat(64);
        assert!(PathPattern::parse(&long, &Namespaces::new()).is_err());
        assert!(PathPattern::parse(&long[2..], &Namespaces::new()).is_ok());
    }
}
