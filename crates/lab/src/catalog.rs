//! Where experiments are found: `./experiments` first, then inside the binary.

use crate::error::LabError;
use crate::experiment::Experiment;
use include_dir::{Dir, include_dir};
use nandu_base::words::nearest;
use nandu_drives::profile::read_text;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments");
/// The folder in the working directory that comes first.
const FOLDER: &str = "experiments";
/// Experiments lie in folders in folders so deep at most: `PAPER/TABLE` is one deep.
const FOLDER_DEPTH_MAX: usize = 4;
/// The longest file: experiments have some thousand bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// An experiment that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentEntry {
    /// Its name: the path in the folder without `.toml`.
    pub name: String,
    /// Its title, or why it cannot be read.
    pub title: Result<String, String>,
    /// The question that it answers.
    pub question: String,
    /// Where it was found: a path, or `embedded`.
    pub origin: String,
}

/// All experiments, by name.
#[must_use]
pub fn list() -> Vec<ExperimentEntry> {
    let entry = |(name, (origin, text)): (String, (String, String))| {
        let parsed = Experiment::parse(&name, &origin, &text);
        let question = parsed.as_ref().map_or(String::new(), |found| found.question.clone());
        let title = parsed.map(|found| found.title).map_err(|error| error.to_string());
        ExperimentEntry { name, title, question, origin }
    };
    texts().into_iter().map(entry).collect()
}

/// Where each was found, and its text, by name.
fn texts() -> BTreeMap<String, (String, String)> {
    let mut texts = BTreeMap::new();
    collect_embedded(&EMBEDDED, &mut texts);
    collect_files(Path::new(FOLDER), Path::new(FOLDER), &mut texts);
    texts
}

/// The experiment of that name, or in that file.
///
/// # Errors
/// Where there is none, it cannot be read, or it is wrong.
pub fn load(name_or_path: &str) -> Result<Experiment, LabError> {
    let path = PathBuf::from(name_or_path);
    if path.extension().is_some_and(|ending| ending == "toml") {
        let shown = path.strip_prefix(FOLDER).unwrap_or(&path).with_extension("");
        let name = if shown.is_absolute() {
            shown.file_name().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
        } else {
            safe_name(&shown)
        };
        return load_file(&name, &path);
    }
    let on_disk = Path::new(FOLDER).join(format!("{name_or_path}.toml"));
    if on_disk.is_file() {
        return load_file(name_or_path, &on_disk);
    }
    let file = format!("{name_or_path}.toml");
    if let Some(text) = EMBEDDED.get_file(&file).and_then(|file| file.contents_utf8()) {
        return Experiment::parse(name_or_path, &file, text);
    }
    Err(LabError::UnknownExperiment { name: name_or_path.into(), nearest: meant(name_or_path) })
}

/// The experiment or paper that is most like a name that none has: one of the paper that it begins with,
/// if it begins with one.
fn meant(name: &str) -> Option<String> {
    let texts = texts();
    let names = || texts.keys().map(String::as_str);
    let paper_of = |name: &'_ str| name.split_once('/').map(|(paper, _)| paper.to_owned());
    let paper = paper_of(name);
    let of_paper = names().filter(|known| paper.is_some() && paper_of(known) == paper);
    let papers: Vec<String> = names().filter_map(paper_of).collect();
    nearest(name, of_paper)
        .or_else(|| nearest(name, papers.iter().map(String::as_str).chain(names())))
        .map(str::to_owned)
}

/// Whether an experiment has this name.
pub(crate) fn has(name: &str) -> bool {
    let file = format!("{name}.toml");
    Path::new(FOLDER).join(&file).is_file() || EMBEDDED.get_file(&file).is_some()
}

/// A path without parts that lead out of the results' folder.
fn safe_name(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        std::path::Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

fn load_file(name: &str, path: &Path) -> Result<Experiment, LabError> {
    let text = read_text(path, FILE_BYTES_MAX);
    let text = text.map_err(|error| LabError::file("read", path, &error))?;
    Experiment::parse(name, &path.display().to_string(), &text)
}

fn collect_embedded(folder: &Dir<'_>, texts: &mut BTreeMap<String, (String, String)>) {
    for file in folder.files().filter(|file| file.path().extension().is_some_and(|e| e == "toml")) {
        let name = safe_name(&file.path().with_extension(""));
        let text = file.contents_utf8().unwrap_or_default().to_owned();
        texts.insert(name, ("embedded".into(), text));
    }
    folder.dirs().for_each(|inner| collect_embedded(inner, texts));
}

/// Folders that cannot be read hold no experiments, nor do those that lie too deep, as all do behind a
/// link to a folder that holds it; pipes and devices are none.
fn collect_files(root: &Path, folder: &Path, texts: &mut BTreeMap<String, (String, String)>) {
    if folder.components().count() > root.components().count() + FOLDER_DEPTH_MAX {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_files(root, &path, texts);
        } else if path.is_file() && path.extension().is_some_and(|ending| ending == "toml") {
            let name = safe_name(&path.strip_prefix(root).unwrap_or(&path).with_extension(""));
            let text = read_text(&path, FILE_BYTES_MAX).unwrap_or_default();
            texts.insert(name, (path.display().to_string(), text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Class;
    use nandu_drives::profile::Profile;

    #[test]
    fn every_embedded_experiment_parses() {
        let entries = list();
        assert!(entries.iter().any(|entry| entry.name == "tour"));
        assert!(entries.iter().any(|entry| entry.name == "s000/table-3-1"));
        for entry in entries {
            assert!(entry.title.is_ok(), "{}: {:?}", entry.name, entry.title);
        }
    }

    #[test]
    fn every_step_has_its_own_of_all_targets() {
        for entry in list() {
            let experiment = load(&entry.name).unwrap();
            let scales = [Some(experiment.clone()), experiment.at_full_scale()];
            for experiment in scales.iter().flatten() {
                let measurement = experiment.measure.as_measurement();
                let mut of_steps = Vec::new();
                for (index, label) in measurement.steps().iter().enumerate() {
                    let targets = measurement.step_targets(index);
                    let is_known = |target| measurement.targets().contains(target);
                    assert!(targets.iter().all(is_known), "{} {label}", experiment.name);
                    of_steps.extend(targets);
                }
                let is_used = |target| of_steps.contains(target);
                assert!(measurement.targets().iter().all(is_used), "{}", experiment.name);
            }
        }
    }

    #[test]
    fn nothing_that_was_fitted_is_called_a_prediction() {
        let experiments: Vec<Experiment> =
            list().iter().map(|entry| load(&entry.name).unwrap()).collect();
        let profiles: Vec<Profile> =
            Profile::list().iter().map(|name| Profile::load(name).unwrap()).collect();
        assert_eq!(crate::fitted::check(&experiments, &profiles), [""; 0]);
    }

    #[test]
    fn the_readme_counts_the_classes_apart() {
        let shapes: Vec<Class> = list()
            .iter()
            .flat_map(|entry| load(&entry.name).unwrap().shape)
            .map(|shape| shape.standing.class)
            .collect();
        let count = |class: Class| {
            let count = shapes.iter().filter(|known| **known == class).count();
            format!("{count} {}", class.words()[1])
        };
        let counts = Class::ALL.map(count).join(", ");
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let readme = fs::read_to_string(readme).unwrap();
        let words: Vec<&str> = readme.split_whitespace().collect();
        let wanted = format!("hold {} claims: {counts}.", shapes.len());
        assert!(words.join(" ").contains(&wanted), "README.md does not say: {wanted}");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let error = load("s000/table-3-11").unwrap_err().to_string();
        assert!(error.contains("did you mean `s000/table-3-1`?"), "{error}");
        for (name, meant) in [("s03", "s003"), ("ssdiq", "ssd-iq"), ("tuor", "tour")] {
            let error = load(name).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean `{meant}`?")), "{error}");
        }
        let error = load("s003/tabel-2-response").unwrap_err().to_string();
        assert!(error.contains("did you mean `s003/table-2-response-time`?"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load("nowhere/at-all.toml").unwrap_err().to_string();
        assert!(error.starts_with("cannot read nowhere/at-all.toml"), "{error}");
    }

    #[test]
    fn a_file_outside_the_folder_keeps_its_results_inside() {
        assert_eq!(safe_name(Path::new("../../x/y")), "x/y");
    }

    #[test]
    fn folders_that_hold_themselves_and_pipes_keep_nobody_waiting() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        fs::create_dir(root.join("mine")).unwrap();
        fs::write(root.join("mine/one.toml"), "text").unwrap();
        for name in ["a", "b", "c"] {
            std::os::unix::fs::symlink(".", root.join(name)).unwrap();
        }
        let pipe = std::process::Command::new("mkfifo").arg(root.join("pipe.toml")).status();
        assert!(pipe.unwrap().success());
        let mut texts = BTreeMap::new();
        collect_files(root, root, &mut texts);
        assert_eq!(texts["mine/one"].1, "text");
        assert!(texts.keys().all(|name| name.ends_with("mine/one")), "{texts:?}");
    }
}
