//! The event mode against queueing theory, which knows nothing of its rules: M/D/1 and M/G/1 for one die,
//! a closed network of dies, saturation of dies and channels.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_sim::{DriveChoice, InitialState, Input, Job, Mode, RunConfig, SimReport, Unwatched};

const READ_S: f64 = 20e-6;
const PROGRAM_S: f64 = 200e-6;

/// Requests to a filled `myers_slc` (20/200 us) of so many channels and dies that is never cleaned.
fn run(
    workload: &str,
    (channels, dies): (u32, u32),
    depth: u32,
    more: &[(&str, &str)],
) -> SimReport {
    let mut job = Job {
        drive: DriveChoice {
            name: "myers_slc".into(),
            physical_erase_blocks: Some(8192),
            logical_pages: Some(65_536),
            settings: vec![
                ("channel_count".into(), channels.to_string()),
                ("dies_per_channel".into(), dies.to_string()),
            ],
            ..DriveChoice::default()
        },
        input: Input::Workload(workload.into()),
        request_limit: Some(200_000),
        run: RunConfig {
            mode: Mode::Event,
            queue_depth: depth,
            initial: Some(InitialState::Sequential),
            warm_up: Some(0.0),
            ..RunConfig::default()
        },
    };
    for (key, value) in more {
        job.set(key, value).unwrap();
    }
    job.run(&mut Unwatched).unwrap()
}

fn close(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < share, "{what}: {found:.9} for {expected:.9}");
}

#[test]
fn one_die_with_poisson_arrivals_of_reads_is_m_d_1() {
    for (load, seed) in [(0.3, 1), (0.6, 2), (0.8, 3)] {
        let rate = load / READ_S;
        let workload = format!("uniform:read=100,arrival=exponential,rate={rate:.0}");
        let report = run(&workload, (1, 1), 1_000_000, &[("seed", &seed.to_string())]);
        let expected = READ_S + load * READ_S / (2.0 * (1.0 - load));
        close(report.latency_ns["read"].mean / 1e9, expected, 0.03, &format!("load {load}"));
        // Utilisation law.
        close(report.die_utilisation, load, 0.01, "utilisation");
    }
}

#[test]
fn one_die_with_reads_and_programs_is_m_g_1() {
    for (load, seed) in [(0.3, 4), (0.6, 5), (0.75, 6)] {
        let (mean, square) =
            (0.7 * READ_S + 0.3 * PROGRAM_S, 0.7 * READ_S * READ_S + 0.3 * PROGRAM_S * PROGRAM_S);
        let rate = load / mean;
        let workload = format!("uniform:read=70,arrival=exponential,rate={rate:.0}");
        let report = run(&workload, (1, 1), 1_000_000, &[("seed", &seed.to_string())]);
        // Pollaczek and Khinchine: everybody waits alike.
        let wait = rate * square / (2.0 * (1.0 - load));
        let found = |kind: &str| report.latency_ns[kind].mean / 1e9;
        close(found("read") - READ_S, wait, 0.06, &format!("reads wait at load {load}"));
        close(found("write") - PROGRAM_S, wait, 0.06, &format!("writes wait at load {load}"));
    }
}

#[test]
fn dies_in_a_closed_loop_lie_between_mean_value_analysis_and_their_bounds() {
    // Exponential service would give N / (N + D - 1) of all dies (mean value analysis of a balanced
    // network); service that never varies gives more, and never more than all or than N can keep busy.
    for (dies, depth) in [(4, 2), (4, 16), (16, 8), (16, 64)] {
        let report = run("uniform:read=100", (dies, 1), depth, &[]);
        let (n, d) = (f64::from(depth), f64::from(dies));
        let exponential = n / (n + d - 1.0) * d / READ_S;
        let most = (n / READ_S).min(d / READ_S);
        let found = report.requests_per_second;
        assert!(found > 1.01 * exponential, "{dies} dies, depth {depth}: {found} {exponential}");
        assert!(found < most, "{dies} dies, depth {depth}: {found} of {most}");
    }
}

#[test]
fn a_channel_and_a_die_saturate_at_what_they_carry() {
    // 2112 bytes at 40 MB/s take 52.8 us: 18,939 reads a second whatever the dies.
    let bus = [("chip_overrides.bus_bytes_per_second", "40000000")];
    for (channels, dies) in [(1, 16), (2, 16)] {
        let report = run("uniform:read=100", (channels, dies), 256, &bus);
        close(report.requests_per_second, f64::from(channels) / 52.8e-6, 0.01, "channels");
    }
    let report = run("uniform", (1, 1), 8, &bus);
    close(report.requests_per_second, 1.0 / 252.8e-6, 0.001, "a die programs one after the other");
    let cached = [bus[0], ("chip_overrides.cache_register", "true")];
    let report = run("uniform", (1, 1), 8, &cached);
    close(report.requests_per_second, 1.0 / PROGRAM_S, 0.001, "a register hides the transfer");
}
