//! The profiles of hard disks stay within a quarter of the figures that their papers print. The rows
//! are those of the example that prints the table of docs/device-model.md.

#[path = "../examples/profile_check.rs"]
#[allow(dead_code, reason = "the example's main is not called here")]
mod profile_check;

#[test]
fn hard_disks_keep_their_published_figures() {
    let mut published_count = 0;
    for row in profile_check::rows() {
        let Some((published, source)) = row.published else { continue };
        published_count += 1;
        let simulated = profile_check::measure(&row);
        let ratio = simulated / published;
        assert!(
            (0.75..=1.25).contains(&ratio),
            "{} {}: {simulated} against {published} of {source}",
            row.profile,
            row.what
        );
    }
    assert!(published_count > 10);
}
