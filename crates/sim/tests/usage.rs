//! Where time goes, how dies and channels are used, what layers did, and the warnings: each against
//! what is known without them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_ftl::FtlKind;
use nandu_sim::{
    DriveChoice, Input, Job, Mode, RunConfig, SimReport, TimeShare, Unwatched, WarningKind,
};
use std::collections::BTreeSet;

/// Four channels of two dies of 2 KiB pages, with a bus of 40 MB/s, or what `settings` say.
fn job(workload: &str, settings: &[(&str, &str)]) -> Job {
    let mut job = Job {
        drive: DriveChoice {
            name: "myers_slc".into(),
            physical_erase_blocks: Some(512),
            ..DriveChoice::default()
        },
        input: Input::Workload(workload.into()),
        request_limit: Some(8000),
        run: RunConfig { mode: Mode::Event, ..RunConfig::default() },
    };
    let usual = [
        ("ssd.channel_count", "4"),
        ("ssd.dies_per_channel", "2"),
        ("ssd.chip_overrides.bus_bytes_per_second", "40000000"),
        ("warm_up", "1"),
    ];
    for (key, value) in usual.iter().chain(settings) {
        job.set(key, value).unwrap();
    }
    job
}

fn run(workload: &str, settings: &[(&str, &str)]) -> SimReport {
    job(workload, settings).run(&mut Unwatched).unwrap()
}

fn kinds(report: &SimReport) -> Vec<WarningKind> {
    report.warnings.iter().map(|warning| warning.kind).collect()
}

/// What the report says of a warning that it must have.
fn text_of(report: &SimReport, kind: WarningKind) -> &str {
    let found = report.warnings.iter().find(|warning| warning.kind == kind);
    &found.unwrap_or_else(|| panic!("{kind:?} among {:?}", report.warnings)).text
}

#[test]
fn parts_of_the_time_add_up_to_the_responses_of_requests_of_one_page() {
    let mixed = "uniform:read=50";
    for (workload, more) in [
        ("uniform:read=100", &[][..]),
        ("uniform", &[]),
        (mixed, &[("queue_depth", "1")]),
        (mixed, &[("queue_depth", "128"), ("bus", "reads_first")]),
        ("zipf:0.9,read=50", &[("read_priority", "true"), ("bus", "fair")]),
        ("uniform:read=30,rate=3000", &[]),
        (mixed, &[("ssd.chip_overrides.command_ns", "500")]),
    ] {
        let report = run(workload, more);
        let arrives = workload.contains("rate");
        for (operation, request) in [("read", "read"), ("program", "write")] {
            let latency = report.latency_ns[request];
            let Some(share) = report.time_shares.get(operation) else {
                assert_eq!(latency.count, 0, "{workload}");
                continue;
            };
            assert_eq!(share.command_count, latency.count, "{workload} {operation}");
            let (parts, whole) = (share.total_ns(), latency.mean);
            // With arrivals a response includes the wait for a place in the queue.
            let fits = if arrives { parts <= whole } else { (parts - whole).abs() < 1e-3 };
            assert!(fits, "{workload} {more:?}: {operation} {share:?}, but {latency:?}");
        }
    }
}

#[test]
fn single_requests_wait_for_nothing_and_take_what_the_chip_says() {
    let report = run("uniform:read=100", &[("queue_depth", "1")]);
    let read = report.time_shares["read"];
    // 2048 bytes and 64 of the spare area at 40 MB/s.
    let expected = TimeShare {
        command_count: 8000,
        array_ns: 20_000.0,
        transfer_ns: 52_800.0,
        ..TimeShare::default()
    };
    assert_eq!(read, expected);
    assert!(!report.time_shares.contains_key("program"));
    let (held, busy): (f64, f64) =
        (report.die_held_share.iter().sum(), report.channel_busy_share.iter().sum());
    assert!((held - 1.0).abs() < 1e-9, "one die at a time: {:?}", report.die_held_share);
    assert!((busy - 52.8 / 72.8).abs() < 1e-9, "{:?}", report.channel_busy_share);
    assert_eq!((report.die_held_share.len(), report.channel_busy_share.len()), (8, 4));
    assert_eq!(report.warnings, []);
}

#[test]
fn waits_are_booked_where_they_arise() {
    let share =
        |workload: &str, more: &[(&str, &str)], of: &str| run(workload, more).time_shares[of];
    // One die behind one channel: reads wait for the die, never for the channel.
    let one = [("ssd.channel_count", "1"), ("ssd.dies_per_channel", "1")];
    let read = share("uniform:read=100", &one, "read");
    assert!(read.die_ns > 31.0 * 72_000.0 && read.channel_ns.abs() < 1e-9, "{read:?}");
    // Eight dies behind one slow channel: mostly for the channel, once the dies hold their data.
    let narrow = [("ssd.channel_count", "1"), ("ssd.dies_per_channel", "8"), ("queue_depth", "8")];
    let read = share("uniform:read=100", &narrow, "read");
    assert!(read.channel_ns > 2.0 * read.transfer_ns, "{read:?}");
    // Copies and erases that reads of a small queue meet on their dies.
    let read = share("uniform:read=50", &[("queue_depth", "8")], "read");
    assert!(read.cleaning_ns > 1.5 * read.die_ns, "{read:?}");
    let write = share("uniform", &[("ftl", "fast")], "program");
    assert!(write.held_back_ns > 0.8 * write.total_ns(), "merges: {write:?}");
}

#[test]
fn the_closed_mode_says_nothing_of_dies() {
    let report = run("uniform", &[("mode", "closed")]);
    assert!(report.time_shares.is_empty() && report.die_held_share.is_empty());
    let json = serde_json::to_string(&report).unwrap();
    for field in ["time_shares", "die_held_share", "merges", "map_cache", "warnings"] {
        assert!(!json.contains(field), "{field} in {json}");
    }
}

#[test]
fn merges_are_counted_by_kind_as_their_erases_are() {
    let mut merging = BTreeSet::new();
    for ftl in FtlKind::ALL.iter().map(|kind| kind.name()) {
        for workload in ["uniform", "sequential", "sequential:size=6KiB"] {
            let report = run(workload, &[("ftl", ftl), ("mode", "closed")]);
            let erases = |cause: &str| {
                report.nand.get("erase").and_then(|of| of.get(cause)).copied().unwrap_or(0)
            };
            let erased = ["merge_switch", "merge_partial", "merge_full"].map(erases);
            let Some(merges) = report.merges else {
                assert_eq!(
                    erased, [0; 3],
                    "{ftl} {workload} erases for merges that it does not count"
                );
                continue;
            };
            merging.insert(ftl);
            assert!(merges != nandu_sim::Merges::default(), "{ftl} {workload}");
            // A merge erases its block, or as many as the layer merges together.
            let block_bytes = report.config.nand.geometry.erase_block_bytes();
            let together = report.config.ssd.ftl.erase_blocks_merged_together(block_bytes);
            let counted = [merges.switch, merges.partial].map(|count| count * together);
            assert_eq!(counted, erased[..2], "{ftl} {workload} {merges:?}");
            // A log block is erased besides, where there is one.
            assert!(merges.full <= erased[2], "{ftl} {workload} {merges:?}");
        }
    }
    let of_old = ["block", "bast", "fast", "faster", "chunk"];
    assert!(of_old.iter().all(|ftl| merging.contains(ftl)), "{merging:?}");
    assert!(!merging.contains("page") && !merging.contains("dftl"), "{merging:?}");
}

#[test]
fn a_log_that_was_filled_in_order_is_switched() {
    for ftl in ["bast", "fast", "chunk"] {
        for workload in ["sequential", "sequential:size=6KiB"] {
            let report = run(workload, &[("ftl", ftl), ("mode", "closed")]);
            let merges = report.merges.unwrap();
            assert!(merges.switch > 0, "{ftl} {workload} {merges:?}");
        }
    }
}

#[test]
fn every_request_of_a_unit_hits_or_misses_the_cached_map() {
    let report = run("zipf:0.9,read=50", &[("ftl", "dftl"), ("ssd.ftl.cached_entry_count", "512")]);
    let cache = report.map_cache.unwrap();
    assert_eq!(cache.hits + cache.misses, 8000);
    assert!(cache.hits > 1000 && cache.misses > 1000, "{cache:?}");
    let whole = [("ftl", "dftl"), ("ssd.ftl.cached_entry_count", "65536"), ("warm_up", "4")];
    let all = run("uniform", &whole);
    let cache = all.map_cache.unwrap();
    assert!(cache.misses < cache.hits / 20, "everything fits, and nearly all was seen: {cache:?}");
    assert_eq!(run("uniform", &[]).map_cache, None);
}

#[test]
fn requests_that_wait_though_nothing_is_busy_are_told_with_the_reason() {
    let waits = WarningKind::WaitsThoughIdle;
    let page = run("uniform:read=100,area=2KiB", &[]);
    let said = text_of(&page, waits);
    assert!(said.contains("die") && said.contains("to it alone"), "{said}");
    let merges = run("uniform", &[("ftl", "fast"), ("requests", "2000")]);
    let said = text_of(&merges, waits);
    assert!(said.contains("held back") && said.contains("merges"), "{said}");
    for (workload, more) in [
        ("uniform:read=100", &[][..]),
        ("uniform", &[]),
        ("uniform", &[("queue_depth", "1")]),
        ("uniform", &[("queue_depth", "256")]),
        ("sequential", &[("queue_depth", "4")]),
        ("zipf:0.9,read=50,trim=5,size=8KiB", &[]),
        ("uniform:read=50,think=10ms", &[]),
        // Where requests come by the clock they may all come at once, and rest then.
        ("uniform:read=100,area=2KiB,rate=13000,arrival=exponential", &[]),
    ] {
        let report = run(workload, more);
        assert_eq!(kinds(&report), [], "{workload} {more:?}: {:?}", report.warnings);
    }
}

#[test]
fn arrivals_that_outrun_the_drive_are_told() {
    for mode in ["closed", "event"] {
        let report = |rate: &str| run(&format!("uniform:read=50,{rate}"), &[("mode", mode)]);
        let limit = run("uniform:read=50", &[("mode", mode)]).requests_per_second;
        let slow = report(&format!("rate={:.0}", limit * 0.6));
        assert_eq!(kinds(&slow), [], "{mode}: {:?}", slow.warnings);
        let burst = report(&format!("rate={:.0},arrival=exponential", limit * 0.6));
        assert_eq!(kinds(&burst), [], "{mode}: {:?}", burst.warnings);
        let fast = report(&format!("rate={:.0}", limit * 1.3));
        let said = text_of(&fast, WarningKind::Overload);
        assert!(said.contains("outrun") && said.contains("lower the rate to"), "{said}");
    }
    // All at once, as in a trace without times: no rate would do.
    let at_once = run("uniform:read=50,rate=1000000000", &[]);
    let said = text_of(&at_once, WarningKind::Overload);
    assert!(said.contains("; take --arrivals closed"), "{said}");
    // Arrivals that do not count do not outrun.
    let ignored = run("uniform:rate=1000000", &[("arrivals", "closed")]);
    assert_eq!(kinds(&ignored), []);
}

#[test]
fn rows_that_are_programmed_padded_are_told() {
    let rows = |workload: &str, queue_depth: u32, write_buffer_units: u32| {
        let drive = DriveChoice {
            name: "nvme-tlc-2024".into(),
            settings: vec![("capacity".into(), "1GiB".into())],
            ..DriveChoice::default()
        };
        let mode = Mode::Event;
        let warm_up = Some(0.0);
        let run =
            RunConfig { mode, queue_depth, write_buffer_units, warm_up, ..RunConfig::default() };
        let input = Input::Workload(workload.into());
        Job { drive, input, request_limit: Some(4000), run }.run(&mut Unwatched).unwrap()
    };
    let lone = rows("uniform", 1, 0);
    let said = text_of(&lone, WarningKind::PaddedRows);
    assert!(said.contains("beside 4000 written") && said.contains("--queue-depth"), "{said}");
    assert!(lone.write_amplification > 10.0, "a row of 16 units for each");
    // Reads keep the queue going while writes wait for rows of sixteen units.
    let mixed = rows("uniform:read=50", 32, 0);
    let said = text_of(&mixed, WarningKind::WaitsThoughIdle);
    assert!(said.contains("for others that fill their row"), "{said}");
    for enough in [
        rows("uniform", 64, 0),
        rows("uniform", 256, 0),
        rows("uniform", 1, 256),
        rows("uniform:read=80", 8, 256),
        rows("uniform:read=100", 4, 0),
    ] {
        assert_eq!(kinds(&enough), [], "{:?}", enough.warnings);
    }
}

#[test]
fn the_utilisation_law_holds_where_flash_pages_have_types() {
    for requests in ["2000", "2001", "2003"] {
        let types = ("ssd.chip_overrides.program_type_ns", "[100000, 700000]");
        let mut job = job("uniform:read=50", &[types, ("requests", requests), ("warm_up", "0")]);
        job.run.checks = true;
        assert!(job.run(&mut Unwatched).unwrap().checks.unwrap().audit_count > 0);
    }
}
