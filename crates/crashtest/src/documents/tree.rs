//! A document as the crash simulator has it: a tree of elements with keys, what it is as text, and what
//! changes do to it.
//!
//! ```text
//!   <n k="1">value<n k="5"/><n k="2">other</n></n>      a value first, then elements
//! ```
//!
//! 1. Keys are distinct; keys and values are digits, letters and dots, so nothing in the text is escaped.
//! 2. It shares no code with the document that the engine stores.

use nandu_base::{Rng, to_index};

/// An element, and all that is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) children: Vec<Element>,
}

/// Where an element goes that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// Before the first element in another one.
    First,
    /// Behind all that is in another one.
    Last,
    /// Before another one.
    Before,
    /// Behind another one and all that is in it.
    Behind,
}

/// A change. Its element has the key that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Insert { at: String, spot: Spot, element: Element },
    Delete { key: String },
    SetValue { key: String, value: String },
    SetKey { key: String, new: String },
}

/// More elements than these, and changes remove more often.
const ELEMENT_COUNT_MAX: usize = 150;

impl Element {
    pub(crate) fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into(), children: Vec::new() }
    }

    /// It as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        text.push_str("<n k=\"");
        text.push_str(&self.key);
        text.push('"');
        if self.value.is_empty() && self.children.is_empty() {
            text.push_str("/>");
            return;
        }
        text.push('>');
        text.push_str(&self.value);
        self.children.iter().for_each(|child| child.write(text));
        text.push_str("</n>");
    }

    /// The element that a text is; `None` if it is none, or has something behind it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (element, rest) = Self::take(text)?;
        rest.is_empty().then_some(element)
    }

    fn take(text: &str) -> Option<(Self, &str)> {
        let (key, rest) = text.strip_prefix("<n k=\"")?.split_once('"')?;
        if let Some(rest) = rest.strip_prefix("/>") {
            return Some((Self::new(key, ""), rest));
        }
        let rest = rest.strip_prefix('>')?;
        let (value, mut rest) = rest.split_at(rest.find('<')?);
        let mut element = Self::new(key, value);
        loop {
            if let Some(rest) = rest.strip_prefix("</n>") {
                return Some((element, rest));
            }
            let (child, behind) = Self::take(rest)?;
            element.children.push(child);
            rest = behind;
        }
    }

    /// How many elements it is.
    fn count(&self) -> usize {
        1 + self.children.iter().map(Self::count).sum::<usize>()
    }

    /// The key of an element by its number, its own first.
    fn key_at(&self, number: usize) -> Option<&str> {
        if number == 0 {
            return Some(&self.key);
        }
        let mut before = 1;
        for child in &self.children {
            let count = child.count();
            if number < before + count {
                return child.key_at(number - before);
            }
            before += count;
        }
        None
    }

    pub(crate) fn find(&self, key: &str) -> Option<&Self> {
        if self.key == key {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(key))
    }

    fn find_mut(&mut self, key: &str) -> Option<&mut Self> {
        if self.key == key {
            return Some(self);
        }
        self.children.iter_mut().find_map(|child| child.find_mut(key))
    }

    /// The element with a child of this key, and the child's place.
    fn find_parent_mut(&mut self, key: &str) -> Option<(&mut Self, usize)> {
        if let Some(place) = self.children.iter().position(|child| child.key == key) {
            return Some((self, place));
        }
        self.children.iter_mut().find_map(|child| child.find_parent_mut(key))
    }

    /// A change of something below it, never of itself but for what comes into it. New keys begin with its
    /// own key.
    pub(crate) fn draw(&self, rng: &mut Rng, value_bytes_max: u64) -> Edit {
        let count = self.count();
        let at = self.key_at(to_index(rng.below(count as u64))).unwrap_or(&self.key).to_owned();
        let is_itself = at == self.key;
        let key = format!("{}.{:x}", self.key, rng.next_u64());
        let turn = if count > ELEMENT_COUNT_MAX { 5 } else { rng.below(6) };
        match turn {
            3 if !is_itself => Edit::SetValue { key: at, value: value(rng, value_bytes_max) },
            4 if !is_itself => Edit::SetKey { key: at, new: key },
            5 if !is_itself => Edit::Delete { key: at },
            _ => {
                let spots = [Spot::First, Spot::Last, Spot::Before, Spot::Behind];
                let spot = spots[to_index(rng.below(if is_itself { 2 } else { 4 }))];
                let mut element = Element::new(key, value(rng, value_bytes_max));
                for number in 0..rng.below(3) {
                    let key = format!("{}.{number}", element.key);
                    element.children.push(Element::new(key, value(rng, value_bytes_max / 4)));
                }
                Edit::Insert { at, spot, element }
            }
        }
    }

    /// Makes a change. False if there is no such element.
    pub(crate) fn apply(&mut self, edit: &Edit) -> bool {
        self.try_to_apply(edit).is_some()
    }

    fn try_to_apply(&mut self, edit: &Edit) -> Option<()> {
        match edit {
            Edit::SetValue { key, value } => self.find_mut(key)?.value.clone_from(value),
            Edit::SetKey { key, new } => self.find_mut(key)?.key.clone_from(new),
            Edit::Delete { key } => {
                let (parent, place) = self.find_parent_mut(key)?;
                parent.children.remove(place);
            }
            Edit::Insert { at, spot: spot @ (Spot::First | Spot::Last), element } => {
                let parent = self.find_mut(at)?;
                let place = if *spot == Spot::First { 0 } else { parent.children.len() };
                parent.children.insert(place, element.clone());
            }
            Edit::Insert { at, spot, element } => {
                let (parent, place) = self.find_parent_mut(at)?;
                let place = place + usize::from(*spot == Spot::Behind);
                parent.children.insert(place, element.clone());
            }
        }
        Some(())
    }
}

impl Edit {
    /// Bytes that it brings.
    pub(crate) fn byte_count(&self) -> usize {
        match self {
            Self::Insert { element, .. } => element.text().len(),
            Self::SetValue { value, .. } => value.len(),
            Self::SetKey { new, .. } => new.len(),
            Self::Delete { .. } => 0,
        }
    }
}

/// A value of up to so many bytes, some of them none.
fn value(rng: &mut Rng, byte_count_max: u64) -> String {
    let byte_count = rng.below(byte_count_max + 1);
    let letter = |it: u64| char::from(b'a' + u8::try_from(it % 26).unwrap_or(0));
    (0..byte_count).map(|_| letter(rng.next_u64())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_its_text_and_changes_do_what_they_say() {
        let text = "<n k=\"1\">v<n k=\"1.5\"/><n k=\"1.2\">w<n k=\"1.3\">x</n></n></n>";
        let mut tree = Element::parse(text).unwrap();
        assert_eq!(tree.text(), text);
        for (edit, told) in [
            (
                Edit::SetKey { key: "1.5".into(), new: "1.6".into() },
                "<n k=\"1\">v<n k=\"1.6\"/><n k=\"1.2\">w<n k=\"1.3\">x</n></n></n>",
            ),
            (
                Edit::Insert {
                    at: "1.2".into(),
                    spot: Spot::Before,
                    element: Element::new("1.7", ""),
                },
                "<n k=\"1\">v<n k=\"1.6\"/><n k=\"1.7\"/><n k=\"1.2\">w<n k=\"1.3\">x</n></n></n>",
            ),
            (Edit::Delete { key: "1.2".into() }, "<n k=\"1\">v<n k=\"1.6\"/><n k=\"1.7\"/></n>"),
            (
                Edit::SetValue { key: "1.7".into(), value: "y".into() },
                "<n k=\"1\">v<n k=\"1.6\"/><n k=\"1.7\">y</n></n>",
            ),
        ] {
            assert!(tree.apply(&edit));
            assert_eq!(tree.text(), told);
        }
        assert!(!tree.apply(&Edit::Delete { key: "1.2".into() }));
        for text in ["", "<n k=\"1\">", "<n k=\"1\"/>x", "<n k=\"1\"><m/></n>"] {
            assert_eq!(Element::parse(text), None, "{text}");
        }
    }

    #[test]
    fn drawn_changes_can_be_made_and_keys_stay_distinct() {
        let (mut rng, mut tree) = (Rng::new(1), Element::new("0", ""));
        let mut kinds = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let edit = tree.draw(&mut rng, 20);
            kinds.insert(match &edit {
                Edit::Insert { spot, .. } => format!("{spot:?}"),
                Edit::Delete { .. } => "delete".to_owned(),
                Edit::SetValue { .. } => "value".to_owned(),
                Edit::SetKey { .. } => "key".to_owned(),
            });
            assert!(tree.apply(&edit), "{edit:?}");
            assert_eq!(Element::parse(&tree.text()).as_ref(), Some(&tree));
        }
        assert_eq!(kinds.len(), 7, "all changes, at all places: {kinds:?}");
        let mut keys: Vec<&str> = (0..tree.count()).filter_map(|it| tree.key_at(it)).collect();
        assert_eq!(keys.len(), tree.count());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), tree.count());
        assert!(tree.count() <= ELEMENT_COUNT_MAX + 3);
    }
}
