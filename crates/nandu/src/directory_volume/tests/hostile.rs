//! Directories that somebody prepared: whatever their manifest says and whatever links lie there,
//! nothing outside them is read, made, changed or removed.

use super::*;
use std::os::unix::fs::symlink;

/// A directory `volume`, with a file `victim` beside it that says "mine".
struct Scene {
    place: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("victim"), "mine").unwrap();
        Self { place }
    }

    fn victim(&self) -> PathBuf {
        self.place.path().join("victim")
    }

    fn volume(&self) -> PathBuf {
        self.place.path().join("volume")
    }

    /// Makes the volume with one file.
    fn make(&self) {
        let mut volume = DirectoryVolume::create(&self.volume(), OPTIONS).unwrap();
        let file = volume.create("file").unwrap();
        write_fill(&mut volume, file, 0, 1, 9).unwrap();
    }

    /// Replaces an entry of the volume by a link to the victim, or to where nothing is.
    fn link(&self, name: &str, target: &Path) {
        let _ = std::fs::remove_file(self.volume().join(name));
        symlink(target, self.volume().join(name)).unwrap();
    }

    fn assert_untouched(&self, context: &str) {
        assert_eq!(std::fs::read_to_string(self.victim()).unwrap(), "mine", "{context}");
        let mut names: Vec<_> = std::fs::read_dir(self.place.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["victim", "volume"], "{context}: nothing was made");
    }
}

#[test]
fn names_in_a_manifest_never_lead_out_of_the_directory() {
    for line in [
        "gone ../victim".to_owned(),
        "file 7 0 ../victim".to_owned(),
        "new 8 - ../x".to_owned(),
        "gone VICTIM".to_owned(),
        "file 7 0 VICTIM".to_owned(),
        "new 8 - VICTIM.new".to_owned(),
        "gone file/../../victim".to_owned(),
    ] {
        for state in ["made", "making"] {
            let scene = Scene::new();
            scene.make();
            let line = line.replace("VICTIM", &scene.victim().display().to_string());
            let body = format!("nandu volume 2\n{state} 0\n{line}\n");
            let sum = crc32c::crc32c(body.as_bytes());
            let manifest = scene.volume().join(MANIFEST_NAME);
            std::fs::write(manifest, format!("{body}checksum {sum:08x}\n")).unwrap();
            let opened = DirectoryVolume::open(&scene.volume(), OPTIONS).unwrap_err();
            assert!(matches!(opened, StorageError::Corrupt { .. }), "{line}: {opened}");
            let made = DirectoryVolume::create(&scene.volume(), OPTIONS).unwrap_err();
            assert!(matches!(made, StorageError::Corrupt { .. }), "{line}: {made}");
            scene.assert_untouched(&line);
        }
    }
}

#[test]
fn links_in_a_directory_are_not_followed() {
    for name in ["file", MANIFEST_NAME, "nandu.lock", NEW_MANIFEST_NAME] {
        for leads_somewhere in [true, false] {
            let scene = Scene::new();
            scene.make();
            let nowhere = scene.place.path().join("nowhere");
            let target = if leads_somewhere { scene.victim() } else { nowhere };
            scene.link(name, &target);
            let context = format!("{name}, {leads_somewhere}");
            match DirectoryVolume::open(&scene.volume(), OPTIONS) {
                // What was to become the manifest is made anew, not through the link.
                Ok(mut volume) if name == NEW_MANIFEST_NAME => {
                    volume.create("another").unwrap();
                }
                Ok(_) => panic!("{context}: it was opened"),
                Err(error) => {
                    assert!(matches!(error, StorageError::Corrupt { .. }), "{context}: {error}");
                }
            }
            scene.assert_untouched(&context);
        }
    }
}

#[test]
fn a_new_file_is_not_made_through_a_link() {
    let scene = Scene::new();
    scene.make();
    let mut volume = DirectoryVolume::open(&scene.volume(), OPTIONS).unwrap();
    scene.link("another", &scene.place.path().join("nowhere"));
    let refused = volume.create("another").unwrap_err();
    assert!(matches!(refused, StorageError::Exists { .. }), "{refused}");
    scene.assert_untouched("another");
}

#[test]
fn pipes_and_directories_in_the_place_of_files_are_refused_without_waiting() {
    for name in ["file", MANIFEST_NAME, "nandu.lock"] {
        for read_only in [true, false] {
            let scene = Scene::new();
            scene.make();
            let path = scene.volume().join(name);
            std::fs::remove_file(&path).unwrap();
            let made = Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success());
            let options = DirectoryOptions { read_only, ..OPTIONS };
            let refused = DirectoryVolume::open(&scene.volume(), options).unwrap_err();
            assert!(matches!(refused, StorageError::Corrupt { .. }), "{name}: {refused}");
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
            let refused = DirectoryVolume::open(&scene.volume(), options).unwrap_err();
            assert!(matches!(refused, StorageError::Corrupt { .. }), "{name}: {refused}");
        }
    }
}

#[test]
fn a_directory_that_is_moved_away_is_not_left() {
    let scene = Scene::new();
    scene.make();
    let mut volume = DirectoryVolume::open(&scene.volume(), OPTIONS).unwrap();
    let moved = scene.place.path().join("moved");
    std::fs::rename(scene.volume(), &moved).unwrap();
    std::fs::create_dir(scene.volume()).unwrap();
    std::fs::write(scene.volume().join("file"), "of somebody").unwrap();
    let file = volume.files()[0].0;
    volume.remove(file).unwrap();
    volume.create("another").unwrap();
    assert_eq!(std::fs::read_to_string(scene.volume().join("file")).unwrap(), "of somebody");
    assert_eq!(std::fs::read_dir(scene.volume()).unwrap().count(), 1);
    assert!(moved.join("another").exists() && !moved.join("file").exists());
}
