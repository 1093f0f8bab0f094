//! Queueing theory as an oracle, and the shapes of flash reference target T3 at a reduced size.

use super::*;
use crate::StandardLayout;
use std::collections::BTreeMap;

const CASES: [fn(DelayReading) -> Load; 3] = [Load::write_heavy, Load::mixed, Load::read_heavy];

fn scenario(member: Member, layout: Layout, load: Load) -> Scenario {
    let epoch = match member {
        Member::Flash(_) => Nanos::from_millis(150),
        Member::Disk(_) => Nanos::from_seconds(5),
    };
    Scenario { epoch, epoch_count_max: 16, ..Scenario::of_thesis(layout, member, load) }
}

/// Operations per second of every layout of four members, over that of the best.
fn relative(member: Member, load: Load) -> BTreeMap<Layout, f64> {
    let layouts: Vec<Layout> = Layout::all(4).collect();
    let scenarios: Vec<Scenario> =
        layouts.iter().map(|&layout| scenario(member, layout, load)).collect();
    let rates = run_all(&scenarios, 1, 2).unwrap();
    let rates: Vec<f64> = rates.iter().map(Summary::operations_per_second).collect();
    let best = rates.iter().copied().fold(0.0, f64::max);
    layouts.into_iter().zip(rates).map(|(layout, rate)| (layout, rate / best)).collect()
}

fn on_four(standard: StandardLayout) -> Layout {
    standard.on(4).unwrap()
}

#[test]
fn one_server_with_poisson_arrivals_waits_as_pollaczek_and_khinchine_say() {
    // M/D/1: the mean wait is rho S / (2 (1 - rho)).
    for (rho, tolerance) in [(0.3, 0.03), (0.7, 0.03), (0.9, 0.08)] {
        let service_ns = 100_000_u64;
        let mut rng = Rng::new(5);
        let mut server = Server::default();
        let (mut arrival, mut waited) = (0.0_f64, 0.0);
        let count = 400_000;
        for _ in 0..count {
            arrival -= (1.0 - rng.unit()).ln() * service_ns as f64 / rho;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
            let now = arrival as u64;
            waited += (server.serve(now, service_ns) - service_ns - now) as f64;
        }
        let expected = rho * service_ns as f64 / (2.0 * (1.0 - rho));
        let found = waited / f64::from(count);
        assert!((found / expected - 1.0).abs() < tolerance, "{rho}: {found} for {expected}");
    }
}

#[test]
fn littles_law_counts_the_workers() {
    for layout in Layout::all(4) {
        for case in CASES {
            let load = case(DelayReading::Calibrated);
            let summary = scenario(Member::thesis_chip(), layout, load).run(1).unwrap();
            let workers = f64::from(load.reader_count + load.writer_count);
            let found = summary.little_worker_count();
            assert!((found / workers - 1.0).abs() < 0.01, "{}: {found}", layout.name());
        }
    }
}

#[test]
fn a_lone_reader_waits_for_the_chip_only() {
    let load = Load { reader_count: 1, writer_count: 0, ..Load::mixed(DelayReading::Literal) };
    for layout in Layout::all(4) {
        let summary = scenario(Member::thesis_chip(), layout, load).run(1).unwrap();
        assert_eq!(summary.reads.mean_response(), Nanos(20_000));
    }
    let load = Load { reader_count: 0, writer_count: 1, ..load };
    let stripe = scenario(Member::thesis_chip(), on_four(StandardLayout::Stripe), load);
    let response = stripe.run(1).unwrap().writes.mean_response();
    assert!(response.0.abs_diff(116_719) <= 1, "{response}");
}

#[test]
fn a_lone_worker_waits_for_coding_too() {
    let coding = Coding { matrix: CodingMatrix::Dense, bytes_per_second: 204_800_000 };
    let load = Load { reader_count: 1, writer_count: 0, ..Load::mixed(DelayReading::Literal) };
    let stripe = scenario(Member::thesis_chip(), on_four(StandardLayout::Stripe), load);
    let summary = Scenario { coding: Some(coding), ..stripe }.run(1).unwrap();
    assert_eq!(summary.reads.mean_response(), Nanos(20_000 + 40_000));
    let load = Load { reader_count: 0, writer_count: 1, ..load };
    let summary = Scenario { load, coding: Some(coding), ..stripe }.run(1).unwrap();
    let response = summary.writes.mean_response();
    assert!(response.0.abs_diff(116_719 + 40_000) <= 1, "{response}");
    assert!((summary.little_worker_count() - 1.0).abs() < 0.01);
    let free = Coding { bytes_per_second: 0, ..coding };
    assert!(Scenario { coding: Some(free), ..stripe }.run(1).is_err());
}

#[test]
fn readers_without_thoughts_reach_the_ceiling_of_the_chips() {
    // Flash reference 7.3: a stripe reads at most 50,000 blocks a second, one copy 200,000.
    let load = Load {
        reader_count: 64,
        writer_count: 0,
        read_think_base: Nanos::ZERO,
        write_think_base: Nanos::ZERO,
    };
    for (standard, ceiling) in
        [(StandardLayout::Stripe, 50_000.0), (StandardLayout::OneCopy, 200_000.0)]
    {
        let summary = scenario(Member::thesis_chip(), on_four(standard), load).run(1).unwrap();
        let share = summary.operations_per_second() / ceiling;
        assert!((0.9..1.001).contains(&share), "{}: {share}", standard.label());
    }
}

#[test]
fn equal_seeds_give_equal_runs_whatever_the_threads() {
    let scenarios: Vec<Scenario> = Layout::all(4)
        .map(|layout| {
            scenario(Member::thesis_chip(), layout, Load::write_heavy(DelayReading::Literal))
        })
        .collect();
    let alone = run_all(&scenarios, 9, 1).unwrap();
    assert_eq!(alone, run_all(&scenarios, 9, 3).unwrap());
    assert_ne!(alone, run_all(&scenarios, 10, 3).unwrap());
}

#[test]
fn on_disks_one_copy_is_best_in_every_case() {
    for reading in [DelayReading::Literal, DelayReading::Calibrated] {
        for case in CASES {
            let shares = relative(Member::thesis_disk(), case(reading));
            assert_eq!(shares[&on_four(StandardLayout::OneCopy)], 1.0);
            assert!(shares[&on_four(StandardLayout::Stripe)] < 0.4);
        }
    }
}

#[test]
fn on_chips_the_best_layout_depends_on_the_load() {
    for reading in [DelayReading::Literal, DelayReading::Calibrated] {
        let writes = relative(Member::thesis_chip(), Load::write_heavy(reading));
        assert_eq!(writes[&on_four(StandardLayout::Stripe)], 1.0);
        let reads = relative(Member::thesis_chip(), Load::read_heavy(reading));
        assert!(reads[&on_four(StandardLayout::Replication)] >= 0.99);
    }
}

#[test]
fn the_calibrated_delay_gives_the_order_of_layouts_of_the_thesis() {
    let [stripe, replication, one_copy] =
        [StandardLayout::Stripe, StandardLayout::Replication, StandardLayout::OneCopy].map(on_four);
    let [writes, mixed, reads] =
        CASES.map(|case| relative(Member::thesis_chip(), case(DelayReading::Calibrated)));
    assert!((0.77..=0.83).contains(&reads[&stripe]), "{}", reads[&stripe]);
    assert!((0.55..=0.65).contains(&writes[&replication]), "{}", writes[&replication]);
    assert!(mixed[&stripe] >= 0.98, "{}", mixed[&stripe]);
    for shares in [writes, mixed, reads] {
        assert!(shares[&one_copy] < 1.0);
    }
}

#[test]
fn bursts_of_cleaning_take_the_write_heavy_case_from_the_stripe() {
    let Member::Flash(mut chip) = Member::thesis_chip() else { unreachable!() };
    chip.cleaning = Cleaning::Bursty;
    let load = Load::write_heavy(DelayReading::Literal);
    // Chips that clean at distinct times make a stripe wait for each; how far apart they are is the
    // seed's, so the margin is small.
    for seed in 1..=4 {
        let rate = |standard| {
            let scenario = scenario(Member::Flash(chip), on_four(standard), load);
            scenario.run(seed).unwrap().operations_per_second()
        };
        let share = rate(StandardLayout::Stripe) / rate(StandardLayout::OneCopy);
        assert!(share < 0.95, "seed {seed}: {share}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let load = Load::mixed(DelayReading::Literal);
    let good = scenario(Member::thesis_chip(), on_four(StandardLayout::Stripe), load);
    let nobody = Load { reader_count: 0, writer_count: 0, ..load };
    for bad in [
        Scenario { block_count: 0, ..good },
        Scenario { block_bytes: 0, ..good },
        Scenario { epoch: Nanos::ZERO, ..good },
        Scenario { epoch_count_max: 7, ..good },
        Scenario { load: nobody, ..good },
    ] {
        assert!(bad.run(1).is_err());
    }
}

#[test]
fn more_members_than_are_simulated_are_refused() {
    let load = Load::mixed(DelayReading::Calibrated);
    let on = |count| {
        let layout = StandardLayout::Stripe.on(count).unwrap();
        Scenario::of_thesis(layout, Member::thesis_chip(), load).check()
    };
    assert_eq!(on(16), Ok(()));
    assert!(on(17).unwrap_err().to_string().starts_with("`layout` has more than 16 members"));
}
