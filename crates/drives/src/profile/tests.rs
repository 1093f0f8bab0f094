//! What a profile may say, and where it is found.

use super::*;
use nandu_base::Nanos;

const SCM: &str = r#"title = "A memory"
paper = "S003"
kind = "scm"
capacity = "1MiB"
sector_bytes = 512

[scm]
line_bytes = 64
read_line_ns = 50
write_line_ns = 1000
bank_count = 8
read_bytes_per_second = 0
write_bytes_per_second = 0
overhead_ns = 100
queue_depth = 16

[sources]
"scm.line_bytes" = "[M] a cache line"
"#;

fn error_of(from: &str, to: &str) -> String {
    let text = SCM.replacen(from, to, 1);
    assert_ne!(text, SCM, "the test changes something");
    Profile::parse("x", "profiles/x.toml", &text).unwrap_err().to_string()
}

#[test]
fn a_profile_opens_as_the_drive_it_describes() {
    let profile = Profile::parse("x", "x.toml", SCM).unwrap();
    assert_eq!(profile.kind(), DriveKind::Scm);
    let device = profile.open(SimOptions::default()).unwrap();
    assert_eq!(device.info().name, "sim:x");
    assert_eq!(device.info().geometry.capacity(), ByteCount::mib(1));
    let capacity = Some(ByteCount::kib(64));
    let small = profile.open(SimOptions { capacity, ..SimOptions::default() }).unwrap();
    assert_eq!(small.info().geometry.sector_count, 128);
    let capacity = Some(ByteCount::mib(2));
    let error = profile.open(SimOptions { capacity, ..SimOptions::default() }).err().unwrap();
    assert!(error.to_string().contains("at most 1 MiB"), "{error}");
}

#[test]
fn an_unknown_key_is_named_with_file_line_and_nearest() {
    let error = error_of("read_line_ns", "raed_line_ns");
    assert!(error.starts_with("profiles/x.toml:9: unknown field `raed_line_ns`"), "{error}");
    assert!(error.ends_with("did you mean `read_line_ns`?"), "{error}");
    let error = error_of("kind = \"scm\"", "kind = \"sdd\"");
    assert!(error.starts_with("profiles/x.toml:3:"), "{error}");
    assert!(error.ends_with("did you mean `ssd`?"), "{error}");
}

#[test]
fn a_figure_out_of_range_is_named_with_its_line() {
    let error = error_of("line_bytes = 64", "line_bytes = 65");
    assert!(error.starts_with("profiles/x.toml:8: `line_bytes`"), "{error}");
    let error = error_of("overhead_ns = 100", "overhead_ns = 5000000000000000000");
    let said = "profiles/x.toml:14: `overhead_ns` is 5000000000000000000, must be at most";
    assert!(error.starts_with(said), "{error}");
    let error = error_of("capacity = \"1MiB\"", "capacity = \"2000000GiB\"");
    assert!(error.contains("`capacity` is ") && error.contains("at most 1 PiB"), "{error}");
    let error = error_of("capacity = \"1MiB\"", "capacity = \"many\"");
    assert!(error.starts_with("profiles/x.toml:4: `capacity`: `many` is not a size"), "{error}");
    for bad in ["0", "1000"] {
        let error = error_of("sector_bytes = 512", &format!("sector_bytes = {bad}"));
        assert!(error.starts_with("profiles/x.toml:5: `sector_bytes`"), "{error}");
    }
    let lines = SCM.replace("sector_bytes = 512", "sector_bytes = 64");
    let lines = Profile::parse("x", "x.toml", &lines).unwrap();
    assert_eq!(lines.geometry.sector_bytes, 64, "a memory has lines");
    let disk = Profile::load("wd2000jb").unwrap().text;
    let disk = disk.replace("sector_bytes = 512", "sector_bytes = 64");
    let error = Profile::parse("x", "x.toml", &disk).unwrap_err().to_string();
    assert!(error.contains("`sector_bytes` is 64, must be at least 512"), "{error}");
    let error = error_of("kind = \"scm\"", "kind = \"hdd\"");
    assert!(error.contains("`kind` hdd needs a section [hdd]"), "{error}");
}

#[test]
fn an_unknown_name_suggests_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my-memory.toml"), SCM).unwrap();
    let error = Profile::load_in(folder.path(), "mymemory").unwrap_err().to_string();
    assert_eq!(error, "there is no simulated drive `mymemory`; did you mean `my-memory`?");
    let error = Profile::load_in(folder.path(), "../my-memory").unwrap_err();
    assert!(matches!(error, ProfileError::NotFound { .. }), "a name is no path");
    let missing = folder.path().join("no.toml").display().to_string();
    let error = Profile::load(&missing).unwrap_err();
    assert!(matches!(error, ProfileError::Unreadable { .. }));
}

#[test]
fn a_file_on_disk_comes_before_the_embedded_profile() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Profile::load_in(folder.path(), "pcm").unwrap();
    assert_ne!(embedded.title, "A memory");
    std::fs::write(folder.path().join("pcm.toml"), SCM).unwrap();
    assert_eq!(Profile::load_in(folder.path(), "pcm").unwrap().title, "A memory");
    assert!(Profile::list_in(folder.path()).contains(&"pcm".to_owned()));
}

#[test]
fn every_figure_of_every_embedded_profile_has_its_source() {
    let nowhere = tempfile::tempdir().unwrap();
    let names = Profile::list_in(nowhere.path());
    assert!(names.contains(&"wd2000jb".to_owned()), "{names:?}");
    for name in names {
        let profile = Profile::load_in(nowhere.path(), &name).unwrap();
        let missing = profile.figures_without_source();
        assert!(missing.is_empty(), "{name} has figures without a source: {missing:?}");
        let mut figures = Vec::new();
        let table: toml::Table = profile.text.parse().unwrap();
        let label = profile.kind().label();
        collect_figures(label, &table[label], &mut figures);
        for path in profile.sources.keys() {
            let names_a_figure = figures.iter().any(|(figure, _)| figure.starts_with(path));
            assert!(names_a_figure, "{name} has a source for no figure: {path}");
        }
    }
    let bare = Profile::parse("x", "x.toml", SCM).unwrap();
    assert_eq!(bare.figures_without_source().len(), 7, "only one of eight has a source");
}

#[test]
fn every_embedded_profile_opens_small_and_serves_a_request() {
    let nowhere = tempfile::tempdir().unwrap();
    for name in Profile::list_in(nowhere.path()) {
        let profile = Profile::load_in(nowhere.path(), &name).unwrap();
        let capacity = Some(ByteCount::mib(64).min(profile.geometry.capacity()));
        let options = SimOptions { capacity, ..SimOptions::default() };
        let mut device = profile.open(options).unwrap();
        let count = 8192 / profile.geometry.sector_bytes;
        let request = nandu_device::Request::write(1, 0, count, None);
        let done = nandu_device::testing::run(device.as_mut(), request);
        done.result.unwrap();
        assert!(done.completed_at > Nanos::ZERO, "{name}");
    }
}
