//! What an experiment of this kind may say. What it measures is judged by the shapes of `s003/log-devices`.

use super::*;

fn experiment(variant: &str) -> LogDevices {
    let drive = DriveVariant { base: "sim:pcm-lines".into(), set: toml::Table::new() };
    LogDevices {
        drives: [("d".to_owned(), drive)].into(),
        variants: [("v".to_owned(), toml::from_str(variant).unwrap())].into(),
        record_count: 500,
        field_bytes: 10,
        log: ByteCount::mib(2),
        clients: vec![1, 4],
        operation_count: 2000,
    }
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    assert_eq!(experiment("set = { log_writing = 'direct' }").check(), Ok(()));
    let refused = |change: fn(&mut LogDevices)| {
        let mut kind = experiment("");
        change(&mut kind);
        kind.check().unwrap_err()
    };
    assert!(refused(|kind| kind.clients = vec![4, 1]).starts_with("`clients` must rise"));
    assert!(refused(|kind| kind.operation_count = 10).starts_with("`operation_count` must be 80"));
    assert!(refused(|kind| kind.drives.clear()).starts_with("`drives` or `variants` is empty"));
    let unknown = |kind: &mut LogDevices| {
        kind.variants.get_mut("v").unwrap().drives = Some(vec!["tape".into()]);
    };
    assert!(refused(unknown).contains("`tape`, which is no drive here"));
}
