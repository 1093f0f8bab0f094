//! Requests that fail under the engine: a sync that loses what it was to make durable, a write of which
//! a part arrives, a device without room.
//!
//! 1. Whoever goes on after an error as if nothing had been loses nothing that was acknowledged.
//! 2. After a sync that failed nothing is acknowledged any more, and the answer says why.

use super::*;
use nandu_device::Failure;

fn ways() -> [Settings; 4] {
    let of = |torn_pages| Settings { checkpoint_bytes: 16 << 10, ..settings(torn_pages) };
    [
        of(TornPages::LogImages),
        of(TornPages::DoubleWrite),
        Settings { checkpoint_bytes: 16 << 10, ..log_structured() },
        Settings { checkpoint_bytes: 16 << 10, ..page_differential() },
    ]
}

/// Transactions by somebody who tries again after each error. What a restart must show, or may.
fn run_stubbornly(engine: &mut Engine, seed: u64) -> (Rows, Option<Rows>) {
    let (mut rng, mut committed) = (Rng::for_part(seed, "stubborn"), Rows::new());
    let mut uncertain = None;
    for _ in 0..4 {
        let outcome = run(engine, &mut rng, 30, &mut committed);
        uncertain = uncertain.or(outcome);
        if engine.is_active() && engine.rollback().is_err() {
            break;
        }
    }
    (committed, uncertain)
}

fn refuses_everything(engine: &mut Engine) -> bool {
    let is_refusal = |answer: Result<(), StorageError>| match answer {
        Err(StorageError::Poisoned { cause }) => {
            assert!(cause.contains("planned"), "it says why: {cause}");
            true
        }
        _ => false,
    };
    is_refusal(engine.begin())
        && is_refusal(engine.checkpoint())
        && is_refusal(engine.checkpoint_fully())
        && is_refusal(engine.create_file("more").map(drop))
        && is_refusal(engine.drop_cached_pages())
}

/// Fails one request of a run, and cuts the power after it or not. Says whether the engine stopped, and
/// whether the request came.
fn fail_at(settings: &Settings, failing: u64, seed: u64, context: &str) -> (bool, bool) {
    let device = device();
    let mut engine = create(&device, settings);
    let at = device.lock().submitted_count() + failing;
    let (fail_requests, failure) = (vec![at], Failure::Damages);
    device.lock().set_plan(FaultPlan { fail_requests, failure, seed, ..FaultPlan::default() });
    let (committed, uncertain) = run_stubbornly(&mut engine, failing);
    let came = device.lock().submitted_count() >= at;
    let stopped = engine.data_io.check().is_err();
    if stopped {
        assert!(refuses_everything(&mut engine), "{context}: it has to be opened again");
    }
    drop(engine);
    device.forget_completions();
    if seed.is_multiple_of(2) {
        restore_power(&device);
    } else {
        device.lock().set_plan(FaultPlan::default());
    }
    let (engine, _) =
        reopen(&device, settings).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_state(&engine, &committed, uncertain.as_ref(), context);
    (stopped, came)
}

#[test]
fn a_failed_sync_or_a_torn_write_loses_nothing_that_was_committed() {
    for settings in ways() {
        let mut stopped_count = 0;
        for failing in (1..).step_by(3) {
            let context =
                format!("{:?} {:?} {failing}", settings.propagation.kind, settings.torn_pages);
            let (stopped, came) = fail_at(&settings, failing, failing / 3, &context);
            stopped_count += u64::from(stopped);
            if !came {
                break;
            }
        }
        assert!(stopped_count > 10, "syncs are among what fails: {stopped_count}");
    }
}

#[test]
fn a_load_whose_sync_fails_stops_the_engine() {
    for settings in ways() {
        let device = device();
        let mut engine = create(&device, &settings);
        let file = engine.create_file("loaded").unwrap();
        let mut pages = engine.unlogged_pages(file).unwrap();
        crate::ChangePages::create(&mut pages, PageAddress::new(file, 1)).unwrap();
        // All that is written before succeeds; the flush is the last request, or nearly.
        let mut ahead = 0;
        let error = loop {
            ahead += 1;
            let at = device.lock().submitted_count() + ahead;
            let plan = FaultPlan { fail_requests: vec![at], ..FaultPlan::default() };
            device.lock().set_plan(plan);
            match engine.make_unlogged_durable(file) {
                Err(error) if engine.data_io.check().is_err() => break error,
                _ => assert!(ahead < 20, "a load is made durable by a sync"),
            }
        };
        assert!(matches!(error, StorageError::Device { .. }), "{error}");
        assert!(refuses_everything(&mut engine));
        let again = engine.make_unlogged_durable(file);
        assert!(matches!(again, Err(StorageError::Poisoned { .. })), "{again:?}");
    }
}

#[test]
fn a_file_whose_making_fails_in_its_sync_stops_the_engine() {
    let device = device();
    let mut engine = create(&device, &settings(TornPages::DoubleWrite));
    let at = device.lock().submitted_count() + 1;
    device.lock().set_plan(FaultPlan { fail_requests: vec![at], ..FaultPlan::default() });
    assert!(matches!(engine.create_file("b"), Err(StorageError::Device { .. })));
    assert!(refuses_everything(&mut engine));
}

#[test]
fn a_device_that_fills_up_loses_nothing_that_was_committed() {
    for settings in ways() {
        for full_from in (1..200).step_by(7) {
            let device = device();
            let mut engine = create(&device, &settings);
            let at = device.lock().submitted_count() + full_from;
            let full_from_request = Some(at);
            device.lock().set_plan(FaultPlan { full_from_request, ..FaultPlan::default() });
            let (committed, uncertain) = run_stubbornly(&mut engine, full_from);
            drop(engine);
            restore_power(&device);
            let context = format!("{:?} full from {full_from}", settings.propagation.kind);
            let (engine, _) = reopen(&device, &settings).unwrap();
            assert_state(&engine, &committed, uncertain.as_ref(), &context);
        }
    }
}
