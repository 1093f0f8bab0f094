//! What the tables of `verify --perturb` that are kept in `results/perturb` have to say.
//!
//! 1. Each prediction that ships is turned by some parameter.
//! 2. No table is of another experiment, profile, claim or list of parameters than those of now.
//! 3. Each experiment with shapes has a table, or stands below with the reason why it has none.
//! 4. A fit moves with the parameters that it names, or stands below with the reason why it is one; so does a
//!    parameter that no trial changes.

use super::{Sensitivity, stale, unmoved_fits, unnoticed};
use crate::catalog;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn kept_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/perturb")
}

#[test]
fn every_prediction_that_ships_is_turned_by_some_parameter() {
    let folder = kept_folder();
    let mut wrong = Vec::new();
    for entry in catalog::list() {
        let experiment = catalog::load(&entry.name).unwrap();
        let kept = Sensitivity::load(&folder, &experiment.name).unwrap();
        wrong.extend(unnoticed(&experiment, kept.as_ref()));
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn no_kept_table_is_stale() {
    let folder = kept_folder();
    let mut wrong = Vec::new();
    for paper in fs::read_dir(&folder).unwrap() {
        for file in fs::read_dir(paper.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(&folder).unwrap().with_extension("");
            let name = name.to_str().unwrap();
            let kept = Sensitivity::load(&folder, name).unwrap().unwrap();
            match catalog::load(name) {
                Ok(experiment) => wrong.extend(stale(&experiment, &kept).unwrap()),
                Err(error) => wrong.push(format!("{name}: {error}")),
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Experiments without a kept table, and why. None of them has a prediction.
const WITHOUT_TABLE: [(&str, &str); 43] = [
    ("clients/lookups", "52 trials of 6 s, and no prediction"),
    ("s000/chapter-7-indexes", "160 trials of 4 s, and no prediction"),
    ("s000/chapter-7-log", "166 trials of 6 s, and no prediction"),
    ("s000/chapter-7-scans", "118 trials of 2 s, and no prediction"),
    ("s000/chapter-8-adaptive-array", "14 trials of 12 s, and no prediction"),
    ("s000/chapter-8-coding", "56 trials of 2 s, and no prediction"),
    ("s000/figure-4-1-kernel", "136 trials of 1 s, and no prediction"),
    ("s000/figure-4-1-page-sizes", "124 trials of 5 s, and no prediction"),
    ("s000/figure-4-2", "160 trials of 4 s, and no prediction"),
    ("s000/figure-5-1-kernel", "138 trials of 1 s, and no prediction"),
    ("s000/figure-6-1", "126 trials of 6 s, and no prediction"),
    ("s000/prices", "trials of some seconds, and no prediction"),
    ("s001/allocation", "114 trials of 5 s, and no prediction"),
    ("s001/error-bars", "112 trials of 4 s, and no prediction"),
    ("s001/figure-2", "112 trials of 8 s, and no prediction"),
    ("s001/for-the-money", "trials of some seconds, and no prediction"),
    ("s001/late-joins", "160 trials of 6 s, and no prediction"),
    ("s002/predictions", "trials of some seconds, and no prediction"),
    ("s002/search-trees", "trials of some seconds, and no prediction"),
    ("s002/sorts-that-write-less", "trials of some seconds, and no prediction"),
    ("s003/faster-gain", "40 trials, and no prediction"),
    ("s003/five-minutes", "trials of some seconds, and no prediction"),
    ("s003/log-devices", "trials of some seconds, and no prediction"),
    ("s003/log-regions", "its claims are closed forms, or no prediction"),
    ("s003/methods", "trials of some seconds, and no prediction"),
    ("s003/methods-tpcc", "trials of some seconds, and no prediction"),
    ("s003/one-ssd", "trials of some seconds, and no prediction"),
    ("s003/recovery", "118 trials, and no prediction"),
    ("s003/recovery-tpcc", "trials of some seconds, and no prediction"),
    ("s003/tpcc-trace", "trials of half a minute, and no prediction"),
    ("s004/clients", "trials of half a minute, and no prediction"),
    ("s004/figure-1", "92 trials of 8 s, and no prediction"),
    ("s004/figure-3", "86 trials of 5 s, and no prediction"),
    ("s004/figure-6", "trials of some seconds, and no prediction"),
    ("s004/figure-7", "trials of some seconds, and no prediction"),
    ("s004/figure-8", "trials of some seconds, and no prediction"),
    ("s004/footprints", "nothing of a drive or a load moves it"),
    ("s004/large-documents", "trials of some seconds, and no prediction"),
    ("s004/prices", "its one shape is arithmetic"),
    ("s004/table-2", "trials of some seconds, and no prediction"),
    ("ssd-iq/real-drive", "14 trials, and no prediction"),
    ("ssd-iq/zipf-full-size", "14 trials, and no prediction"),
    ("tour", "144 trials, and no prediction"),
];

#[test]
fn every_experiment_with_shapes_has_a_kept_table_or_a_reason() {
    let folder = kept_folder();
    let mut wrong = Vec::new();
    for entry in catalog::list() {
        let experiment = catalog::load(&entry.name).unwrap();
        let has_table = Sensitivity::load(&folder, &experiment.name).unwrap().is_some();
        let is_named = WITHOUT_TABLE.iter().any(|(name, _)| *name == experiment.name);
        if !experiment.shape.is_empty() && has_table == is_named {
            wrong.push(format!("{}: table {has_table}, excused {is_named}", experiment.name));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Fits that do not move with a parameter that they name: experiment, parameter, and why they stay fits.
const UNMOVED: [(&str, &str, &str); 3] = [
    (
        "s001/figure-1",
        "measure.file_system_block_bytes",
        "that there is a file system at all was chosen for these gains; twice or half its blocks are as good",
    ),
    (
        "s002/figure-3-4a",
        "measure.drives.supertalent-usb-128m",
        "a chunk of 32 KiB is not affected by 32 KiB either, and one of 8 KiB is none",
    ),
    (
        "s002/figure-b-1",
        "toshiba-transmemory-512m ssd.read_ahead_bytes",
        "that it reads ahead at all was chosen for reads in order; half or twice as far does as well",
    ),
];

/// Parameters that fits name and no trial can double or halve: experiment, parameter, and why.
const WITHOUT_ROW: [(&str, &str, &str); 7] = [
    (
        "s000/table-3-2",
        "measure.scale.disk_capacity",
        "how much is measured is not varied; table-3-1-ext2 has the same file on the whole disk",
    ),
    (
        "s000/table-5-1",
        "measure.kind",
        "a tree whose keys only rise or one that is built from rows is a word",
    ),
    ("s002/appendix-b", "measure.spare_percent", "the sweep has other spare space beside it"),
    ("s003/skew", "measure.workload", "shares of zones add up to 1, so that none is doubled alone"),
    (
        "s003/table-2-response-time",
        "measure.variants.faster-plain.ftl",
        "where second chances go is a word",
    ),
    (
        "s003/tables-3-4",
        "measure.workload",
        "scattered or gathered is a word; fast-clustered of the same experiment has the other one",
    ),
    (
        "s003/write-intervals",
        "measure.workloads.oltp-fitted",
        "the shares of its classes stand in the code, under the name of the load",
    ),
];

/// The place in `list` of what excuses `told`, a line of [`unmoved_fits`].
fn excuse(list: &[(&str, &str, &str)], told: &str) -> Option<usize> {
    list.iter().position(|(name, parameter, _)| {
        told.starts_with(&format!("{name}: ")) && told.contains(&format!("fit of {parameter}:"))
    })
}

#[test]
fn every_fit_that_ships_moves_with_the_parameters_that_it_names() {
    let folder = kept_folder();
    let mut wrong = Vec::new();
    let (mut unmoved, mut without_row) = (BTreeSet::new(), BTreeSet::new());
    for entry in catalog::list() {
        let experiment = catalog::load(&entry.name).unwrap();
        let Some(kept) = Sensitivity::load(&folder, &experiment.name).unwrap() else { continue };
        for told in unmoved_fits(&experiment, &kept) {
            let (list, used) = match told.ends_with("no trial changes it") {
                true => (&WITHOUT_ROW[..], &mut without_row),
                false => (&UNMOVED[..], &mut unmoved),
            };
            match excuse(list, &told) {
                Some(place) => drop(used.insert(place)),
                None => wrong.push(told),
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    let used = (unmoved.len(), without_row.len());
    assert_eq!(used, (UNMOVED.len(), WITHOUT_ROW.len()), "an excuse that nothing needs goes");
}
