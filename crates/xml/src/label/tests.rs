//! Labels beside a model: a tree whose nodes know their place by themselves.

use super::growth::Insertions;
use super::*;
use proptest::prelude::*;

/// A tree: each node's parent, its children in order, and its label.
struct Model {
    labels: Vec<Label>,
    parents: Vec<Option<usize>>,
    children: Vec<Vec<usize>>,
}

impl Model {
    fn new() -> Self {
        Self { labels: vec![Label::document()], parents: vec![None], children: vec![Vec::new()] }
    }

    /// Inserts a child of some node before the child at some place; a crowd in the way is
    /// relabelled.
    fn insert(&mut self, parent: usize, place: usize) {
        let siblings = self.children[parent].clone();
        let place = place % (siblings.len() + 1);
        let at = |place: usize| &self.labels[siblings[place]];
        let label = match (place.checked_sub(1), place < siblings.len()) {
            (None, false) => self.labels[parent].first_child(),
            (None, true) => at(0).before(),
            (Some(left), false) => at(left).after(),
            (Some(left), true) => Label::between(at(left), at(place)),
        };
        // Nobody gets that far in these tests.
        let Ok(label) = label else { return };
        let new = self.labels.len();
        self.labels.push(label);
        self.parents.push(Some(parent));
        self.children.push(Vec::new());
        self.children[parent].insert(place, new);
    }

    /// Nodes as they come in the document.
    fn in_order(&self) -> Vec<usize> {
        let (mut order, mut stack) = (Vec::new(), vec![0]);
        while let Some(node) = stack.pop() {
            order.push(node);
            stack.extend(self.children[node].iter().rev());
        }
        order
    }

    fn ancestors(&self, node: usize) -> Vec<usize> {
        std::iter::successors(Some(node), |&node| self.parents[node]).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn labels_say_what_the_tree_says(
        steps in prop::collection::vec((any::<usize>(), any::<usize>(), any::<bool>()), 1..150)
    ) {
        let mut model = Model::new();
        for (parent, place, is_near) in steps {
            // Half of the nodes go below the last few, so that there are levels and crowded gaps.
            let count = model.labels.len();
            let parent = if is_near { count - 1 - parent % count.min(3) } else { parent % count };
            model.insert(parent, place);
        }
        let order = model.in_order();
        for pair in order.windows(2) {
            let [one, other] = [&model.labels[pair[0]], &model.labels[pair[1]]];
            prop_assert!(one < other, "{one:?} {other:?}");
        }
        for &node in &order {
            let label = &model.labels[node];
            let ancestors = model.ancestors(node);
            prop_assert_eq!(label.level(), ancestors.len() - 1);
            for (distance, &ancestor) in ancestors.iter().enumerate() {
                let level = ancestors.len() - 1 - distance;
                prop_assert_eq!(label.ancestor(level), Some(model.labels[ancestor].clone()));
            }
            prop_assert_eq!(label.ancestor(ancestors.len()), None);
            prop_assert_eq!(label.parent(), ancestors.get(1).map(|&up| model.labels[up].clone()));
            prop_assert_eq!(Label::from_bytes(label.as_bytes()), Ok(label.clone()));
            for &other in &order {
                let lies_below = other != node && model.ancestors(other).contains(&node);
                prop_assert_eq!(label.is_ancestor_of(&model.labels[other]), lies_below);
                let bytes = model.labels[other].as_bytes();
                let in_range = bytes > label.as_bytes() && bytes < &label.end()[..];
                prop_assert_eq!(in_range, lies_below, "{:?} {:?}", label, bytes);
            }
        }
    }

    #[test]
    fn bytes_of_any_kind_are_a_label_or_refused(
        bytes in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 3, 7, 0x37, 0x38, 0xB7, 0xF7, 0xFB, 0xFD, 0xFE, 0xFF]), 0..12)
    ) {
        if let Ok(label) = Label::from_bytes(&bytes) {
            let levels = label.level();
            prop_assert_eq!(label.ancestor(levels), Some(label.clone()));
            prop_assert!(label.parent().is_none_or(|parent| parent.is_ancestor_of(&label)));
        }
        let mut at = 0;
        while let Some(end) = step_end(&bytes, at) {
            prop_assert!(end > at);
            at = end;
        }
    }
}

#[test]
fn attributes_come_before_children_and_belong_to_their_element() {
    let element = Label::document().first_child().unwrap();
    let child = element.first_child().unwrap();
    let far_before = (0..100_000).fold(child.clone(), |label, _| label.before().unwrap());
    let mut attribute = element.first_attribute().unwrap();
    for _ in 0..1000 {
        assert!(attribute.is_attribute() && element < attribute && attribute < far_before);
        assert_eq!((attribute.parent(), attribute.level()), (Some(element.clone()), 2));
        assert!(element.is_ancestor_of(&attribute) && !attribute.is_ancestor_of(&child));
        let next = attribute.after().unwrap();
        assert!(attribute < next);
        attribute = next;
    }
    assert!(!child.is_attribute());
    assert_eq!(Label::between(&attribute, &child), Err(LabelError::NoSiblings));
    assert_eq!(Label::document().after(), Err(LabelError::NoSiblings));
}

#[test]
fn labels_have_their_bytes_for_ever() {
    let root = Label::document().first_child().unwrap();
    let first = root.first_child().unwrap();
    let second = first.after().unwrap();
    let between = Label::between(&first, &second).unwrap();
    for (label, bytes) in [
        (root.clone(), &[0x37][..]),
        (root.first_attribute().unwrap(), &[0x37, 0x01, 0x37]),
        (first.clone(), &[0x37, 0x37]),
        (second.clone(), &[0x37, 0x38]),
        (first.before().unwrap(), &[0x37, 0x36]),
        (between.clone(), &[0x37, 0x37, 0xFE, 0x37]),
        (Label::between(&first, &between).unwrap(), &[0x37, 0x37, 0xFE, 0x26, 0xD0]),
        (Label::between(&between, &second).unwrap(), &[0x37, 0x37, 0xFE, 0x77]),
        (between.first_child().unwrap(), &[0x37, 0x37, 0xFE, 0x37, 0x37]),
    ] {
        assert_eq!(label.as_bytes(), bytes);
    }
}

/// Bytes of all labels at most, of the longest, and relabelled nodes at most, for 100,000 siblings.
const BOUNDS: [(Insertions, u64, u64, u64); 4] = [
    (Insertions::Appends, 300_000, 3, 0),
    (Insertions::Prepends, 300_000, 3, 0),
    (Insertions::OneGap, 600_000, 6, 0),
    (Insertions::Bisections, 30_000_000, 480, 1_500_000),
];

#[test]
fn labels_stay_short_and_only_bisections_relabel() {
    let parent = Label::document().first_child().unwrap();
    for (insertions, bytes, longest, relabelled) in BOUNDS {
        let growth = insertions.run(&parent, 100_000).unwrap();
        assert!(growth.label_bytes <= bytes, "{insertions:?}: {growth:?}");
        assert!(growth.longest_bytes <= longest, "{insertions:?}: {growth:?}");
        assert!(growth.relabelled_count <= relabelled, "{insertions:?}: {growth:?}");
    }
}

#[test]
fn range_labels_are_given_again_far_more_often() {
    let parent = Label::document().first_child().unwrap();
    let prefixes = Insertions::Bisections.run(&parent, 10_000).unwrap().relabelled_count;
    let ranges = Insertions::Bisections.range_relabelled_count(10_000);
    assert!(ranges > 20 * prefixes.max(10_000), "{ranges} {prefixes}");
    assert_eq!(Insertions::Appends.range_relabelled_count(10_000), 0);
}

#[test]
fn a_level_that_is_too_deep_is_crowded_and_nobody_is_relabelled() {
    let mut label = Label::document();
    while let Ok(child) = label.first_child() {
        label = child;
    }
    assert_eq!((label.as_bytes().len(), label.level()), (LABEL_BYTES_MAX, LABEL_BYTES_MAX));
    let next = label.after().unwrap();
    assert_eq!(Label::between(&label, &next), Err(LabelError::Crowded));
    let crowd = crowd::Crowd::around(&label, &next, |_, _| Ok::<_, LabelError>(2));
    assert_eq!(crowd.err(), Some(LabelError::Crowded));
}
