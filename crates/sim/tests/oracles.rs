//! Simulations against closed forms through the public interface: any physical size, logical size and
//! erase block that a user picks (flash reference 2.1.4, target T2).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::HotColdClass;
use nandu_ftl::closed_form::separated_write_amplification;
use nandu_sim::{DriveChoice, Input, Job, RunConfig, SimReport, Unwatched, WarningKind};

fn job(workload: &str) -> Job {
    Job {
        drive: DriveChoice { name: "myers_slc".into(), ..DriveChoice::default() },
        input: Input::Workload(workload.into()),
        request_limit: None,
        run: RunConfig::default(),
    }
}

fn run(job: &Job) -> SimReport {
    job.run(&mut Unwatched).unwrap()
}

#[test]
fn uniform_writes_with_greedy_cleaning_agree_with_the_closed_form_at_any_size() {
    for (physical, logical, pages) in [(2048, 65_536, 64), (2500, 64_000, 32), (2100, 241_900, 128)]
    {
        let mut job = job("uniform");
        job.drive.physical_erase_blocks = Some(physical);
        job.drive.logical_pages = Some(logical);
        job.drive.erase_block_pages = Some(pages);
        job.drive.victim = Some("greedy".into());
        job.request_limit = Some(3 * logical);
        let report = run(&job);
        let theory = report.closed_form.unwrap();
        assert!(theory.deviation.abs() < 0.015, "{physical} {logical} {pages}: {theory:?}");
        assert_eq!(report.host_write_pages, 3 * logical);
        let programs: u64 = report.nand["program"].values().sum();
        let amplification = programs as f64 / report.host_write_pages as f64;
        assert!((report.write_amplification - amplification).abs() < 1e-12);
        let parts: f64 = report.write_amplification_by_cause.values().sum();
        assert!((report.write_amplification - parts).abs() < 1e-9);
        assert!((report.write_amplification_by_cause["host"] - 1.0).abs() < 1e-12);
        let erases: u64 = report.nand["erase"].values().sum();
        let mean = erases as f64 / f64::from(physical);
        assert!((report.erase_count.mean - mean).abs() < 1e-9);
    }
}

#[test]
fn a_drive_that_was_filled_in_order_reaches_the_same_steady_state() {
    let mut job = job("uniform");
    job.set("initial", "sequential").unwrap();
    job.request_limit = Some(300_000);
    let theory = run(&job).closed_form.unwrap();
    assert!(theory.deviation.abs() < 0.015, "{theory:?}");
}

#[test]
fn a_page_of_a_large_drive_takes_at_most_16_bytes() {
    let mut job = job("uniform");
    job.request_limit = Some(1000);
    job.set("warm-up", "0").unwrap();
    let bytes = run(&job).simulator_bytes_per_logical_page;
    assert!(bytes > 4.0 && bytes <= 16.0, "{bytes}");
}

#[test]
fn fifo_and_random_cleaning_agree_with_theirs() {
    for victim in ["fifo", "random"] {
        let mut job = job("uniform");
        job.set("victim", victim).unwrap();
        job.set("logical-pages", "104857").unwrap();
        job.set("requests", "400000").unwrap();
        let theory = run(&job).closed_form.unwrap();
        assert!(theory.deviation.abs() < 0.015, "{victim}: {theory:?}");
    }
}

#[test]
fn the_mean_response_of_the_closed_mode_is_equation_2_2_at_the_measured_live_fraction() {
    let mut job = job("uniform");
    job.request_limit = Some(300_000);
    let report = run(&job);
    let live = 1.0 - 1.0 / report.write_amplification;
    let expected = 200.0 + (1500.0 + 64.0 * live * 220.0) / (64.0 - 64.0 * live);
    let mean = report.latency_ns["write"].mean / 1000.0;
    assert!((mean / expected - 1.0).abs() < 0.005, "{mean} us, not {expected}");
    // Every wait is for the host's own writes, so the time is the sum of the responses.
    let total = report.latency_ns["write"].mean * 300_000.0;
    assert!((total / report.simulated_ns as f64 - 1.0).abs() < 1e-9);
    assert!((report.die_utilisation - 1.0).abs() < 1e-9);
}

#[test]
fn equal_jobs_give_equal_json_and_another_seed_another() {
    let mut job = job("uniform:read=30,trim=5");
    job.set("requests", "20000").unwrap();
    job.set("physical-erase-blocks", "256").unwrap();
    let json = |job: &Job| serde_json::to_string(&run(job)).unwrap();
    let first = json(&job);
    assert_eq!(first, json(&job));
    assert!(!first.contains("wall_ns"), "{first}");
    job.run.seed = 2;
    assert_ne!(first, json(&job));
}

/// The command of docs/cleaning.md: two streams with the shares of the best separation.
fn separated(workload: &str) -> Job {
    let mut job = job(workload);
    job.drive.physical_erase_blocks = Some(1500);
    job.drive.logical_pages = Some(84_000);
    for (key, value) in [
        ("victim", "fifo"),
        ("requests", "300000"),
        ("ftl.stream_count", "2"),
        ("ftl.cleaning_frontier", "per_stream"),
        ("ftl.stream_share_ppm", "[147515, 851484]"),
    ] {
        job.set(key, value).unwrap();
    }
    job
}

#[test]
fn streams_with_shares_reach_the_optimum_of_separation_from_the_default_filling() {
    let class = |access_share, item_share| HotColdClass { access_share, item_share };
    let classes = [class(0.9, 0.1), class(0.1, 0.9)];
    // Three free erase blocks and two open ones are no spare space.
    let optimum = separated_write_amplification(84_000.0 / (1495.0 * 64.0), &classes);
    for workload in ["zones:s0.1f0.9+s0.9f0.1", "zones:s0.1f0.9+s0.9f0.1,clustered=no"] {
        let report = run(&separated(workload));
        let deviation = report.write_amplification / optimum - 1.0;
        assert!(deviation.abs() < 0.015, "{workload}: {deviation}");
        assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    }
}

#[test]
fn data_in_the_wrong_stream_are_warned_of() {
    let mut job = separated("zones:s0.1f0.9+s0.9f0.1");
    job.set("initial", "sequential").unwrap();
    job.set("warm-up", "0").unwrap();
    job.set("requests", "20000").unwrap();
    let report = run(&job);
    let kinds: Vec<_> = report.warnings.iter().map(|warning| warning.kind).collect();
    assert_eq!(kinds, [WarningKind::StreamOverShare], "{:?}", report.warnings);
    assert!(report.write_amplification > 3.0, "{}", report.write_amplification);
    // On an empty drive streams have no other share than what they wrote, and nothing is copied.
    job.set("initial", "fresh").unwrap();
    assert_eq!(run(&job).warnings, []);
}

#[test]
fn a_trace_is_not_filled_by_streams_that_it_does_not_say() {
    let mut job = separated("zones");
    job.set("trace", "no such file, which is not looked for").unwrap();
    job.set("initial", "by_stream").unwrap();
    let error = job.run(&mut Unwatched).unwrap_err().to_string();
    assert!(error.contains("by_stream, which needs a workload"), "{error}");
}
