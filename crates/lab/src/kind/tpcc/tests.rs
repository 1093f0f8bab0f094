//! Small runs of each kind: what they announce, that a seed decides everything, and what they refuse.

use super::methods::TpccMethods;
use super::restart::TpccRestart;
use super::trace::TpccTrace;
use super::*;
use crate::run::Unwatched;
use serde::de::DeserializeOwned;

const MIX: &str = "
    rows = { warehouses = 1, items = 200, customers = 20 }
    memory = '256KiB'
    clients = [1, 4]
    transaction_count = 60
    cents = { ram = 200 }
    drives = { ram = { base = 'sim:dram-like', capacity = '128MiB' } }
";

const RESTART: &str = "
    rows = { warehouses = 1, items = 200, customers = 20 }
    memory = '256KiB'
    clients = 5
    intervals = ['64KiB', '256KiB']
    record_cpu = '2us'
    drives = { ram = { base = 'sim:dram-like', capacity = '128MiB' } }
";

const TRACE: &str = "
    rows = { warehouses = 1, items = 2000, customers = 300 }
    memory = '256KiB'
    log = '16MiB'
    clients = 4
    transaction_count = 400
    window_percent = [10, 100]
    chip = 'myers_slc'
    space_percent = [10, 25]
    layers = { page = { kind = 'page' }, fast = { kind = 'fast', sw_trigger = 'off' } }
";

const METHODS: &str = "
    rows = { warehouses = 1, items = 2000, customers = 300 }
    memory = ['128KiB', '256KiB']
    log = '16MiB'
    clients = 4
    transaction_count = 300
    chip = 'pdl_mlc'
    programs_per_erase = 1
    spare_percent = 600
    set = { replacement = 'lru' }
    [variants.out-of-place]
    propagation = 'in_place'
    marks = true
    [variants.pdl]
    propagation = 'page_differential_chips'
    marks = true
";

fn read<K: DeserializeOwned + Measurement>(text: &str) -> K {
    let kind: K = toml::from_str(text).unwrap();
    kind.check().unwrap();
    kind
}

fn run(kind: &dyn Measurement, seed: u64) -> BTreeMap<String, Series> {
    let mut observer = Unwatched;
    let mut bench = Bench {
        seed,
        local: None,
        local_subject: None,
        observer: &mut observer,
        notes: Vec::new(),
        power: nandu_device::PowerLog::default(),
    };
    let steps = 0..kind.steps().len();
    let mut all = BTreeMap::<String, Series>::new();
    for series in steps.flat_map(|step| kind.run_step(step, &mut bench).unwrap()) {
        match all.get_mut(&series.name) {
            Some(before) => before.points.extend(series.points),
            None => drop(all.insert(series.name.clone(), series)),
        }
    }
    let announced = kind.series_names();
    assert!(all.len() == announced.len() && announced.iter().all(|name| all.contains_key(name)));
    all
}

fn refused<K: DeserializeOwned + Measurement>(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old));
    let kind: K = toml::from_str(&text.replace(old, new)).unwrap();
    kind.check().unwrap_err()
}

#[test]
fn new_orders_are_counted_and_divided_by_the_price() {
    let mix = read::<TpccMix>(MIX);
    let found = run(&mix, 1);
    assert_eq!(found, run(&mix, 1));
    let at = |name: &str| found[name].at(4.0).unwrap();
    assert!(at("ram.tpmc") > 0.0 && at("ram.transactions_s") * 60.0 > at("ram.tpmc"));
    assert!((at("ram.per_dollar") - at("ram.tpmc") / 2.0).abs() < 1e-9);
    assert!(refused::<TpccMix>(MIX, "[1, 4]", "[4, 1]").contains("`clients`"));
    assert!(refused::<TpccMix>(MIX, "ram = 200", "tape = 200").contains("`tape`"));
    assert!(refused::<TpccMix>(MIX, "items = 200", "items = 2").contains("`rows`"));
    assert!(refused::<TpccMix>(MIX, "count = 60", "count = 3").contains("`transaction_count`"));
}

#[test]
fn a_restart_takes_back_what_terminals_had_open_and_longer_intervals_have_more_to_do() {
    let restart = read::<TpccRestart>(RESTART);
    let found = run(&restart, 1);
    assert_eq!(found, run(&restart, 1));
    let values = |name: &str| [65_536.0, 262_144.0].map(|at| found[name].at(at).unwrap());
    let (losers, log) = (values("ram.losers"), values("ram.log_bytes"));
    assert!(losers.iter().all(|count| (1.0..=5.0).contains(count)), "{losers:?}");
    assert!(log[0] > 65_536.0 && log[1] > 2.0 * log[0], "{log:?}");
    assert!(values("ram.pages").iter().all(|count| *count > 10.0));
    let unsorted = refused::<TpccRestart>(RESTART, "['64KiB', '256KiB']", "['1MiB', '64KiB']");
    assert!(unsorted.contains("`intervals`"), "{unsorted}");
}

#[test]
fn a_trace_has_gaps_and_layers_that_it_costs_something() {
    let trace = read::<TpccTrace>(TRACE);
    let found = run(&trace, 1);
    assert_eq!(found, run(&trace, 1));
    for name in ["gap.absorbed", "mean_gap.absorbed", "hottest.writes"] {
        let [some, most] = [10.0, 100.0].map(|at| found[name].at(at).unwrap());
        assert!(0.0 < some && some <= most && most <= 100.0, "{name}: {some} {most}");
    }
    let differs = found["trace.differential_bytes"].at(0.0).unwrap();
    assert!((1.0..4096.0).contains(&differs), "{differs}");
    for name in ["page", "fast"] {
        let [tight, wide] =
            [10.0, 25.0].map(|at| found[&format!("{name}.mean_ms")].at(at).unwrap());
        assert!(tight > wide && wide >= 0.2, "{name}: {tight} {wide}");
    }
    assert!(refused::<TpccTrace>(TRACE, "page = {", "gap = {").contains("`layers`"));
    assert!(refused::<TpccTrace>(TRACE, "[10, 25]", "[25, 10]").contains("`space_percent`"));
    assert!(refused::<TpccTrace>(TRACE, "'myers_slc'", "'myers'").contains("myers"));
}

#[test]
fn methods_do_what_the_trace_tells_and_take_what_their_commands_take() {
    let methods = read::<TpccMethods>(METHODS);
    let found = run(&methods, 1);
    assert_eq!(found, run(&methods, 1));
    let values = |name: &str| [131_072.0, 262_144.0].map(|at| found[name].at(at).unwrap());
    let writes = values("trace.writes");
    assert!(writes[0] > writes[1] && writes[1] > 100.0, "{writes:?}");
    assert!(values("trace.changed_bytes").iter().all(|bytes| (1.0..4096.0).contains(bytes)));
    for name in ["out-of-place", "pdl"] {
        let of = |metric: &str| values(&format!("{name}.{metric}"))[0];
        assert!((of("us") / of("counted_us") - 1.0).abs() < 1e-3, "{name}");
        assert!(of("reads") > 0.0 && of("marked_us") > of("us"), "{name}");
    }
    let sorted = refused::<TpccMethods>(METHODS, "['128KiB', '256KiB']", "['1MiB', '128KiB']");
    assert!(sorted.contains("`memory`"), "{sorted}");
    assert!(refused::<TpccMethods>(METHODS, "'pdl_mlc'", "'pdl'").contains("pdl"));
    assert!(refused::<TpccMethods>(METHODS, "= 600", "= 1").contains("`spare_percent`"));
    assert!(refused::<TpccMethods>(METHODS, "variants.pdl", "variants.trace").contains("rename"));
    assert!(refused::<TpccMethods>(METHODS, "count = 300", "count = 3").contains("`transaction"));
}
