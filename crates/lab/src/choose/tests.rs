//! What is asked and answered, by hand and by drives.

use super::measure::{Load, Measured, Point, TraceLoad, YcsbChoice, worn_in};
use super::verdict::{Answer, WhyMany, judge};
use super::{Candidate, MeritWeights, Question, choose};
use crate::run::Unwatched;
use nandu_base::{Cause, FlashCounters, FlashOperation};
use nandu_bench::ycsb::WorkloadKind;
use nandu_device::{Counters, FlashUse};
use nandu_drives::price::Prices;
use nandu_drives::wear::Endurance;
use nandu_trace::TraceOptions;
use std::io::Write as _;

const YEAR_S: f64 = 365.25 * 24.0 * 3600.0;

fn ycsb(workload: WorkloadKind) -> Load {
    Load::Ycsb(YcsbChoice {
        workload,
        record_count: 2000,
        field_bytes: 20,
        operation_count: 400,
        memory_percent: 10,
    })
}

fn question(load: Load) -> Question {
    Question {
        load,
        data_bytes: 10_000_000_000,
        rate: 1000.0,
        latency_limit_ns: None,
        budget_cents: None,
        service_years: 5,
        kilowatt_hour_cents: 30,
        merit: MeritWeights::default(),
        seed: 1,
    }
}

fn point(depth: u32, operations_per_second: f64, p99_ns: u64) -> Point {
    Point {
        depth,
        operations_per_second,
        p99_ns,
        watts: Some(3.0),
        data_wear: None,
        log_wear: None,
    }
}

fn measured(points: Vec<Point>) -> Measured {
    Measured {
        points,
        drive_count: 1,
        simulated_bytes: 1 << 30,
        is_steady: true,
        is_as_full: true,
        is_wear_known: true,
        idle_watts: Some(1.0),
    }
}

fn candidate(name: &str) -> Candidate {
    Candidate::parse(name).unwrap()
}

#[test]
fn as_many_drives_as_the_data_or_the_rate_wants() {
    let ocz = candidate("ocz-core");
    let price = ocz.prices(&Prices::embedded());
    let mut asked = question(ycsb(WorkloadKind::C));
    let points = || {
        let one = Point { watts: Some(2.0), ..point(1, 300.0, 4_000_000) };
        measured(vec![one, point(4, 700.0, 9_000_000)])
    };
    let verdict = judge(&asked, &ocz, price.clone(), Ok(points()));
    assert_eq!((verdict.drive_count, verdict.why_many), (Some(2), Some(WhyMany::Rate)));
    assert_eq!(verdict.purchase_cents, Some(2 * 23099));
    // Each of two serves 500, half of the time one and half of it four at once, at 2 and at 3 W.
    let watts = 2.0 * 2.5;
    assert!((verdict.watts.unwrap() - watts).abs() < 1e-9);
    let a_year = 2.0 * 23099.0 / 5.0 + watts * 8.766 * 30.0;
    assert!((verdict.cents_per_year.unwrap() - a_year).abs() < 1e-6);
    assert!((verdict.operations_per_joule.unwrap() - 1000.0 / watts).abs() < 1e-9);
    asked.latency_limit_ns = Some(5_000_000);
    let verdict = judge(&asked, &ocz, price.clone(), Ok(points()));
    assert_eq!((verdict.drive_count, verdict.depth), (Some(4), Some(1)));
    asked.latency_limit_ns = Some(1_000_000);
    let verdict = judge(&asked, &ocz, price.clone(), Ok(points()));
    assert!(verdict.refused.unwrap().contains("latency"));
    asked.latency_limit_ns = None;
    // 150 GB as pages have them.
    asked.data_bytes = 105_000_000_000;
    let verdict = judge(&asked, &ocz, price, Ok(points()));
    assert_eq!((verdict.drive_count, verdict.why_many), (Some(3), Some(WhyMany::Capacity)));
}

#[test]
fn each_drive_is_replaced_by_its_own_years() {
    let both = candidate("toshiba-320+log=ocz-core");
    let paid = both.prices(&Prices::embedded());
    let asked = question(ycsb(WorkloadKind::A));
    let wear = 10.0;
    let points = vec![Point { log_wear: Some(wear), watts: None, ..point(4, 2000.0, 1) }];
    let verdict = judge(&asked, &both, paid, Ok(measured(points)));
    let log_years = verdict.log_years.unwrap();
    assert!(log_years < 1.0 && verdict.data_years.is_none());
    let a_year = 12999.0 / 5.0 + 23099.0 / log_years;
    assert!((verdict.cents_per_year.unwrap() / a_year - 1.0).abs() < 1e-12);
}

#[test]
fn more_work_and_less_time_are_never_cheaper() {
    let ocz = candidate("ocz-core");
    // Few clients wear more for each operation, as where each syncs by itself, and less in a second.
    let points = || {
        let at = |depth, rate, p99_ns, wear| Point {
            data_wear: Some(wear),
            watts: None,
            ..point(depth, rate, p99_ns)
        };
        vec![
            at(1, 100.0, 1_000_000, 8.0),
            at(4, 200.0, 5_000_000, 5.0),
            at(16, 300.0, 9_000_000, 4.0),
        ]
    };
    let cost = |rate: f64, latency_limit_ns: Option<u64>| {
        let asked = Question { rate, latency_limit_ns, ..question(ycsb(WorkloadKind::A)) };
        judge(&asked, &ocz, ocz.prices(&Prices::embedded()), Ok(measured(points())))
            .cents_per_year
            .unwrap()
    };
    let costs: Vec<f64> = (1..2000).map(|rate| cost(f64::from(rate), None)).collect();
    assert!(costs.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-12)));
    for rate in [1.0, 90.0, 150.0, 1000.0] {
        assert!(cost(rate, Some(1_000_000)) >= cost(rate, Some(5_000_000)));
        assert!(cost(rate, Some(5_000_000)) >= cost(rate, None));
    }
}

#[test]
fn a_rate_that_few_at_once_serve_wears_and_draws_as_they_do() {
    let ocz = candidate("ocz-core");
    let of = |rate: f64| {
        let asked = Question { rate, ..question(ycsb(WorkloadKind::A)) };
        let one = Point { watts: Some(5.0), data_wear: Some(8.0), ..point(1, 1000.0, 1) };
        // Many at once share flushes: a tenth of the wear for each, at a rate that nobody asks.
        let many = Point { watts: Some(7.0), data_wear: Some(0.8), ..point(64, 30_000.0, 9) };
        // It serves less than one at a time does, so it is no point to work at.
        let worse = Point { data_wear: Some(0.0), ..point(4, 900.0, 1) };
        judge(&asked, &ocz, ocz.prices(&Prices::embedded()), Ok(measured(vec![one, worse, many])))
    };
    let stands = Endurance::of(&ocz.data).worn_in_all().unwrap() / YEAR_S;
    let half = of(500.0);
    assert_eq!((half.depth, half.p99_ns, half.drive_count), (Some(1), Some(1), Some(1)));
    assert!((half.watts.unwrap() - 3.0).abs() < 1e-9, "half of the time 5 W, else 1 W");
    assert!((half.data_years.unwrap() / (stands / 4000.0) - 1.0).abs() < 1e-12);
    // For a tenth of what lies between both points it works as at the higher one.
    let more = of(1000.0 + 2900.0);
    assert_eq!((more.depth, more.p99_ns, more.drive_count), (Some(64), Some(9), Some(1)));
    assert!((more.watts.unwrap() - 5.2).abs() < 1e-9);
    let wear = 0.9 * 8000.0 + 0.1 * 24_000.0;
    assert!((more.data_years.unwrap() / (stands / wear) - 1.0).abs() < 1e-12);
}

#[test]
fn who_would_take_more_drives_than_anybody_buys_will_not_do() {
    let ocz = candidate("ocz-core");
    let asked = Question { rate: 1e15, ..question(ycsb(WorkloadKind::A)) };
    let points = vec![point(1, 300.0, 1)];
    let verdict = judge(&asked, &ocz, ocz.prices(&Prices::embedded()), Ok(measured(points)));
    assert!(verdict.refused.unwrap().contains("more than 1000000"));
    assert_eq!((verdict.purchase_cents, verdict.cents_per_year), (None, None));
}

#[test]
fn what_a_point_did_not_erase_yet_it_wears_as_the_rest_did() {
    let ocz = candidate("ocz-core").data;
    let counters = |host: u64, cleaning: u64, erased: u64| {
        let mut commands = FlashCounters::default();
        commands.add(FlashOperation::Program, Cause::Host, host);
        commands.add(FlashOperation::Program, Cause::Cleaning, cleaning);
        commands.add(FlashOperation::Erase, Cause::Cleaning, erased);
        Counters {
            flash: Some(FlashUse { commands, ..FlashUse::default() }),
            ..Counters::default()
        }
    };
    let (begin, end) = (counters(0, 0, 0), counters(100_000, 50_000, 10_000));
    let of = |part: (&Counters, &Counters)| worn_in(&ocz, part, (&begin, &end)).unwrap();
    // A tenth of an erase block for a program of the host, whether the part erased nothing or much at once.
    let quiet = (&counters(1000, 500, 0), &counters(1300, 500, 0));
    let burst = (&counters(1000, 500, 0), &counters(1300, 9000, 199));
    assert!((of(quiet) - 30.0).abs() < 1e-9 && (of(burst) - 30.0).abs() < 1e-9);
    // Who erased enough tells by itself.
    let much = (&counters(0, 0, 0), &counters(300, 100, 400));
    assert!((of(much) - 400.0).abs() < 1e-9);
}

#[test]
fn records_take_more_room_than_their_bytes() {
    let of = |load: Load, data_bytes: u64| {
        let asked = Question { data_bytes, ..question(load) };
        super::measure::drives_for_data(&asked, &candidate("ocz-core").data)
    };
    // Of 60 GB; pages are filled by seven tenths.
    assert_eq!(of(ycsb(WorkloadKind::A), 41_900_000_000), 1);
    assert_eq!(of(ycsb(WorkloadKind::A), 60_000_000_000), 2);
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(of(Load::Trace(trace(directory.path(), 3)), 60_000_000_000), 1);
}

#[test]
fn a_drive_falls_asleep_only_in_rests_that_are_long_enough() {
    let drive = candidate("nvme-apst-2024");
    let of = |rate: f64, drive_count: u64| {
        let asked = Question { rate, ..question(ycsb(WorkloadKind::C)) };
        let rest = super::measure::rest_between(&asked, drive_count);
        super::measure::idle_watts(&drive, 64 << 20, rest).unwrap()
    };
    // It rests 100 ms before it goes to a state that is not operational.
    let awake = of(1000.0, 1);
    assert!((of(100.0, 1) - awake).abs() < 1e-3 * awake, "{awake}");
    assert!(of(0.01, 1) < awake / 10.0 && of(1000.0, 1_000_000) < awake / 10.0);
}

#[test]
fn a_log_on_flash_ages_too() {
    let asked = question(ycsb(WorkloadKind::A));
    let answer = choose(
        &asked,
        &[candidate("toshiba-320+log=ocz-core")],
        &Prices::embedded(),
        &mut Unwatched,
    )
    .unwrap();
    // 400 operations cannot fill its 128 MiB in forty runs.
    assert!(!answer.verdicts[0].measured.as_ref().unwrap().is_steady);
}

#[test]
fn whose_power_nobody_knows_is_told() {
    let asked = question(ycsb(WorkloadKind::C));
    let prices = Prices::embedded();
    let of = |name: &str, watts: Option<f64>| {
        let it = candidate(name);
        let points = vec![Point { watts, ..point(1, 2000.0, 1) }];
        judge(&asked, &it, it.prices(&prices), Ok(measured(points)))
    };
    let answer = Answer::of(&asked, vec![of("toshiba-320", None), of("ocz-core", Some(2.0))]);
    let told = answer.because.iter().find(|it| it.starts_with("nobody knows what power")).unwrap();
    assert!(told.contains("toshiba-320") && !told.contains("ocz-core"), "{told}");
}

#[test]
fn what_nobody_knows_is_told() {
    let asked = question(ycsb(WorkloadKind::A));
    let names = ["array:stripe:sim:ocz-core+sim:optane-like", "toshiba-320"];
    let candidates = names.map(candidate);
    let answer = choose(&asked, &candidates, &Prices::embedded(), &mut Unwatched).unwrap();
    let told = answer.because.iter().find(|it| it.starts_with("nobody knows how long")).unwrap();
    assert!(told.contains(names[0]) && !told.contains(names[1]), "{told}");
}

#[test]
fn arrays_of_flash_and_lines_of_memory_last_as_long_as_what_is_written_lets_them() {
    let asked = question(ycsb(WorkloadKind::A));
    let names = ["array:stripe:sim:nvme-tlc-2024*2", "optane-like"];
    let candidates = names.map(candidate);
    let answer = choose(&asked, &candidates, &Prices::embedded(), &mut Unwatched).unwrap();
    assert!(!answer.because.iter().any(|it| it.starts_with("nobody knows how long")));
    for name in names {
        let verdict = answer.verdicts.iter().find(|it| it.name == name).unwrap();
        assert!(verdict.data_years.unwrap() > 0.0, "{verdict:?}");
        let points = &verdict.measured.as_ref().unwrap().points;
        assert!(points.iter().all(|point| point.data_wear.unwrap() > 0.0), "{points:?}");
    }
}

#[test]
fn drives_that_the_rate_wants_are_as_empty_as_so_many_are() {
    // 50 GB on drives of 60 GB; the rate wants several, each emptier for that.
    let alone = Question { data_bytes: 50_000_000_000, ..question(ycsb(WorkloadKind::A)) };
    let prices = Prices::embedded();
    let of = |asked: &Question| {
        let candidates = [candidate("ocz-core")];
        let answer = choose(asked, &candidates, &prices, &mut Unwatched).unwrap();
        answer.verdicts.into_iter().next().unwrap()
    };
    let best = |measured: &Measured| {
        measured.points.iter().map(|point| point.operations_per_second).fold(0.0, f64::max)
    };
    let one = of(&Question { rate: 1.0, service_years: 1, ..alone.clone() });
    let full = one.measured.as_ref().unwrap();
    // Twenty times what one does.
    let rate = 20.0 * best(full);
    let many = of(&Question { rate, ..alone.clone() });
    let count = many.drive_count.unwrap();
    let emptier = many.measured.as_ref().unwrap();
    assert_eq!(emptier.drive_count, count, "it was measured as full as so many are");
    assert!(emptier.simulated_bytes > full.simulated_bytes, "{emptier:?} {full:?}");
    assert!(count > 1 && rate / best(emptier) <= count as f64, "{count} for {rate}");
}

#[test]
fn more_drives_are_taken_where_a_year_of_them_costs_less() {
    let ocz = candidate("ocz-core");
    let price = ocz.prices(&Prices::embedded());
    let asked = Question { rate: 100.0, ..question(ycsb(WorkloadKind::A)) };
    let of = |drive_count: u64, wear: f64| {
        let points = vec![Point { data_wear: Some(wear), watts: None, ..point(1, 500.0, 1) }];
        judge(&asked, &ocz, price.clone(), Ok(Measured { drive_count, ..measured(points) }))
    };
    let (one, two) = (of(1, 10.0), of(2, 8.0));
    assert!(one.is_worn_out_early() && two.is_cheaper_than(&one) && !one.is_cheaper_than(&two));
    assert!(!of(2, 10.0).is_cheaper_than(&one), "twice as many that wear as much");
    assert_eq!(two.for_life().why_many, Some(WhyMany::Wear));
    assert!(!of(1, 1e-9).is_worn_out_early());
    let poor = Question { budget_cents: Some(30_000), ..asked.clone() };
    let points = vec![Point { data_wear: Some(8.0), watts: None, ..point(1, 500.0, 1) }];
    let dear = judge(&poor, &ocz, price, Ok(Measured { drive_count: 2, ..measured(points) }));
    assert!(!dear.is_cheaper_than(&one), "two are over the budget");
}

#[test]
fn the_figure_of_merit_has_its_weights_in_the_open() {
    let ocz = candidate("ocz-core");
    let of = |merit: MeritWeights, watts: Option<f64>| {
        let asked = Question { merit, ..question(ycsb(WorkloadKind::C)) };
        let mut done = measured(vec![Point { watts, ..point(4, 2000.0, 1) }]);
        done.idle_watts = watts;
        judge(&asked, &ocz, ocz.prices(&Prices::embedded()), Ok(done)).merit
    };
    let none = MeritWeights { performance: 0, cost: 0, energy: 0, endurance: 0 };
    assert_eq!(of(MeritWeights { performance: 2, ..none }, None), Some(4e6));
    assert_eq!(of(MeritWeights { endurance: 1, ..none }, None), Some(5.0));
    assert_eq!(of(MeritWeights { energy: 1, ..none }, None), None, "nobody knows its power");
    assert_eq!(of(MeritWeights { energy: 1, ..none }, Some(4.0)), Some(0.25));
    let cost = of(MeritWeights { cost: 1, ..none }, None).unwrap();
    assert!((cost - 5.0 / 230.99).abs() < 1e-9, "{cost}");
}

#[test]
fn a_drive_that_wears_is_paid_for_more_often() {
    let ocz = candidate("ocz-core");
    let stands = Endurance::of(&ocz.data).worn_in_all().unwrap();
    let asked = question(ycsb(WorkloadKind::A));
    let wear = 1e-3;
    let points = vec![Point { data_wear: Some(wear), ..point(16, 5000.0, 1) }];
    let price = ocz.prices(&Prices::embedded());
    let verdict = judge(&asked, &ocz, price, Ok(measured(points)));
    // An erase block a second, of all erase blocks as often as each stands it.
    let years = stands / YEAR_S;
    assert!((verdict.data_years.unwrap() / years - 1.0).abs() < 1e-12);
    assert!((verdict.years.unwrap() - years.min(5.0)).abs() < 1e-9);
}

#[test]
fn who_has_no_price_or_costs_too_much_comes_last() {
    let mut asked = question(ycsb(WorkloadKind::C));
    asked.budget_cents = Some(20_000);
    let prices = Prices::embedded();
    let verdicts = ["hama", "ocz-core", "toshiba-320"].map(|name| {
        let it = candidate(name);
        judge(&asked, &it, it.prices(&prices), Ok(measured(vec![point(1, 2000.0, 1)])))
    });
    let answer = Answer::of(&asked, verdicts.into());
    assert_eq!(answer.best().unwrap().name, "toshiba-320");
    let refused = |name: &str| {
        let found = answer.verdicts.iter().find(|it| it.name == name).unwrap();
        found.refused.clone().unwrap()
    };
    assert!(refused("ocz-core").starts_with("$230.99 to buy, over the budget of $200.00"));
    assert!(refused("hama").contains("nobody said what it costs"));
    assert!(answer.because[0].contains("toshiba-320 is the only one"));
}

#[test]
fn the_same_question_has_the_same_answer() {
    let asked = question(ycsb(WorkloadKind::A));
    let candidates = [candidate("ocz-core"), candidate("toshiba-320+log=ocz-core")];
    let answer = || choose(&asked, &candidates, &Prices::embedded(), &mut Unwatched).unwrap();
    let (first, second) = (answer(), answer());
    let text = |answer: &Answer| serde_json::to_string(answer).unwrap();
    assert_eq!(text(&first), text(&second));
    for verdict in &first.verdicts {
        let measured = verdict.measured.as_ref().unwrap_or_else(|| panic!("{verdict:?}"));
        assert_eq!(measured.points.len(), 4);
        assert!(measured.points.iter().all(|point| point.operations_per_second > 0.0));
        let has_log = verdict.name.contains("+log=");
        assert_eq!(measured.points[0].log_wear.is_some(), has_log);
    }
    let flash = first.verdicts.iter().find(|it| it.name == "ocz-core").unwrap();
    assert!(flash.data_years.unwrap() > 0.0, "half of the operations write");
}

/// Requests of 4 KiB anywhere in 16 MiB, one each millisecond, of which every `writes_each`th writes.
fn trace(directory: &std::path::Path, writes_each: u64) -> TraceLoad {
    let what =
        |number: u64| if (number + 1).is_multiple_of(writes_each) { "Write" } else { "Read" };
    trace_of(directory, &what)
}

fn trace_of(directory: &std::path::Path, what: &dyn Fn(u64) -> &'static str) -> TraceLoad {
    let path = directory.join("trace.csv");
    let mut file = std::fs::File::create(&path).unwrap();
    // MSR's form: time in 100 ns, host, disk, what, offset, bytes, response.
    for number in 0..2000_u64 {
        let what = what(number);
        let (time, offset) =
            (128_166_372_003_061_629 + number * 10_000, number * 7919 % 4096 * 4096);
        writeln!(file, "{time},host,0,{what},{offset},4096,0").unwrap();
    }
    drop(file);
    TraceLoad::read(path, TraceOptions::default(), &Unwatched).unwrap()
}

#[test]
fn a_trace_is_asked_of_drives_as_fast_as_they_go() {
    let directory = tempfile::tempdir().unwrap();
    let candidates = ["ocz-core", "toshiba-320", "toshiba-320+log=ocz-core"].map(candidate);
    let answer = |load: TraceLoad| {
        let asked = Question { data_bytes: 1 << 30, ..question(Load::Trace(load)) };
        choose(&asked, &candidates, &Prices::embedded(), &mut Unwatched).unwrap()
    };
    let load = trace(directory.path(), 3);
    // 2000 in 1999 ms.
    assert_eq!((load.request_count, load.own_rate()), (2000, Some(2000.0 / 1.999)));
    let slow = TraceLoad { duration_ns: 4_000_000_000_000, ..load.clone() };
    assert_eq!(slow.own_rate(), Some(0.5), "one each two seconds is no reason for a thousand");
    // All but what is behind the last request of the extent that came last.
    assert!((15 << 20..=16 << 20).contains(&load.touched_bytes), "{}", load.touched_bytes);
    let answered = answer(load);
    let of = |name: &str| answered.verdicts.iter().find(|it| it.name == name).unwrap();
    assert_eq!(answered.best().unwrap().name, "toshiba-320");
    assert_eq!(of("toshiba-320").why_many, Some(WhyMany::Rate), "an arm moves for each");
    // It maps chunks of 4 MiB: a write of a page copies one.
    assert!(of("ocz-core").data_years.unwrap() < 1.0);
    assert!(of("toshiba-320+log=ocz-core").refused.as_ref().unwrap().contains("log"));
    let answered = answer(trace(directory.path(), 10_000));
    assert_eq!(answered.best().unwrap().name, "ocz-core", "nothing is written");
    assert_eq!(answered.best().unwrap().data_years, None);
}

#[test]
fn trims_that_a_drive_has_not_are_no_work_that_it_did() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trims.log");
    let mut text = "fio version 2 iolog\n/dev/d add\n/dev/d open\n".to_owned();
    for number in 0..100_u64 {
        text += &format!("/dev/d trim {} 4096\n", number * 4096);
    }
    std::fs::write(&path, text).unwrap();
    let load = TraceLoad::read(path, TraceOptions::default(), &Unwatched).unwrap();
    let asked = Question { data_bytes: 1 << 30, ..question(Load::Trace(load)) };
    let candidates = ["toshiba-320", "nvme-tlc-2024"].map(candidate);
    let answer = choose(&asked, &candidates, &Prices::embedded(), &mut Unwatched).unwrap();
    let refused = |name: &str| {
        let verdict = answer.verdicts.iter().find(|it| it.name == name).unwrap();
        verdict.refused.clone()
    };
    assert!(refused("toshiba-320").unwrap().contains("trims"));
    assert_eq!(refused("nvme-tlc-2024"), None);
}

#[test]
fn a_drive_that_there_is_not_is_named() {
    let said = Candidate::parse("ocz-cor").unwrap_err().to_string();
    assert!(said.contains("ocz-core"), "{said}");
    let said = Candidate::parse("ocz-core+log=pcn").unwrap_err().to_string();
    assert!(said.contains("pcm"), "{said}");
}
