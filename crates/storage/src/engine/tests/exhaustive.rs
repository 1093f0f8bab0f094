//! A small run whose power is cut at every request, and again at every request of its restart.
//!
//! Each change is flushed at once, so that every log record is a request of its own, and pages are
//! written in the middle of transactions, so that undo has work on the device.
//!
//! 1. A restart shows what was committed, or with it the commit that was under way.
//! 2. A restart that was cut anywhere, and then repeated, shows what one that was not cut shows.
//! 3. Restarting twice is restarting once: the second finds nothing to redo or undo.

use super::*;

/// What a cut does to unflushed writes, and how many sectors of the write at hand arrive.
const FATES: [(UnflushedFate, Option<u32>); 4] = [
    (UnflushedFate::Dropped, None),
    (UnflushedFate::Dropped, Some(1)),
    (UnflushedFate::Kept, Some(1)),
    (UnflushedFate::Torn, Some(2)),
];

/// What a restart may show.
#[derive(Default)]
struct Trail {
    committed: Rows,
    uncertain: Option<Rows>,
}

fn small() -> [Settings; 4] {
    let small = |settings| Settings { log_bytes: 128 << 10, ..settings };
    let [images, copies] = [TornPages::LogImages, TornPages::DoubleWrite].map(settings);
    [images, copies, log_structured(), page_differential()].map(small)
}

/// Six transactions: two are rolled back, one in part; the last one is never over.
fn small_run(engine: &mut Engine, trail: &mut Trail) -> Result<(), StorageError> {
    for number in 0..6_u8 {
        let mut rows = trail.committed.clone();
        let mut savepoint = None;
        engine.begin()?;
        for step in 0..5_u8 {
            if number == 3 && step == 2 {
                savepoint = Some((engine.savepoint(), rows.clone()));
            }
            let key = vec![number.wrapping_mul(3) + step * 5];
            let value = (number < 4 || step != 1).then(|| vec![number * 16 + step; 190]);
            put(engine, &key, value.as_deref())?;
            engine.log().flush()?;
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
            if step == 3 {
                put_run(engine, 50 + 20 * u64::from(number), &mut rows)?;
                engine.log().flush()?;
            }
            if step % 2 == 1 {
                engine.pool.write_back(&WriteBack::default())?;
            }
        }
        if let Some((savepoint, before)) = savepoint {
            engine.rollback_to(savepoint)?;
            rows = before;
        }
        match number {
            2 => engine.rollback()?,
            5 => return Ok(()),
            _ => {
                trail.uncertain = Some(rows.clone());
                let commit = engine.commit()?.expect("it changed something");
                engine.log().make_commit_durable(commit, Durability::EveryCommit)?;
                *trail = Trail { committed: rows, uncertain: None };
            }
        }
        if number == 3 {
            engine.checkpoint()?;
        }
    }
    Ok(())
}

fn plan(at: u64, fate: (UnflushedFate, Option<u32>)) -> FaultPlan {
    let (unflushed, torn_sector_count) = fate;
    FaultPlan {
        power_cut_at_request: Some(at),
        torn_sector_count,
        unflushed,
        seed: at,
        ..FaultPlan::default()
    }
}

/// What the device holds after the small run was cut at a request; `true` if the run ended before.
fn crashed(
    settings: &Settings,
    cut: u64,
    fate: (UnflushedFate, Option<u32>),
) -> (TestDevice, Trail, bool) {
    let device = device();
    let mut engine = create(&device, settings);
    let base = device.lock().submitted_count();
    device.lock().set_plan(plan(base + cut, fate));
    let mut trail = Trail::default();
    let outcome = small_run(&mut engine, &mut trail);
    let is_over = device.lock().submitted_count() < base + cut;
    assert!(outcome.is_ok() || !is_over, "nothing else fails: {outcome:?}");
    drop(engine);
    restore_power(&device);
    (device, trail, is_over)
}

#[test]
fn a_cut_at_every_request_of_a_small_run_loses_nothing_and_two_restarts_are_one() {
    for settings in small() {
        let kind = (settings.propagation.kind, settings.torn_pages);
        let (mut cut, mut repaired_count) = (0, 0);
        let mut is_over = false;
        while !is_over {
            cut += 1;
            for fate in FATES {
                let context = format!("{kind:?}, cut at request {cut}, {fate:?}");
                let (device, trail, over) = crashed(&settings, cut, fate);
                is_over = over;
                let (engine, report) = reopen(&device, &settings).unwrap();
                repaired_count += report.repaired_page_count;
                assert_state(&engine, &trail.committed, trail.uncertain.as_ref(), &context);
                let once = contents(&engine);
                drop(engine);
                device.forget_completions();
                let (engine, report) = reopen(&device, &settings).unwrap();
                assert_eq!((report.redone_count, report.loser_count), (0, 0), "{context}");
                assert_state(&engine, &once, None, &context);
            }
        }
        let overwrites = settings.propagation.kind.overwrites_pages();
        assert_eq!(repaired_count > 0, overwrites, "{kind:?}: what is overwritten may be torn");
        assert!(cut > 60, "{kind:?}: every flush and page write is a request, not {cut} in all");
    }
}

/// Restarts are cut after every third cut: after every one it takes half a minute.
fn restart_step() -> u64 {
    std::env::var("NANDU_CUT_STEP").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[test]
fn a_cut_at_every_request_of_a_restart_leads_where_an_uncut_one_does() {
    let step = restart_step();
    for settings in small() {
        let kind = (settings.propagation.kind, settings.torn_pages);
        let (mut cut, mut restart_cut_count) = (0, 0);
        let mut is_over = false;
        while !is_over {
            cut += step;
            let fate = FATES[nandu_base::to_index(cut % 4)];
            let (device, trail, over) = crashed(&settings, cut, fate);
            is_over = over;
            let (engine, _) = reopen(&device, &settings).unwrap();
            assert_state(&engine, &trail.committed, trail.uncertain.as_ref(), "once");
            let once = contents(&engine);
            drop(engine);
            for second in 1.. {
                let (device, ..) = crashed(&settings, cut, fate);
                let base = device.lock().submitted_count();
                let fate = FATES[nandu_base::to_index(second % 4)];
                device.lock().set_plan(plan(base + second, fate));
                drop(reopen(&device, &settings));
                let was_cut = device.lock().submitted_count() >= base + second;
                restore_power(&device);
                let (engine, _) = reopen(&device, &settings).unwrap();
                let context = format!("{kind:?}, cut at {cut}, restart cut at {second}, {fate:?}");
                assert_state(&engine, &once, None, &context);
                if !was_cut {
                    break;
                }
                restart_cut_count += 1;
            }
        }
        assert!(restart_cut_count > 100, "{kind:?}: {restart_cut_count} cuts in restarts");
    }
}
