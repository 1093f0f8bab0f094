//! What a run left out and what disturbed it, in sentences for its table: whoever reads a figure has
//! to know what stands beside it, and what does not.

use crate::busy::DISTURBED_SHARE;
use crate::engine::EngineKind;
use crate::phase::PhaseKind;
use crate::plan::OTHERS_SHARE;
use crate::results::Row;
use std::collections::{BTreeMap, BTreeSet};

/// The shares of random keys of a whole run, in parts per million.
pub(crate) const WHOLE_PPM: [u32; 3] = [0, 330_000, 1_000_000];
/// Rounds from which a median is one.
const ROUNDS: usize = 3;

/// What was missing, and why, where whoever ran it said so.
pub(crate) fn sentence(missing: &[String], reasons: &[String]) -> Option<String> {
    let because = match reasons {
        [] => String::new(),
        reasons => format!(", because {}", reasons.join("; ")),
    };
    (!missing.is_empty()).then(|| format!("**Left out**: {}{because}.", missing.join("; ")))
}

/// What `rows` lack of a whole run, for these reasons, and how many of them were disturbed.
pub(crate) fn notes(rows: &[Row], reasons: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(sentence(&missing_of(rows), reasons));
    let few: BTreeSet<String> = rounds_of(rows)
        .into_iter()
        .filter(|(_, rounds)| rounds.len() < ROUNDS)
        .map(|((phase, _, _), rounds)| match rounds.len() {
            1 => format!("{} once", phase.label()),
            _ => format!("{} twice", phase.label()),
        })
        .collect();
    if !few.is_empty() {
        let few: Vec<String> = few.into_iter().collect();
        notes.push(format!(
            "**Measured less than three times**, at least at one r: {}.",
            few.join(", ")
        ));
    }
    let watched: Vec<&Row> = rows.iter().filter(|row| row.metric == OTHERS_SHARE).collect();
    let disturbed = watched.iter().filter(|row| row.value > DISTURBED_SHARE).count();
    if disturbed > 0 {
        let most = watched.iter().map(|row| row.value).fold(0.0, f64::max);
        notes.push(format!(
            "**Disturbed**: in {disturbed} of {} measurements other programs took more than a \
             twentieth of a core, at most {most:.2} of one; runs.csv says in which \
             ({OTHERS_SHARE}). Bytes are not touched by that, times are.",
            watched.len()
        ));
    }
    notes
}

/// The rounds of each phase that was measured.
fn rounds_of(rows: &[Row]) -> BTreeMap<(PhaseKind, u32, EngineKind), BTreeSet<u32>> {
    let mut rounds: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for row in rows {
        rounds.entry((row.phase, row.random_ppm, row.engine)).or_default().insert(row.round);
    }
    rounds
}

/// Whole shares, engines and phases that are missing, then how many of the rest.
fn missing_of(rows: &[Row]) -> Vec<String> {
    let there: BTreeSet<(PhaseKind, u32, EngineKind)> = rounds_of(rows).into_keys().collect();
    let mut missing = Vec::new();
    let has = |is: &dyn Fn(&(PhaseKind, u32, EngineKind)) -> bool| there.iter().any(is);
    let list = |words: Vec<String>, what: &str, missing: &mut Vec<String>| {
        if !words.is_empty() {
            missing.push(format!("{what} {}", words.join(", ")));
        }
    };
    let shares: Vec<u32> = WHOLE_PPM.into_iter().filter(|ppm| has(&|it| it.1 == *ppm)).collect();
    let engines: Vec<EngineKind> =
        EngineKind::ALL.into_iter().filter(|engine| has(&|it| it.2 == *engine)).collect();
    let phases: Vec<PhaseKind> =
        PhaseKind::ALL.into_iter().filter(|phase| has(&|it| it.0 == *phase)).collect();
    let words = |ppm: &u32| (f64::from(*ppm) / 1e6).to_string();
    let absent = WHOLE_PPM.iter().filter(|ppm| !shares.contains(ppm)).map(words).collect();
    list(absent, "r =", &mut missing);
    let absent = EngineKind::ALL.iter().filter(|it| !engines.contains(it));
    list(absent.map(|it| it.label().into()).collect(), "engines", &mut missing);
    let absent = PhaseKind::ALL.iter().filter(|it| !phases.contains(it));
    list(absent.map(|it| it.label().into()).collect(), "phases", &mut missing);
    for phase in &phases {
        for ppm in &shares {
            let could = |engine: &&EngineKind| !phase.is_batch() || engine.has_batches();
            let absent =
                engines.iter().filter(could).filter(|it| !there.contains(&(*phase, *ppm, **it)));
            let what = format!("{} at r = {} of", phase.label(), words(ppm));
            let absent: Vec<String> = absent.map(|it| it.label().into()).collect();
            if !absent.is_empty() && absent.len() == engines.iter().filter(could).count() {
                missing.push(format!("{} at r = {}", phase.label(), words(ppm)));
            } else {
                list(absent, &what, &mut missing);
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything of a whole run, with figures of `others_share`.
    fn whole(others_share: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for random_ppm in WHOLE_PPM {
            for engine in EngineKind::ALL {
                for phase in PhaseKind::ALL {
                    for round in 1..=3 {
                        if !phase.is_batch() || engine.has_batches() {
                            let (metric, value) = (OTHERS_SHARE.into(), others_share);
                            rows.push(Row { random_ppm, round, phase, engine, metric, value });
                        }
                    }
                }
            }
        }
        rows
    }

    #[test]
    fn a_whole_and_quiet_run_needs_no_note() {
        assert_eq!(notes(&whole(0.01), &["of nothing".into()]), [""; 0]);
    }

    #[test]
    fn what_is_missing_is_named_from_the_large_to_the_small() {
        let mut rows = whole(0.01);
        rows.retain(|row| {
            row.random_ppm != 0
                && row.engine != EngineKind::Redb
                && row.phase != PhaseKind::Durable
                && (row.phase, row.random_ppm) != (PhaseKind::BuildSorted, 330_000)
                && (row.phase, row.engine) != (PhaseKind::Scan, EngineKind::Lmdb)
        });
        let wanted = "**Left out**: r = 0; engines redb; phases durable; build-sorted at r = 0.33; \
                      scan at r = 0.33 of lmdb; scan at r = 1 of lmdb.";
        assert_eq!(notes(&rows, &[]), [wanted]);
        let reasons = ["redb takes hours".into(), "time was short".into()];
        let wanted =
            wanted.replace("of lmdb.", "of lmdb, because redb takes hours; time was short.");
        assert_eq!(notes(&rows, &reasons), [wanted]);
    }

    #[test]
    fn few_rounds_and_the_work_of_others_are_told() {
        let mut rows = whole(0.01);
        rows.retain(|row| row.phase != PhaseKind::Build || row.round == 1);
        rows[5].value = 0.31;
        let [few, disturbed] = notes(&rows, &[]).try_into().unwrap();
        assert!(few.ends_with("at least at one r: build once."), "{few}");
        assert!(disturbed.contains("in 1 of"), "{disturbed}");
        assert!(disturbed.contains("at most 0.31 of one"), "{disturbed}");
    }
}
