//! How curves look. Colour means device, the same in every figure of a report; dash and marker mean
//! access pattern; a hollow marker means published. Where curves are told apart by something else than
//! a pattern, and there are more such things than devices, colour means them and dash and marker mean
//! the device.

use crate::outcome::{Figure, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Okabe and Ito's colours, which the colour-blind can tell apart; grey in place of black and yellow,
/// which one of the two backgrounds would swallow.
const PALETTE: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C"];
/// How the lines of four patterns are dashed.
const DASHES: [&str; 4] = ["", "6 4", "10 3 2 3", "2 3"];

/// Which colour belongs to which device or curve.
#[derive(Clone, Debug, Default)]
pub struct Colours {
    places: BTreeMap<String, usize>,
}

impl Colours {
    /// Colours for the groups of all `figures`: each group has one everywhere, the one least used so
    /// far among those that no other group of its figures has.
    #[must_use]
    pub fn of(figures: &[Vec<&str>]) -> Self {
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for &group in figures.iter().flatten() {
            if places.contains_key(group) {
                continue;
            }
            let beside = figures.iter().filter(|figure| figure.contains(&group)).flatten();
            let taken: Vec<usize> =
                beside.filter_map(|other| places.get(*other).copied()).collect();
            let use_count = |place: usize| {
                let total = places.values().filter(|used| **used == place).count();
                (taken.contains(&place), total)
            };
            let place = (0..PALETTE.len()).min_by_key(|&place| use_count(place)).unwrap_or(0);
            places.insert(group.to_owned(), place);
        }
        Self { places }
    }

    /// The colour of `group`.
    #[must_use]
    pub fn get(&self, group: &str) -> &'static str {
        PALETTE[self.places.get(group).copied().unwrap_or(0) % PALETTE.len()]
    }
}

/// How a curve looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// As HTML writes it: `#0072B2`.
    pub(super) colour: &'static str,
    /// Markers are squares, not circles.
    pub(super) is_square: bool,
    /// Lengths of dashes and of the gaps between them; empty for a whole line.
    pub(super) dash: &'static str,
}

/// The look of every curve of `figure`: see the module.
pub(super) fn looks(figure: &Figure, colours: &Colours) -> Vec<Look> {
    let groups = distinct(figure.traces.iter().map(|trace| trace.group.as_str()));
    let variants = distinct(figure.traces.iter().map(|trace| trace.variant.as_str()));
    let is_pattern = |variant: &&str| variant.contains("read") || variant.contains("write");
    // Only if each variant is another pattern: several that mention the same one ("read-heavy,
    // stripe") would be drawn alike.
    let places: BTreeSet<usize> = variants.iter().map(|variant| pattern_place(variant)).collect();
    let are_patterns = variants.iter().all(is_pattern) && places.len() == variants.len();
    let by_pattern = variants.len() == 1 || are_patterns;
    let by_variant = !by_pattern && variants.len() > groups.len();
    let look = |trace: &Trace| {
        let group = groups.iter().position(|group| *group == trace.group).unwrap_or(0);
        let variant = variants.iter().position(|one| *one == trace.variant).unwrap_or(0);
        let colour =
            if by_variant { PALETTE[variant % PALETTE.len()] } else { colours.get(&trace.group) };
        // More devices than colours: dash and marker tell apart those that share one.
        let namesakes = groups[..group].iter().filter(|other| colours.get(other) == colour).count();
        let place = match (by_pattern, by_variant) {
            (true, _) if variants.len() == 1 => pattern_place(&trace.variant) + namesakes,
            (true, _) => pattern_place(&trace.variant),
            // More of them than colours: the eighth has the first one's colour and another dash.
            (false, true) => group + groups.len() * (variant / PALETTE.len()),
            (false, false) => variant,
        };
        Look { colour, is_square: place % 4 >= 2, dash: DASHES[place % 4] }
    };
    figure.traces.iter().map(look).collect()
}

/// Each word once, in the order of its first use.
fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for word in words {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

/// The place of a pattern: the same word always looks the same.
fn pattern_place(variant: &str) -> usize {
    2 * usize::from(variant.contains("write")) + usize::from(variant.contains("random"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_keeps_its_colour_and_neighbours_differ() {
        let many = vec!["c", "d", "e", "f", "g", "h", "a"];
        let colours = Colours::of(&[vec!["a", "b"], many.clone()]);
        let mut used: Vec<&str> = many.iter().map(|group| colours.get(group)).collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), many.len());
        assert_ne!(colours.get("a"), colours.get("b"));
    }

    fn trace(group: &str, variant: &str) -> Trace {
        Trace {
            series: format!("{group}.{variant}"),
            label: group.into(),
            group: group.into(),
            variant: variant.into(),
            published: false,
            points: vec![(1.0, 2.0)],
        }
    }

    fn looks_of(traces: Vec<Trace>) -> Vec<Look> {
        let axis = crate::outcome::Axis { label: "x".into(), unit: String::new(), log: false };
        let (title, caption) = (String::new(), String::new());
        let figure = Figure { title, caption, x: axis.clone(), y: axis, traces };
        let groups = figure.traces.iter().map(|trace| trace.group.as_str()).collect();
        looks(&figure, &Colours::of(&[groups]))
    }

    fn colours_of(traces: Vec<Trace>) -> Vec<&'static str> {
        looks_of(traces).iter().map(|look| look.colour).collect()
    }

    #[test]
    fn colour_means_the_device_unless_other_things_are_more() {
        let by_device =
            colours_of(vec![trace("a", "read"), trace("a", "write"), trace("b", "read")]);
        assert_eq!(by_device[0], by_device[1], "patterns have dashes of their own");
        assert_ne!(by_device[0], by_device[2]);
        let by_variant = colours_of(vec![
            trace("a", "burst5"),
            trace("a", "burst30"),
            trace("a", "burst60"),
            trace("b", "burst60"),
        ]);
        assert_ne!(by_variant[0], by_variant[1]);
        assert_eq!(by_variant[2], by_variant[3], "the same burst of another device");
        let many: Vec<Trace> =
            ["a", "b", "c", "d", "e", "f", "g", "h"].map(|one| trace(one, "read")).into();
        let looks = looks_of(many);
        assert!((1..8).all(|one| looks[..one].iter().all(|other| *other != looks[one])));
        let many = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|one| trace("disk", one));
        let looks = looks_of(many.into());
        assert_ne!(looks[0], looks[7], "eight joins on one drive");
        let words_around =
            colours_of(vec![trace("a", "read-heavy, stripe"), trace("a", "read-heavy, mirror")]);
        assert_ne!(words_around[0], words_around[1], "more than the pattern tells them apart");
    }
}
