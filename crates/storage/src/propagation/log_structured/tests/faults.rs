//! Power cuts and failing requests at every request of a run, and a device that is full.

use super::*;
use nandu_device::{Failure, UnflushedFate};

pub(super) fn cut_after(bench: &Bench, request_count: u64, fate: u8, seed: u64) -> FaultPlan {
    let (unflushed, torn_sector_count) = match fate {
        0 => (UnflushedFate::Dropped, None),
        1 => (UnflushedFate::Kept, Some(3)),
        _ => (UnflushedFate::Torn, Some(1)),
    };
    let at = bench.disk.lock().submitted_count() + request_count;
    let power_cut_at_request = Some(at);
    FaultPlan { power_cut_at_request, torn_sector_count, unflushed, seed, ..FaultPlan::default() }
}

/// A run with everything in it, that ends at the first error.
fn small_run(bench: &mut Bench) -> Result<(), StorageError> {
    let mut rng = Rng::new(5);
    for step in 0..45 {
        random_step(bench, &mut rng, 60)?;
        if step % 8 == 7 {
            bench.sync()?;
        }
    }
    bench.truncate(FileId(2), 20)?;
    bench.sync()
}

/// How many requests a run takes without faults, and that it cleans.
fn request_count() -> u64 {
    let mut bench = Bench::new(disk(4096, FaultPlan::default()), small()).unwrap();
    let before = bench.disk.lock().submitted_count();
    small_run(&mut bench).unwrap();
    let counters = bench.propagation.counters();
    assert!(counters.cleaned_segment_count > 3, "the run cleans: {counters:?}");
    assert!(counters.checkpoint_count > 3, "the run writes maps: {counters:?}");
    assert!(counters.difference_count > 20, "and differences: {counters:?}");
    bench.disk.lock().submitted_count() - before
}

#[test]
fn a_cut_at_every_request_loses_nothing_that_was_synced() {
    for request in 1..=request_count() {
        for fate in 0..3 {
            let mut bench = Bench::new(disk(4096, FaultPlan::default()), small()).unwrap();
            let plan = cut_after(&bench, request, fate, request);
            bench.disk.lock().set_plan(plan);
            small_run(&mut bench).expect_err("the power goes");
            bench.reopen(FaultPlan::default()).unwrap();
            bench.write(&[page(1, 1), page(2, 7)]).unwrap();
            bench.sync().unwrap();
            bench.reopen(FaultPlan::default()).unwrap();
            bench.check().unwrap();
        }
    }
}

#[test]
fn a_cut_at_every_request_of_opening_loses_nothing() {
    let mut request = 1;
    loop {
        let mut bench = Bench::new(disk(4096, FaultPlan::default()), small()).unwrap();
        let _ = small_run(&mut bench);
        // Something behind the last sync, torn, and then a cut while that is looked at.
        bench.write(&[page(1, 3), page(1, 4), page(2, 5)]).unwrap();
        bench.propagation.emit(HOST).unwrap();
        bench.disk.lock().set_plan(FaultPlan {
            unflushed: UnflushedFate::Torn,
            seed: request,
            ..FaultPlan::default()
        });
        let plan = cut_after(&bench, request, 2, request);
        let is_past_the_end = bench.reopen(plan).is_ok();
        bench.reopen(FaultPlan::default()).unwrap();
        bench.check().unwrap();
        if is_past_the_end {
            break;
        }
        request += 1;
    }
    assert!(request > 10, "opening takes requests: {request}");
}

#[test]
fn a_request_that_fails_gives_an_error_and_loses_nothing() {
    for request in 1..=request_count() {
        let mut bench = Bench::new(disk(4096, FaultPlan::default()), small()).unwrap();
        let at = bench.disk.lock().submitted_count() + request;
        let failure = Failure::Damages;
        let plan =
            FaultPlan { fail_requests: vec![at], failure, seed: request, ..FaultPlan::default() };
        bench.disk.lock().set_plan(plan);
        let mut rng = Rng::new(5);
        for step in 0..45 {
            // Whether the pages of a call that failed are there is not known; they are written again.
            let before = bench.model.step;
            if let Err(error) = random_step(&mut bench, &mut rng, 60) {
                let is_planned = matches!(error, StorageError::Device { .. });
                assert!(is_planned, "request {request}: {error}");
                match bench.io.check() {
                    Ok(()) => write_again(&mut bench, before),
                    Err(_) => bench.reopen(FaultPlan::default()).unwrap(),
                }
            }
            if step % 8 == 7 {
                sync_or_reopen(&mut bench);
            }
        }
        sync_or_reopen(&mut bench);
        bench.check().unwrap_or_else(|error| panic!("request {request}: {error}"));
        bench.reopen(FaultPlan::default()).unwrap();
        bench.check().unwrap();
    }
}

/// What a pool makes of failures: pages of a write that failed stay changed, and are written again at some
/// time, with more changes perhaps.
fn live_with_failures(seed: u64, page_count: u64) -> Result<(), StorageError> {
    let mut rng = Rng::for_part(seed, "failures");
    let settings = LogStructuredSettings::small(PAGE_BYTES, seed);
    let mut bench = Bench::new(disk(8192, FaultPlan::default()), settings).unwrap();
    let mut unwritten: Vec<PageAddress> = Vec::new();
    for _ in 0..12 {
        let from = bench.disk.lock().submitted_count() + 1;
        let fail_requests = (0..3).map(|_| from + rng.below(60)).collect();
        let plan =
            FaultPlan { fail_requests, failure: Failure::Damages, seed, ..FaultPlan::default() };
        bench.disk.lock().set_plan(plan);
        for _ in 0..12 {
            let step = bench.model.step;
            let answer = random_step(&mut bench, &mut rng, page_count);
            bench.io.check()?;
            let newer = |(&address, versions): (&PageAddress, &Vec<(u64, u32)>)| {
                let &(at, version) = versions.last()?;
                (at > step).then_some((address, version))
            };
            let touched: Vec<(PageAddress, u32)> =
                bench.model.versions.iter().filter_map(newer).collect();
            unwritten.retain(|address| touched.iter().all(|(other, _)| other != address));
            if answer.is_err() {
                for file in [FileId(1), FileId(2)] {
                    let mut gone =
                        touched.iter().filter(|(page, version)| *version == 0 && page.file == file);
                    if let Some((first, _)) = gone.next() {
                        bench.disk.lock().set_plan(FaultPlan::default());
                        bench.propagation.truncate(file, first.page)?;
                    }
                }
                let written = touched.iter().filter(|(_, version)| *version > 0);
                unwritten.extend(written.map(|(address, _)| *address));
            }
            bench.propagation.audit();
        }
        bench.disk.lock().set_plan(FaultPlan::default());
        if !unwritten.is_empty() {
            bench.write(&std::mem::take(&mut unwritten))?;
        }
        bench.check()?;
        bench.sync()?;
    }
    bench.reopen(FaultPlan::default())?;
    bench.check()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn whoever_writes_again_what_failed_finds_what_was_written_last(
        seed in any::<u64>(), page_count in 16_u64..120,
    ) {
        // After a sync that failed nothing is known.
        let lived = live_with_failures(seed, page_count);
        let is_over = matches!(lived, Ok(()) | Err(StorageError::Poisoned { .. }));
        prop_assert!(is_over, "{lived:?}");
    }
}

/// After a write that failed it works the next time; after a sync that failed nothing is known but what
/// was durable before.
fn sync_or_reopen(bench: &mut Bench) {
    if bench.sync().is_err() {
        if bench.io.check().is_err() {
            bench.reopen(FaultPlan::default()).unwrap();
        }
        bench.sync().unwrap();
    }
}

/// Does again what was done after `step`: whoever gets an error may do so.
fn write_again(bench: &mut Bench, step: u64) {
    let newer = |(&address, versions): (&PageAddress, &Vec<(u64, u32)>)| {
        versions.last().filter(|&&(at, _)| at > step).map(|&(_, version)| (address, version))
    };
    let again: Vec<(PageAddress, u32)> = bench.model.versions.iter().filter_map(newer).collect();
    for file in [FileId(1), FileId(2)] {
        let gone = again.iter().find(|(address, version)| *version == 0 && address.file == file);
        if let Some((address, _)) = gone {
            bench.propagation.truncate(file, address.page).unwrap();
        }
    }
    let written = again.iter().filter(|(_, version)| *version != 0);
    let mut pages: Vec<PageWrite> =
        written.map(|&(address, version)| write_of(address, version)).collect();
    bench.propagation.write_sealed(&mut pages).unwrap();
}

#[test]
fn a_full_device_says_so_stays_readable_and_takes_pages_again_after_a_truncate() {
    let mut bench = Bench::new(disk(1024, FaultPlan::default()), small()).unwrap();
    let mut written = Vec::new();
    let error = loop {
        let number = 1 + nandu_base::to_u32(written.len() as u64);
        let address = page(1 + u16::try_from(number % 2).unwrap(), number);
        let version = bench.model.version;
        match bench.write(&[address]) {
            Ok(()) => written.push(address),
            Err(error) => {
                // The page that did not fit is not there, as far as the model goes.
                assert_eq!(bench.model.version, version + 1);
                break error;
            }
        }
        assert!(number < 2000, "the device is full at some time");
    };
    assert!(matches!(error, StorageError::NoSpace { .. }), "{error}");
    assert!(written.len() > 300, "most of 1024 sectors hold pages: {}", written.len());
    bench.propagation.audit();
    bench.model.versions.retain(|address, _| written.contains(address));
    bench.check().unwrap();
    for _ in 0..3 {
        assert!(matches!(bench.write(&written[..40]), Ok(()) | Err(StorageError::NoSpace { .. })));
        bench.propagation.audit();
    }
    bench.truncate(FileId(1), 1).unwrap();
    bench.propagation.audit();
    for _ in 0..10 {
        bench.write(&written[..60]).unwrap();
    }
    bench.sync().unwrap();
    bench.reopen(FaultPlan::default()).unwrap();
    bench.check().unwrap();
}
