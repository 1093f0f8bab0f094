//! What experiment files are refused, with which line and words, and what they expand to.

use super::*;

const SMALL: &str = r#"
title = "t"
question = "q"
method = "m"
paper = "S000"
reference = "r"

[measure]
kind = "closed_form"
read_us = 20
write_us = 200
erase_us = 1500
erase_block_page_count = 64
live_fractions = [0.0, 0.5]

[[shape]]
class = "closed_form"
kind = "value_within"
series = "dynamic"
at = 0.5
low = 466
high = 467
"#;

fn error_of(text: &str) -> String {
    Experiment::parse("small", "small.toml", text).unwrap_err().to_string()
}

#[test]
fn a_small_experiment_parses() {
    assert_eq!(Experiment::parse("small", "small.toml", SMALL).unwrap().name, "small");
}

#[test]
fn the_full_scale_has_a_name_of_its_own_and_is_checked_like_the_other() {
    let full = |lines: &str| SMALL.replace("[[shape]]", &format!("[full]\n{lines}\n\n[[shape]]"));
    let parse = |text: &str| Experiment::parse("small", "small.toml", text);
    assert_eq!(parse(SMALL).unwrap().at_full_scale(), None);
    let small = parse(&full("live_fractions = [0.5]\nerase_us = 2000")).unwrap();
    let large = small.clone().at_full_scale().unwrap();
    assert_eq!(large.name, "small-full");
    let ExperimentKind::ClosedForm(kind) = &large.measure else { panic!("it keeps its kind") };
    assert_eq!(kind.live_fractions, [0.5]);
    assert_ne!(small.measure, large.measure);
    let error = error_of(&full("live_fractions = [2.0]"));
    assert!(error.starts_with("small.toml:16: "), "{error}");
    let error = error_of(&full("earse_us = 2"));
    assert!(error.contains("unknown field `earse_us`"), "{error}");
}

#[test]
fn a_shape_may_be_another_at_full_scale() {
    let parse = |text: &str| Experiment::parse("small", "small.toml", text);
    let with = |full: &str| {
        let text = SMALL.replace("[[shape]]", "[full]\nerase_us = 2000\n\n[[shape]]");
        format!("{text}full = {full}\n")
    };
    let small = parse(&with("{ low = 500, high = 600 }")).unwrap();
    let limits = |experiment: &Experiment| match experiment.shape[0].claim {
        Claim::ValueWithin { low, high, .. } => (low, high),
        ref other => panic!("{other:?}"),
    };
    assert_eq!(limits(&small), (Some(466.0), Some(467.0)));
    assert_eq!(limits(&small.at_full_scale().unwrap()), (Some(500.0), Some(600.0)));
    // Another class takes nothing along that it has no use for.
    let source = "source = '[S] S000 section 8.3: 466'";
    let large = parse(&with(&format!("{{ class = 'prediction', published = 466, {source} }}")));
    let large = large.unwrap().at_full_scale().unwrap();
    assert_eq!(limits(&large), (None, None));
    // Its rules are those of every shape.
    for (full, wrong) in [
        ("{ low = 600, high = 500 }", "small.toml:16"),
        ("{ class = 'prediction', published = 466 }", "needs `source`"),
        ("{ lwo = 600 }", "`lwo`"),
        ("{}", "a table of the keys"),
        ("7", "a table of the keys"),
        ("{ full = { low = 1 } }", "`full`"),
    ] {
        let error = error_of(&with(full));
        assert!(error.contains(wrong), "{full}: {error}");
    }
    let error = error_of(&format!("{SMALL}full = {{ low = 1 }}\n"));
    assert!(error.contains("`full` of a shape needs `[full]`"), "{error}");
}

#[test]
fn an_unknown_key_is_answered_with_file_line_and_nearest_key() {
    let error = error_of(&SMALL.replace("question", "qestion"));
    assert!(error.starts_with("small.toml:3: unknown field `qestion`"), "{error}");
    assert!(error.ends_with("did you mean `question`?"), "{error}");
}

#[test]
fn an_unknown_key_in_a_tagged_table_is_found_on_its_own_line() {
    let error = error_of(&SMALL.replace("erase_us", "erase_uss"));
    assert!(error.starts_with("small.toml:12: "), "{error}");
    assert!(error.contains("did you mean `erase_us`?"), "{error}");
    let error = error_of(&SMALL.replace("high", "hihg"));
    assert!(error.starts_with("small.toml:22: "), "{error}");
    assert!(error.contains("did you mean `high`?"), "{error}");
}

#[test]
fn a_value_in_a_tagged_table_that_is_refused_is_found_on_its_own_line() {
    let error = error_of(&SMALL.replace("page_count = 64", "page_count = -64 # as 64"));
    let told = "small.toml:13: `erase_block_page_count`: invalid value: integer `-64`, expected ";
    assert!(error.starts_with(told), "{error}");
    let error = error_of(&SMALL.replace("low = 466", "low = 'no'"));
    assert!(error.starts_with("small.toml:21: `low`: invalid type: string \"no\""), "{error}");
    let money = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n[measure]\n\
                 kind = 'money'\nqueue_depth = 1\nrequest_count = 1\nrequest_bytes = ['4KiB']\n\
                 flash_capacity = '1GB'\n[labels]\none = '-1'\n[measure.drives.one]\n\
                 base = 'sim:ocz-core'\ncents = -1\n";
    let error = error_of(money);
    let told = "small.toml:16: `cents`: invalid value: integer `-1`, expected ";
    assert!(error.starts_with(told), "{error}");
    let inline = "[measure.drives]\none = { base = 'sim:ocz-core', cents = -1 }\n";
    let error = error_of(
        &money.replace("[measure.drives.one]\nbase = 'sim:ocz-core'\ncents = -1\n", inline),
    );
    assert!(error.starts_with("small.toml:15: `cents`: "), "{error}");
}

#[test]
fn a_page_cache_that_is_none_is_found_on_the_line_of_its_drive() {
    let files = |flash: &str, disk: &str| {
        format!(
            "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = 'S004'\nreference = 'r'\n[measure]\n\
             kind = 'file_system'\nfile_bytes = ['8MiB', '16MiB']\nblock_bytes = ['4KiB']\n\
             [measure.drives.flash]\nbase = 'sim:supertalent-duradrive'\ncapacity = '64MiB'\n\
             page_cache = {{ bytes = '{flash}' }}\n[measure.drives.disk]\nbase = 'sim:wd800aajs'\n\
             page_cache = {{ bytes = '{disk}' }}\n[measure.variants.cold]\npattern = 'random_read'\n\
             [[shape]]\nclass = 'closed_form'\nkind = 'value_within'\n\
             series = 'flash.cold.us'\nat = 4096\nlow = 1\nhigh = 500\n"
        )
    };
    let refused = error_of(&files("12MiB", "0B"));
    let expected = "small.toml:16: `drives.disk.page_cache`: a page cache of 0 bytes is too small";
    assert!(refused.contains(expected), "{refused}");
    let refused = error_of(&files("0B", "12MiB"));
    assert!(refused.contains("small.toml:13: `drives.flash.page_cache`: "), "{refused}");
    let answer = Experiment::parse("small", "small.toml", &files("12MiB", "12MiB"));
    assert!(answer.is_ok(), "{answer:?}");
}

#[test]
fn what_a_measurement_refuses_is_found_on_its_own_line() {
    let error =
        error_of(&SMALL.replace("erase_block_page_count = 64", "erase_block_page_count = 0"));
    assert!(error.starts_with("small.toml:13: `erase_block_page_count`"), "{error}");
    let with = |set: &str| {
        format!(
            "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n[measure]\n\
             kind = 'late_join'\nscale_factor = 0.01\nmemory = '1MiB'\npage_bytes = '4KiB'\n\
             span_pages = 8\nshares = [1, 10]\n{set}\n[measure.drives.d]\nbase = 'sim:dram-like'\n"
        )
    };
    Experiment::parse("small", "small.toml", &with("set = { version_bytes = '1MiB' }")).unwrap();
    for (set, told) in [
        (
            "set = { durabilty = 'none' }",
            "small.toml:13: `durabilty` in `set`: there is no setting `durabilty`; did you mean `durability`?",
        ),
        (
            "[measure.set]\n# durability\nlock_timeout_ns = 1\ndurability = 'nome'",
            "small.toml:16: `durability` in `set`: unknown variant `nome`",
        ),
        ("set = { log_structured = { victm = 1 } }", "small.toml:13: `log_structured.victm`"),
        (
            "set.pool_bytes = '4KiB'",
            "small.toml:13: `pool_bytes` in `set`: pool_bytes 4096 is below",
        ),
        (
            "set = { page_bytes = 512 }",
            "small.toml:13: `set` cannot have `page_bytes` here; say `page_bytes` of the measurement",
        ),
    ] {
        let error = error_of(&with(set));
        assert!(error.starts_with(told), "{set}: {error}");
    }
}

#[test]
fn an_unknown_series_is_answered_with_the_nearest() {
    let error = error_of(&SMALL.replace("\"dynamic\"", "\"dynamc\""));
    assert!(error.starts_with("small.toml:19: no series is called `dynamc`"), "{error}");
    assert!(error.ends_with("did you mean `dynamic`?"), "{error}");
}

#[test]
fn nonsense_parameters_are_refused() {
    let error = error_of(&SMALL.replace("[0.0, 0.5]", "[0.0, 1.5]"));
    assert!(error.contains("1.5"), "{error}");
    assert!(error_of(&SMALL.replace("= 64", "= 0")).contains("erase_block_page_count"));
}

#[test]
fn ratios_are_expanded_in_every_combination() {
    let derived = Derived {
        name: "{d}.{p}.of_disk".into(),
        numerator: "{d}.{p}".into(),
        denominator: "disk.{p}".into(),
        each: BTreeMap::from([
            ("d".into(), vec!["a".into(), "b".into()]),
            ("p".into(), vec!["read".into(), "write".into()]),
        ]),
    };
    let names: Vec<String> = derived.expand().into_iter().map(|ratio| ratio.name).collect();
    assert_eq!(names, ["a.read.of_disk", "a.write.of_disk", "b.read.of_disk", "b.write.of_disk"]);
}

#[test]
fn two_series_of_one_name_are_refused() {
    let derived = |name: &str| {
        format!(
            "[[derived]]\nname = \"{name}\"\nnumerator = \"dynamic\"\ndenominator = \"naive\"\n\n"
        )
    };
    let with = |derived: &str| SMALL.replace("[[shape]]", &format!("{derived}[[shape]]"));
    assert!(Experiment::parse("small", "small.toml", &with(&derived("gain"))).is_ok());
    let error = error_of(&with(&derived("dynamic")));
    assert!(error.contains("two series called `dynamic`"), "{error}");
    let error = error_of(&with(&derived("gain").repeat(2)));
    assert!(error.contains("two series called `gain`"), "{error}");
}

#[test]
fn a_series_that_cancels_is_refused() {
    let derived = |name: &str, numerator: &str, denominator: &str| {
        format!(
            "[[derived]]\nname = \"{name}\"\nnumerator = \"{numerator}\"\ndenominator = \"{denominator}\"\n\n"
        )
    };
    let with = |derived: &str| SMALL.replace("[[shape]]", &format!("{derived}[[shape]]"));
    let error = error_of(&with(&derived("one", "naive", "naive")));
    assert!(error.contains("`one` is 1, whatever is measured"), "{error}");
    let gains = derived("gain", "naive", "dynamic") + &derived("again", "naive", "dynamic");
    let error = error_of(&with(&(gains + &derived("one", "gain", "again"))));
    assert!(error.contains("`one` is 1, whatever is measured"), "{error}");
}

#[test]
fn what_is_claimed_or_printed_once_counts_once() {
    let published = "[[published]]\nseries = 'dynamic'\nsource = '[S] S000 section 8.4: 466'\n\
                     points = [[0.5, 466]]\n[[derived]]\nname = 'gain'\nnumerator = 'naive'\n\
                     denominator = 'dynamic'\n[[derived]]\nname = 'loss'\nnumerator = 'dynamic'\n\
                     denominator = 'naive'\n[[published]]\nseries = 'gain'\n\
                     source = '[S] S000 figure 2-1'\npoints = [[0.5, 12]]\n";
    let shape = |class: &str, rest: &str| {
        let source = "source = '[S] S000 section 8.4: \"466 us\"'";
        format!("[[shape]]\nclass = '{class}'\n{source}\n{rest}\n")
    };
    let gate = |class: &str| shape(class, "kind = 'ratio_to_published'\nseries = 'dynamic'");
    let gain = shape("prediction", "kind = 'ratio_to_published'\nseries = 'gain'");
    let value = |series: &str, published: &str| {
        let rest = format!("kind = 'value_within'\nseries = '{series}'\npublished = {published}");
        shape("prediction", &rest)
    };
    let parse = |shapes: &[String]| {
        let text = format!(
            "{}{published}{gain}{}",
            SMALL.replace("[[shape]]", "[[shape]]\n"),
            shapes.concat()
        );
        Experiment::parse("small", "small.toml", &text).map_err(|error| error.to_string())
    };
    let error = |shapes: &[String]| parse(shapes).unwrap_err();
    assert!(parse(&[gate("prediction")]).is_ok());
    let order = |at: &str| {
        shape(
            "prediction",
            &format!("kind = 'ordering'\nabove = 'naive'\nbelow = 'dynamic'\nat = {at}"),
        )
    };
    assert!(parse(&[gate("prediction"), order("0.5")]).is_ok());
    assert!(error(&[gate("prediction"), gate("prediction")]).contains("has a shape already"));
    assert!(error(&[gate("prediction"), order("0.5"), order("0")]).contains("the same sentence"));
    let twice = error(&[gate("prediction"), value("dynamic", "466")]);
    assert!(twice.contains("a printed number has one class"), "{twice}");
    let other = error(&[gate("prediction"), value("dynamic", "400")]);
    assert!(other.contains("the paper prints 466"), "{other}");
    let ratio =
        "kind = 'ratio_within'\nnumerator = 'naive'\ndenominator = 'dynamic'\npublished = [9, 20]";
    let other = error(&[gate("prediction"), shape("prediction", ratio)]);
    assert!(other.contains("the paper prints 12"), "whatever it is called: {other}");
}

#[test]
fn a_star_stands_for_one_part() {
    assert!(matches("*.random_read", "device-a.random_read"));
    assert!(!matches("*.random_read", "device-a.random_read.iops"));
    assert!(matches("dynamic", "dynamic"));
    assert!(!matches("dynamic", "dynamic.simulated"));
}
