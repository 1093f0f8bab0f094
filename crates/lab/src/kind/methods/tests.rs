//! Small runs: what is announced comes, times are those of the commands, and what is refused.

use super::*;
use crate::run::Unwatched;

const METHODS: &str = "
    chip = 'pdl_mlc'
    programs_per_erase = 1
    page_bytes = '2KiB'
    file = '512KiB'
    spare_percent = 117
    changed_percent = 4
    written_together = 8
    warm_up_rounds = 4
    rounds = 2

    [variants.in-place]
    propagation = 'in_place'
    ftl = { kind = 'block' }
    [variants.out-of-place]
    propagation = 'in_place'
    marks = true
    [variants.ipl]
    propagation = 'in_page_logging'
    set = { in_page_logging = { log_region_bytes = 18432, waiting_sector_count_max = 1 } }
    [variants.pdl]
    propagation = 'page_differential_chips'
    set = { page_differential_chips = { difference_bytes_max = 2048 } }
    marks = true

    [axes.changed]
    of = 'changed_percent'
    values = [0.1, 4]
    [axes.mix]
    of = 'update_percent'
    values = [0, 100]
    variants = ['out-of-place', 'pdl']
    [axes.read]
    of = 'read_us'
    values = [110, 220]
    variants = ['out-of-place']
";

fn read(text: &str) -> Result<Methods, String> {
    let kind: Methods = toml::from_str(text).map_err(|error| error.to_string())?;
    kind.check().map(|()| kind)
}

fn run(kind: &Methods, seed: u64) -> BTreeMap<String, Series> {
    let mut bench = Bench {
        seed,
        local: None,
        local_subject: None,
        observer: &mut Unwatched,
        notes: Vec::new(),
        power: nandu_device::PowerLog::default(),
    };
    let steps = 0..kind.steps().len();
    let all = steps.flat_map(|step| kind.run_step(step, &mut bench).unwrap());
    let all: BTreeMap<String, Series> = all.map(|series| (series.name.clone(), series)).collect();
    let announced = kind.series_names();
    assert!(all.len() == announced.len() && announced.iter().all(|name| all.contains_key(name)));
    all
}

#[test]
fn what_a_method_takes_are_its_commands_by_their_times() {
    let methods = read(METHODS).unwrap();
    let found = run(&methods, 1);
    assert_eq!(found, run(&methods, 1));
    let at = |name: &str, x: f64| found[name].at(x).unwrap();
    for variant in ["in-place", "out-of-place", "ipl", "pdl"] {
        let of = |metric: &str| at(&format!("changed.{variant}.{metric}"), 4.0);
        let quotient = of("us") / of("counted_us");
        assert!((quotient - 1.0).abs() < 1e-3, "{variant}: {quotient}");
        assert!(of("reads_per_read") >= 1.0, "{variant}");
        assert_eq!(of("marked_us") > of("us"), ["out-of-place", "pdl"].contains(&variant));
    }
    let copied = at("changed.in-place.write_us", 4.0) / at("changed.conventional.us", 4.0);
    assert!((0.85..=1.0).contains(&copied), "in place an erase block is copied: {copied}");
    assert!(at("changed.pdl.reads_per_read", 4.0) <= 2.0);
    assert!(at("changed.pdl.us", 0.1) < at("changed.out-of-place.us", 0.1) / 2.0);
    let only_read = at("mix.out-of-place.us", 0.0);
    assert!((only_read - 110.0).abs() < 1e-9 && at("mix.pdl.us", 0.0) > only_read);
    let read_times = [110.0, 220.0].map(|us| at("read.out-of-place.us", us));
    assert!(read_times[1] - read_times[0] >= 110.0, "{read_times:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |old: &str, new: &str| {
        assert!(METHODS.contains(old), "{old}");
        read(&METHODS.replacen(old, new, 1)).unwrap_err()
    };
    assert!(refused("'512KiB'", "'64KiB'").contains("`file` has 32 pages"));
    assert!(refused("= 117", "= 3").contains("`spare_percent`"));
    assert!(refused("'pdl_mlc'", "'pdl_mlk'").contains("pdl_mlk"));
    assert!(refused("'pdl_mlc'", "'tlc_2026'").contains("bus"));
    assert!(refused("programs_per_erase = 1", "programs_per_erase = 0").contains("above 0"));
    assert!(refused("together = 8", "together = 0").contains("`written_together`"));
    assert!(refused("[0.1, 4]", "[4, 0.1]").contains("`values` of axis `changed`"));
    assert!(refused("[0.1, 4]", "[0.1, 400]").contains("from 0.01 to 100"));
    assert!(refused("['out-of-place', 'pdl']", "['pdf']").contains("`pdf`"));
    assert!(refused("[variants.ipl]", "[variants.conventional]").contains("rename"));
    assert!(refused("max = 2048", "max = 7").contains("difference_bytes_max"));
    assert!(refused("ftl = { kind = 'block' }", "set = { pool_bytes = 1 }").contains("pool_bytes"));
    let above_chips = "'in_page_logging'\n    ftl = { kind = 'block' }";
    assert!(refused("'in_page_logging'", above_chips).contains("chips of its own"));
}
