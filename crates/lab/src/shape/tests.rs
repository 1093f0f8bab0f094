//! What shapes say of series whose numbers are known, by class and over seeds.

use super::*;
use crate::claim::Place;
use crate::experiment::Published;
use crate::outcome::Series;

fn series(name: &str, points: &[(f64, f64)]) -> Series {
    Series { points: points.to_vec(), ..Series::new(name, "B", "MB/s") }
}

fn three() -> [Series; 3] {
    [
        series("flat", &[(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)]),
        series("rising", &[(1.0, 1.0), (2.0, 1.9), (4.0, 4.0)]),
        series("dented", &[(1.0, 1.0), (2.0, 0.97), (4.0, 4.0)]),
    ]
}

fn shape(text: &str) -> Shape {
    toml::from_str(text).unwrap()
}

/// The verdict on a checked shape, by the series of each seed.
fn judge(text: &str, seeds: &[&[Series]]) -> Verdict {
    let shape = shape(text);
    shape.check().unwrap();
    let published = [Published {
        series: "rising".into(),
        source: "[S] test".into(),
        unit: "MB/s".into(),
        points: vec![(Place(2.0), 2.0)],
    }];
    let evidence = |series| Evidence { series, published: &published };
    let seeds: Vec<Evidence<'_>> = seeds.iter().map(|series| evidence(*series)).collect();
    let verdict = shape.judge(&seeds);
    assert!(!verdict.text.is_empty());
    verdict
}

fn holds(text: &str) -> bool {
    judge(&format!("class='own'\n{text}"), &[&three()]).holds
}

fn predicts(text: &str) -> bool {
    judge(&format!("class='prediction'\nsource='[S] S000 table 1'\n{text}"), &[&three()]).holds
}

fn refusal(text: &str) -> String {
    shape(text).check().unwrap_err()
}

#[test]
fn orderings_compare_at_a_point_at_several_or_everywhere() {
    assert!(holds("kind='ordering'\nabove='flat'\nbelow='rising'\nat=2"));
    assert!(holds("kind='ordering'\nabove='flat'\nbelow='rising'\nat=[1, 2]"));
    assert!(!holds("kind='ordering'\nabove='flat'\nbelow='rising'\nat=[1, 4]"));
    assert!(!holds("kind='ordering'\nabove='flat'\nbelow='rising'"));
    assert!(!holds("kind='ordering'\nabove='flat'\nbelow='rising'\nat=2\nfactor=1.1"));
    assert!(
        !holds("kind='ordering'\nabove='dented'\nbelow='rising'\nat=1"),
        "what is equal is not above"
    );
    assert!(!holds("kind='ordering'\nabove='flat'\nbelow='rising'\nat=[1, 3]"), "none at 3");
}

#[test]
fn ratios_and_values_have_limits_on_either_side() {
    let ratio = "kind='ratio_within'\nnumerator='rising'\ndenominator='flat'\nat=4\n";
    assert!(holds(&format!("{ratio}low=1.9\nhigh=2.1")));
    assert!(holds(&format!("{ratio}low=1.9")));
    assert!(!holds(&format!("{ratio}high=1.9")));
    assert!(holds("kind='value_within'\nseries='flat'\nlow=2\nhigh=2"));
    assert!(!holds("kind='value_within'\nseries='rising'\nlow=1\nhigh=3.9"));
}

#[test]
fn limits_of_what_was_published_follow_from_it() {
    let value = "kind='value_within'\nseries='rising'\nat=4\npublished=";
    assert!(predicts(&format!("{value}3.1")), "4 is 29 % above");
    assert!(!predicts(&format!("{value}3.0")), "4 is 33 % above");
    assert!(predicts(&format!("{value}5.1")) && !predicts(&format!("{value}5.3")));
    assert!(predicts(&format!("{value}[1.0, 4.0]")), "a wide range is its own limit");
    assert!(!predicts(&format!("{value}[1.0, 3.9]")));
    assert!(predicts(&format!("{value}[3.0, 3.3]")), "a narrow one has 30 % about its centre");
    assert!(predicts(&format!("{value}{{ at_least = 4 }}")));
    assert!(!predicts(&format!("{value}{{ at_least = 4.01 }}")), "at least has no slack");
    assert!(predicts("kind='ratio_to_published'\nseries='rising'"));
    assert!(predicts("kind='ratio_to_published'\nseries='rising'\nwithin=0.06"));
    assert!(!predicts("kind='ratio_to_published'\nseries='rising'\nwithin=0.04"));
    assert!(!predicts("kind='ratio_to_published'\nseries='flat'"), "nothing published");
}

#[test]
fn crossovers_have_a_direction_and_a_place() {
    let cross = |first, second, rest: &str| {
        format!("kind='crossover'\nfirst='{first}'\nsecond='{second}'\n{rest}")
    };
    assert!(holds(&cross("rising", "flat", "between=[2, 4]")));
    assert!(!holds(&cross("rising", "flat", "between=[1, 2]")));
    assert!(!holds(&cross("flat", "rising", "between=[2, 4]")), "it only sinks below");
    assert!(predicts(&cross("rising", "flat", "published=4")), "2.1 is within a factor of 2");
    assert!(!predicts(&cross("rising", "flat", "published=4.3")));
}

#[test]
fn monotone_allows_its_slack_and_constant_compares_the_extremes() {
    assert!(holds("kind='monotone'\nseries='rising'\ndirection='rising'"));
    assert!(!holds("kind='monotone'\nseries='dented'\ndirection='rising'\nslack=0.02"));
    assert!(holds("kind='monotone'\nseries='dented'\ndirection='rising'\nslack=0.05"));
    assert!(!holds("kind='monotone'\nseries='rising'\ndirection='falling'"));
    assert!(holds("kind='constant'\nseries='flat'\nfactor=1.01"));
    assert!(!holds("kind='constant'\nseries='rising'\nfactor=1.01"));
}

#[test]
fn what_has_one_point_or_no_published_value_at_a_place_does_not_hold() {
    let one = [series("flat", &[(1.0, 2.0)])];
    let constant = "class='own'\nkind='constant'\nseries='flat'\nfactor=1.01";
    assert!(!judge(constant, &[&one]).holds, "one point always hardly changes");
    assert!(predicts("kind='ratio_to_published'\nseries='rising'\nat=2"));
    assert!(!predicts("kind='ratio_to_published'\nseries='rising'\nat=[2, 4]"), "none at 4");
}

#[test]
fn what_was_not_measured_does_not_hold() {
    assert!(!holds("kind='monotone'\nseries='nobody'\ndirection='rising'"));
    assert!(!holds("kind='value_within'\nseries='flat'\nat=3\nlow=1\nhigh=9"));
    assert!(!holds("kind='crossover'\nfirst='rising'\nsecond='nobody'\nbetween=[4, 8]"));
}

#[test]
fn an_order_holds_at_every_seed_and_a_value_by_the_median() {
    let seeds = [1.5, 2.5, 2.6].map(|y| [series("flat", &[(1.0, 2.0)]), series("b", &[(1.0, y)])]);
    let seeds: Vec<&[Series]> = seeds.iter().map(<[Series; 2]>::as_slice).collect();
    let order = "class='own'\nkind='ordering'\nabove='b'\nbelow='flat'";
    assert!(!judge(order, &seeds).holds && judge(order, &seeds[1..]).holds);
    let value = "class='own'\nkind='value_within'\nseries='b'\nlow=2.4\nhigh=2.6";
    let verdict = judge(value, &seeds);
    assert!(verdict.holds, "{}", verdict.text);
    assert!(verdict.text.contains("1.5 to 2.6 at 3 seeds"), "{}", verdict.text);
    let decided = verdict.decided.unwrap();
    assert_eq!((decided.value, decided.by_seed), (2.5, vec![1.5, 2.5, 2.6]));
}

#[test]
fn the_point_nearest_to_its_limit_decides() {
    let value = |limits: &str| {
        let text = format!("class='own'\nkind='value_within'\nseries='rising'\n{limits}");
        let decided = judge(&text, &[&three()]).decided.unwrap();
        (decided.x, decided.value)
    };
    assert_eq!(value("low=0.5"), (1.0, 1.0));
    assert_eq!(value("high=5"), (4.0, 4.0));
    assert_eq!(value("low=0.9\nhigh=6"), (1.0, 1.0));
    assert_eq!(value("low=1.5\nhigh=4.1"), (1.0, 1.0));
}

#[test]
fn what_differs_must_differ_and_by_as_much_as_is_written_down() {
    let differs = |published: &str, ours: &str| {
        let text = format!(
            "class='differs'\nsource='[S] S000 table 1'\nreason='it is slower'\nvaried='Nothing'\nours={ours}\n\
             kind='value_within'\nseries='rising'\nat=4\npublished={published}"
        );
        judge(&text, &[&three()])
    };
    assert!(differs("10", "[3.9, 4.1]").holds);
    let near = differs("4", "[3.9, 4.1]");
    assert!(!near.holds && near.text.contains("no difference any more"), "{}", near.text);
    let moved = differs("10", "[3.8, 3.9]");
    assert!(!moved.holds && moved.text.contains("when it was looked into"), "{}", moved.text);
    assert_eq!(moved.reason, "it is slower");
}

#[test]
fn a_value_at_its_limit_is_a_difference_whatever_the_seed() {
    // A published 10 allows for 7.7 and more.
    let verdict = |value: f64, ours: &str| {
        let text = format!(
            "class='differs'\nsource='[S] S000 table 1'\nreason='it is slower'\nvaried='Nothing'\nours={ours}\n\
             kind='value_within'\nseries='a'\nat=1\npublished=10"
        );
        judge(&text, &[&[series("a", &[(1.0, value)])]])
    };
    for (value, is_told) in [(7.5, false), (8.0, true)] {
        let verdict = verdict(value, "[7.4, 8.1]");
        assert!(verdict.holds, "{}", verdict.text);
        assert_eq!(verdict.text.contains("the seed decides"), is_told, "{}", verdict.text);
    }
    assert!(!verdict(7.3, "[7.4, 8.1]").holds && !verdict(8.2, "[7.4, 8.1]").holds);
    assert!(!verdict(8.0, "[7.9, 8.1]").holds, "within the limits as a whole it is met");
}

#[test]
fn what_is_met_alike_at_all_seeds_is_no_difference_at_its_limit() {
    let differs = |limits: &str, seeds: &[&[(f64, f64)]]| {
        let text = format!(
            "class='differs'\nsource='[S] S000 table 1'\nreason='it is slower'\nvaried='Nothing'\n{limits}"
        );
        let seeds: Vec<[Series; 1]> =
            seeds.iter().map(|points| [series("rising", points)]).collect();
        let seeds: Vec<&[Series]> = seeds.iter().map(<[Series; 1]>::as_slice).collect();
        judge(&text, &seeds)
    };
    // A published 10 allows for 7.7 and more.
    let value = |values: &[f64]| {
        let points: Vec<[(f64, f64); 1]> = values.iter().map(|y| [(1.0, *y)]).collect();
        let points: Vec<&[(f64, f64)]> = points.iter().map(<[(f64, f64); 1]>::as_slice).collect();
        differs("kind='value_within'\nseries='rising'\npublished=10\nours=[7.4, 8.1]", &points)
    };
    assert!(value(&[7.5, 7.5]).holds, "missed");
    let decided = value(&[7.9, 7.6, 8.0]);
    assert!(decided.holds && decided.text.ends_with("the seed decides"), "{}", decided.text);
    let lucky = value(&[7.9, 7.8, 8.0]);
    assert!(lucky.holds && lucky.text.ends_with("met at each of these"), "{}", lucky.text);
    let met = value(&[7.9, 7.9]);
    assert!(!met.holds && met.text.contains("no difference any more"), "{}", met.text);
    // Of several points those that are met have to be open, whatever the others are; and a claim on the
    // whole of a series likewise.
    let over = "kind='value_within'\nseries='rising'\npublished=10\nours=[7.4, 8.1]";
    assert!(differs(over, &[&[(1.0, 7.5), (2.0, 7.9)], &[(1.0, 7.5), (2.0, 7.6)]]).holds);
    assert!(!differs(over, &[&[(1.0, 7.5), (2.0, 7.9)], &[(1.0, 7.6), (2.0, 7.9)]]).holds);
    let whole = "kind='constant'\nseries='rising'\nfactor=1.2\nours=[1.1, 1.3]";
    assert!(differs(whole, &[&[(1.0, 1.0), (2.0, 1.15)], &[(1.0, 1.0), (2.0, 1.1)]]).holds);
    assert!(!differs(whole, &[&[(1.0, 1.0), (2.0, 1.15)], &[(1.0, 1.0), (2.0, 1.15)]]).holds);
}

#[test]
fn a_published_bound_is_no_claim_about_what_is_far_beyond_it() {
    let holds = |published: &str, value: f64| {
        let text = format!(
            "class='prediction'\nsource='[S] S000 table 1'\nkind='value_within'\nseries='a'\n\
             published={published}"
        );
        judge(&text, &[&[series("a", &[(1.0, value)])]]).holds
    };
    assert!(holds("{ at_least = 2 }", 19.0) && !holds("{ at_least = 2 }", 21.0));
    assert!(holds("{ at_most = 2 }", 0.3) && !holds("{ at_most = 2 }", 0.1));
}

#[test]
fn an_order_that_differs_at_some_seeds_only_is_chance() {
    let order = |values: [f64; 3]| {
        let seeds = values.map(|y| [series("flat", &[(1.0, 2.0)]), series("b", &[(1.0, y)])]);
        let seeds: Vec<&[Series]> = seeds.iter().map(<[Series; 2]>::as_slice).collect();
        let text = "class='differs'\nsource='[S] S000 table 1'\nreason='it is slower'\nvaried='Nothing'\n\
                    kind='ordering'\nabove='b'\nbelow='flat'\nours=[0.9, 1.0]";
        judge(text, &seeds)
    };
    assert!(order([1.9, 1.8, 2.0]).holds);
    let verdict = order([1.9, 1.8, 2.1]);
    assert!(!verdict.holds && verdict.text.contains("chance"), "{}", verdict.text);
}

#[test]
fn an_order_that_differs_is_missed_as_a_whole() {
    let text = "class='differs'\nsource='[S] S000 table 1'\nreason='it is slower'\nvaried='Nothing'\nours=[0.4, 0.6]\n\
                kind='ordering'\nabove='flat'\nbelow='rising'";
    assert!(judge(text, &[&three()]).holds, "it is above at 1 and 2, but not at 4");
}

#[test]
fn a_published_claim_needs_source_and_value_and_has_no_limits_of_ours() {
    let value = "kind='value_within'\nseries='flat'\n";
    let text = format!("class='prediction'\n{value}published=2");
    assert!(refusal(&text).contains("needs `source`"));
    let sourced = "source='[S] S000 table 1'\n";
    let refused = |class: &str, rest: &str| refusal(&format!("class='{class}'\n{value}{rest}"));
    assert!(
        refused("prediction", "source='[M:hi] S000 table 1'\npublished=2")
            .contains("needs `source`")
    );
    assert!(refused("prediction", &format!("{sourced}low=1\nhigh=3")).contains("follow from"));
    assert!(refused("prediction", sourced).contains("needs `published`"));
    assert!(refused("prediction", &format!("{sourced}published=-1")).contains("above 0"));
    assert!(refused("fit", &format!("{sourced}published=2")).contains("names the parameters"));
    assert!(refused("differs", &format!("{sourced}published=2")).contains("all three"));
    let lead = format!("{sourced}published=2\nheadline=true");
    assert!(refused("prediction", &lead).contains("belongs to what differs"));
    assert!(refused("own", "published=2").contains("is for a prediction"));
    assert!(refused("own", "").contains("cannot fail"));
    let wide = "class='prediction'\nkind='ratio_to_published'\nseries='rising'\nwithin=0.5";
    assert!(refusal(wide).contains("at most 0.3"));
    let slack = "class='prediction'\nsource='[S] S000 table 1'\nkind='monotone'\nseries='rising'\n\
                 direction='rising'\nslack=0.1";
    assert!(refusal(slack).contains("no slack"));
}

#[test]
fn a_difference_says_why_and_how_far_what_was_varied_moved_it() {
    let differs = |reason: &str, varied: &str| {
        let text = format!(
            "class='differs'\nsource='[S] S000 table 1'\nkind='value_within'\nseries='flat'\n\
             published=9\nours=[1, 1.5]\nreason='{reason}'\nvaried='{varied}'"
        );
        shape(&text).check()
    };
    assert_eq!(differs("seeks are short", "a longer seek: 1.4"), Ok(()));
    assert_eq!(differs("seeks are short", "Nothing: it is arithmetic"), Ok(()));
    for (reason, varied) in [
        ("?", "a longer seek: 1.4"),
        ("seeks are short", "-"),
        ("seeks are short", "a longer seek"),
    ] {
        assert!(differs(reason, varied).unwrap_err().contains("by numbers"), "{reason}, {varied}");
    }
}

#[test]
fn what_cannot_fail_is_refused() {
    let own = |rest: &str| refusal(&format!("class='own'\n{rest}"));
    let value = "kind='value_within'\nseries='flat'\n";
    assert!(own(&format!("{value}low=0\nhigh=1e300")).contains("is none"));
    assert!(own(&format!("{value}low=-5\nhigh=9")).contains("is none"));
    let crossing = "kind='crossover'\nfirst='flat'\nsecond='rising'\nbetween=";
    assert!(own(&format!("{crossing}[0, 1e9]")).contains("is none"));
    assert!(own(&format!("{crossing}[1, 1e9]")).contains("factor of 1000"));
    assert!(own(&format!("{value}low=0")).contains("above 0"));
    assert!(own(&format!("{value}high=inf")).contains("finite"));
    assert!(own(&format!("{value}low=1\nhigh=inf")).contains("finite"));
    assert!(own(&format!("{value}low=2\nhigh=1")).contains("comes first"));
    assert!(own(&format!("{value}low=nan\nhigh=1")).contains("finite"));
    assert!(own("kind='ordering'\nabove='flat'\nbelow='rising'\nfactor=nan").contains("`factor`"));
    assert!(own("kind='ordering'\nabove='flat'\nbelow='flat'").contains("with itself"));
    assert!(own("kind='constant'\nseries='flat'\nfactor=inf").contains("`factor`"));
    assert!(own("kind='monotone'\nseries='flat'\ndirection='rising'\nslack=1").contains("`slack`"));
    assert!(
        own("kind='monotone'\nseries='flat'\ndirection='rising'\nslack=0.3").contains("`slack`")
    );
    assert!(own("kind='constant'\nseries='flat'\nfactor=1e300").contains("`factor`"));
    assert!(own(&format!("{value}low=1e-300\nhigh=1")).contains("factor of 1000"));
    let form = "class='closed_form'\nkind='ratio_to_published'\nseries='rising'";
    assert!(refusal(form).contains("needs `source`"));
    let narrow = "class='differs'\nkind='ratio_to_published'\nseries='rising'\nwithin=1e-9\n\
                  reason='it is slower'\nvaried='Nothing'\nours=[1, 1]";
    assert!(refusal(narrow).contains("take out `within`"));
    for source in ["[S] x y", "[V] lorem ipsum", "[S]", "S000 table 1", "[M] S000 table 1"] {
        let text = format!("class='prediction'\nsource='{source}'\n{value}published=2");
        assert!(refusal(&text).contains("needs `source`"), "{source}");
    }
    let published = |value: &str| {
        let text = "class='prediction'\nsource='[S] S000 table 1'\nkind='value_within'";
        refusal(&format!("{text}\nseries='flat'\npublished={value}"))
    };
    for value in [
        "{ at_least = 0 }",
        "{ at_least = 1e-300 }",
        "{ at_most = 1e300 }",
        "[1e-300, inf]",
        "[1, 11]",
        "{ at_most = inf }",
        "nan",
    ] {
        assert!(published(value).contains("finite value above 0"), "{value}");
    }
    let differs = |ours: &str| {
        let text = "class='differs'\nsource='[S] S000 table 1'\nreason='it is slower'\nvaried='Nothing'\npublished=9";
        let text = format!("{text}\n{value}\nours={ours}");
        shape(&text).check().map_err(|error| error.contains("factor of 1.5"))
    };
    assert_eq!(differs("[1.0, 1.5]"), Ok(()));
    assert_eq!(differs("[inf, inf]"), Ok(()), "a crossover that is nowhere");
    for ours in ["[1.0, 1.6]", "[0, 1]", "[-1, 1]", "[1, inf]", "[2, 1]", "[nan, nan]"] {
        assert_eq!(differs(ours), Err(true), "{ours}");
    }
}

#[test]
fn of_what_is_negative_or_flat_nothing_is_claimed() {
    let two = [
        series("below", &[(1.0, -4.0), (2.0, -2.0)]),
        series("lower", &[(1.0, -8.0), (2.0, -8.0)]),
        series("equal", &[(1.0, 3.0), (2.0, 3.0)]),
        series("none", &[(1.0, 0.0), (2.0, 3.0), (4.0, 6.0)]),
        series("three", &[(1.0, 3.0), (2.0, 3.0), (4.0, 3.0)]),
    ];
    let holds = |text: &str| judge(&format!("class='own'\n{text}"), &[&two]).holds;
    assert!(!holds("kind='constant'\nseries='below'\nfactor=1.1"));
    assert!(!holds("kind='ordering'\nabove='lower'\nbelow='below'"));
    assert!(!holds("kind='monotone'\nseries='equal'\ndirection='falling'"), "it does not fall");
    assert!(holds("kind='ordering'\nabove='three'\nbelow='none'\nat=1"), "over 0 it is above");
    let crossing = judge(
        "class='own'\nkind='crossover'\nfirst='none'\nsecond='three'\nbetween=[2, 4]",
        &[&two],
    );
    assert!(crossing.holds, "{}", crossing.text);
}

#[test]
fn a_published_point_is_gated_by_its_own_value_only() {
    let text = |published: &str| {
        format!(
            "class='prediction'\nsource='[S] S000 table 1'\nkind='value_within'\nseries='rising'\nat=2\n\
                 published={published}"
        )
    };
    assert!(shape(&text("2.0")).gates("rising", 2.0, 2.0));
    assert!(!shape(&text("1.9")).gates("rising", 2.0, 2.0));
    assert!(!shape(&text("{ at_least = 0.1 }")).gates("rising", 2.0, 2.0));
    assert!(!shape(&text("2.0")).gates("rising", 4.0, 2.0));
}

#[test]
fn a_point_that_one_seed_lacks_is_not_measured() {
    let all = three();
    let mut fewer = three();
    fewer[1].points.pop();
    let text = "class='own'\nkind='value_within'\nseries='rising'\nlow=1\nhigh=4";
    assert!(judge(text, &[&all]).holds);
    assert!(!judge(text, &[&fewer, &all]).holds && !judge(text, &[&all, &fewer]).holds);
}

#[test]
fn places_are_numbers_or_sizes() {
    #[derive(serde::Deserialize)]
    struct At {
        at: Place,
    }
    let place = |text: &str| toml::from_str::<At>(text).map(|at| at.at.0);
    assert_eq!(place("at = '4KiB'").unwrap(), 4096.0);
    assert_eq!(place("at = 0.5").unwrap(), 0.5);
    assert_eq!(place("at = 7").unwrap(), 7.0);
    assert!(place("at = 'four'").is_err());
}
