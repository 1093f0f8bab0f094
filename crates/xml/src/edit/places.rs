//! Where things are: neighbours of a place, classes and prefixes there, labels for what is new.

use super::region::{Kept, Region};
use super::{Editor, Spot, invalid, is_in};
use crate::document::{Document, DocumentNames};
use crate::error::XmlError;
use crate::label::crowd::Crowd;
use crate::label::{LABEL_BYTES_MAX, Label, LabelError};
use crate::record::NodeKind;
use crate::synopsis::ClassId;
use nandu_storage::database::{Around, EntryScan};

impl Editor<'_, '_> {
    /// The element that a place is in, and the nodes on both sides of it.
    pub(super) fn neighbours(
        &self,
        spot: &Spot,
    ) -> Result<(Label, Option<Label>, Option<Label>), XmlError> {
        let (parent, left, right) = match spot {
            Spot::FirstIn(parent) => {
                let mut behind_attributes = parent.as_bytes().to_vec();
                behind_attributes.push(0x02);
                (parent.clone(), None, self.child_from(parent, &behind_attributes)?)
            }
            Spot::LastIn(parent) => {
                (parent.clone(), self.child_before(parent, &parent.end())?, None)
            }
            Spot::Before(node) => {
                let parent = self.parent_of(node)?;
                let left = self.child_before(&parent, node.as_bytes())?;
                (parent, left, Some(node.clone()))
            }
            Spot::Behind(node) => {
                let parent = self.parent_of(node)?;
                let right = self.child_from(&parent, &node.end())?;
                (parent, Some(node.clone()), right)
            }
        };
        if parent == Label::document() {
            return Err(invalid("nothing can be inserted beside the outermost element"));
        }
        Ok((parent, left, right))
    }

    /// The parent of a node that is there and no attribute.
    fn parent_of(&self, node: &Label) -> Result<Label, XmlError> {
        let found = self.record_from(node.as_bytes())?;
        let is_there = found.is_some_and(|kept| {
            kept.label == node.as_bytes() || is_in(node.as_bytes(), &kept.label)
        });
        match node.parent().filter(|_| is_there && !node.is_attribute()) {
            Some(parent) => Ok(parent),
            None => Err(invalid("there is no such node, or it is an attribute")),
        }
    }

    /// The last child of a node before a place.
    fn child_before(&self, parent: &Label, place: &[u8]) -> Result<Option<Label>, XmlError> {
        let found = self.record_before(place)?;
        self.child_of(parent, found)
    }

    /// The first child of a node from a place on.
    fn child_from(&self, parent: &Label, place: &[u8]) -> Result<Option<Label>, XmlError> {
        let found = self.record_from(place)?;
        self.child_of(parent, found)
    }

    /// The child of a node that a record is, or lies in.
    fn child_of(&self, parent: &Label, found: Option<Kept>) -> Result<Option<Label>, XmlError> {
        let Some(kept) = found.filter(|kept| is_in(parent.as_bytes(), &kept.label)) else {
            return Ok(None);
        };
        let label = self.label_of(&kept)?;
        Ok(label.ancestor(parent.level() + 1).filter(|child| !child.is_attribute()))
    }

    pub(super) fn label_of(&self, kept: &Kept) -> Result<Label, XmlError> {
        Label::from_bytes(&kept.label).map_err(|error| self.document.damaged(error.to_string()))
    }

    /// The last record before a place.
    pub(super) fn record_before(&self, place: &[u8]) -> Result<Option<Kept>, XmlError> {
        let nodes = DocumentNames::of(self.document.name()).nodes;
        let containers = self.write.entries_around(&nodes, Around::gap(place))?;
        last_before(&self.document, containers, place)
    }

    /// The last record before a place, where it decides what is changed: nobody may change it.
    pub(super) fn claim_record_before(&mut self, place: &[u8]) -> Result<Option<Kept>, XmlError> {
        let nodes = DocumentNames::of(self.document.name()).nodes;
        let containers = self.write.claim_entries_around(&nodes, Around::gap(place))?;
        last_before(&self.document, containers, place)
    }

    /// The first record from a place on.
    pub(super) fn record_from(&self, place: &[u8]) -> Result<Option<Kept>, XmlError> {
        let nodes = DocumentNames::of(self.document.name()).nodes;
        let around = up_to(place);
        for around in [Around::keys(place, &around), Around::keys(place, &around).with_next()] {
            let containers = self.write.entries_around(&nodes, around)?;
            if let Some(kept) = first_from(&self.document, containers, place)? {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// The first record from a place on, where it decides what is changed.
    pub(super) fn claim_record_from(&mut self, place: &[u8]) -> Result<Option<Kept>, XmlError> {
        let nodes = DocumentNames::of(self.document.name()).nodes;
        let around = up_to(place);
        for around in [Around::keys(place, &around), Around::keys(place, &around).with_next()] {
            let containers = self.write.claim_entries_around(&nodes, around)?;
            if let Some(kept) = first_from(&self.document, containers, place)? {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// The class of an element above a record, or of the document.
    pub(super) fn class_in(&self, element: &Label, kept: &Kept) -> Result<ClassId, XmlError> {
        let synopsis = self.document.synopsis();
        let broken = || self.document.damaged("a record has an unknown class");
        let mut level = self.label_of(kept)?.level();
        let mut class = kept.class;
        if !matches!(kept.kind, NodeKind::Element | NodeKind::Attribute | NodeKind::Namespace) {
            level = level.saturating_sub(1);
        }
        while level > element.level() {
            class = synopsis.get(class).ok_or_else(broken)?.parent;
            level -= 1;
        }
        Ok(class)
    }

    /// The class of an element.
    pub(super) fn class_of_element(&self, element: &Label) -> Result<ClassId, XmlError> {
        let found = self.record_from(element.as_bytes())?;
        let found = found.filter(|kept| match &kept.label[..] {
            label if label == element.as_bytes() => kept.kind == NodeKind::Element,
            label => is_in(element.as_bytes(), label),
        });
        match found {
            Some(kept) => self.class_in(element, &kept),
            None => Err(invalid("there is no such element")),
        }
    }

    /// The prefixes that are declared in an element and above it, the innermost last.
    pub(super) fn bindings(&self, element: &Label) -> Result<Vec<(String, String)>, XmlError> {
        let mut bindings = Vec::new();
        for level in 1..=element.level() {
            let above = element.ancestor(level).expect("it has that many levels");
            let [start, end] = [0x01, 0x02].map(|mark| {
                let mut bound = above.as_bytes().to_vec();
                bound.push(mark);
                bound
            });
            let region = Region::read(self.write, &self.document, (&start, &end))?;
            for kept in region.inside.iter().filter(|kept| kept.kind == NodeKind::Namespace) {
                let class = self.document.synopsis().get(kept.class);
                let name = class.and_then(|class| self.document.vocabulary().get(class.name));
                let name = name.ok_or_else(|| self.document.damaged("a prefix has no name"))?;
                let namespace = String::from_utf8_lossy(&kept.value).into_owned();
                bindings.push((name.local.clone(), namespace));
            }
        }
        Ok(bindings)
    }

    /// Labels for so many new nodes at a place.
    pub(super) fn new_labels(
        &self,
        parent: &Label,
        (left, right): (&Option<Label>, &Option<Label>),
        count: usize,
    ) -> Result<Vec<Label>, LabelError> {
        let mut labels: Vec<Label> = Vec::with_capacity(count);
        for _ in 0..count {
            let label = match (labels.last().or(left.as_ref()), right) {
                (None, None) => parent.first_child(),
                (Some(left), None) => left.after(),
                (None, Some(right)) if count == 1 => right.before(),
                // Several before the first one: room for all of them is made by the first.
                (None, Some(right)) => far_before(right, count),
                (Some(left), Some(right)) => Label::between(left, right),
            }?;
            labels.push(label);
        }
        Ok(labels)
    }

    /// Gives a crowd around a gap new labels. Gives all its members' labels, old and new.
    pub(super) fn relabel(
        &mut self,
        parent: &Label,
        gap: Option<(&Label, &Label)>,
    ) -> Result<Vec<(Label, Label)>, XmlError> {
        let crowded = |error: LabelError| invalid(error.to_string());
        self.lock(parent)?;
        let (left, right) = gap.ok_or_else(|| crowded(LabelError::Crowded))?;
        let level = parent.level() + 1;
        let crowd = Crowd::around(left, right, |first, end| {
            let region =
                Region::read(self.write, &self.document, (first, end)).map_err(Trouble::Xml)?;
            let members = members(&region.inside, level).map_err(Trouble::Label)?;
            Ok(members.len() as u64)
        });
        let crowd = crowd.map_err(|trouble| match trouble {
            Trouble::Label(error) => crowded(error),
            Trouble::Xml(error) => error,
        })?;
        let (first, end) = crowd.range();
        let mut region = Region::claim(self.write, &self.document, (&first, &end))?;
        let old = members(&region.inside, level).map_err(crowded)?;
        let new = crowd.labels().collect::<Result<Vec<_>, _>>().map_err(crowded)?;
        let kept = region.inside.clone();
        rename(&mut region.inside, level, &new).map_err(crowded)?;
        let class = self.class_of_element(parent)?;
        let change = self.begin_change((parent, class), (&kept, &region.inside), false)?;
        region.write(self.write, (&self.document, &mut self.counts))?;
        self.end_change(change)?;
        let moved: Vec<(Label, Label)> = old.into_iter().zip(new).collect();
        self.relabelled.push(moved.clone());
        Ok(moved)
    }
}

/// The first key behind the container that begins with the record of a label.
pub(super) fn up_to(label: &[u8]) -> Vec<u8> {
    [label, &[0x00]].concat()
}

fn last_before(
    document: &Document,
    mut containers: EntryScan<'_>,
    place: &[u8],
) -> Result<Option<Kept>, XmlError> {
    let Some(entry) = containers.next().transpose()? else { return Ok(None) };
    let mut records = super::region::unpack(document, &[entry])?;
    records.retain(|kept| &kept.label[..] < place);
    Ok(records.pop())
}

fn first_from(
    document: &Document,
    containers: EntryScan<'_>,
    place: &[u8],
) -> Result<Option<Kept>, XmlError> {
    for entry in containers {
        let records = super::region::unpack(document, &[entry?])?;
        if let Some(kept) = records.into_iter().find(|kept| &kept.label[..] >= place) {
            return Ok(Some(kept));
        }
    }
    Ok(None)
}

enum Trouble {
    Label(LabelError),
    Xml(XmlError),
}

impl From<LabelError> for Trouble {
    fn from(error: LabelError) -> Self {
        Self::Label(error)
    }
}

/// A label as far before the first sibling as others are to follow it.
fn far_before(first: &Label, count: usize) -> Result<Label, LabelError> {
    (0..count).try_fold(first.clone(), |label, _| label.before())
}

/// The different nodes at a level that records are, or lie in.
pub(super) fn members(records: &[Kept], level: usize) -> Result<Vec<Label>, LabelError> {
    let mut members: Vec<Label> = Vec::new();
    for kept in records {
        if members.last().is_some_and(|last| is_or_is_in(last.as_bytes(), &kept.label)) {
            continue;
        }
        let member = Label::from_bytes(&kept.label)?.ancestor(level);
        members.push(member.ok_or(LabelError::Malformed)?);
    }
    Ok(members)
}

/// Gives the nodes at a level that records are, or lie in, these labels, in order.
pub(super) fn rename(
    records: &mut [Kept],
    level: usize,
    labels: &[Label],
) -> Result<(), LabelError> {
    let old = members(records, level)?;
    if old.len() != labels.len() {
        return Err(LabelError::NoSiblings);
    }
    let mut place = 0;
    for kept in records {
        while !is_or_is_in(old[place].as_bytes(), &kept.label) {
            place += 1;
        }
        let rest = kept.label.split_off(old[place].as_bytes().len());
        kept.label = [labels[place].as_bytes(), &rest].concat();
        if kept.label.len() > LABEL_BYTES_MAX {
            return Err(LabelError::Crowded);
        }
    }
    Ok(())
}

fn is_or_is_in(upper: &[u8], label: &[u8]) -> bool {
    upper == label || is_in(upper, label)
}
