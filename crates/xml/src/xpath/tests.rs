//! What is read, told by what is printed; and texts that are no expressions.

use super::*;
use proptest::prelude::*;

fn shown(text: &str) -> String {
    parse(text).map_or_else(|error| error.to_string(), |expression| expression.to_string())
}

#[test]
fn abbreviations_are_spelt_out() {
    let anywhere = "descendant-or-self::node()";
    for (text, expected) in [
        ("/", "/"),
        (".", "self::node()"),
        ("../@id", "parent::node()/attribute::id"),
        ("//book", &format!("/{anywhere}/child::book")),
        ("a//b/*", &format!("child::a/{anywhere}/child::b/child::*")),
        ("a[1]/p:b[@x][last()]", "child::a[1]/child::p:b[attribute::x][last()]"),
        ("p:*/text( )", "child::p:*/child::text()"),
        ("ancestor :: div", "ancestor::div"),
        ("processing-instruction('t')", "child::processing-instruction(\"t\")"),
        ("(a | b)[2]//c", &format!("(child::a | child::b)[2]/{anywhere}/child::c")),
        ("id/text", "child::id/child::text"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn a_star_and_names_are_operators_after_an_operand() {
    for (text, expected) in [
        ("* * *", "child::* * child::*"),
        ("div div div", "child::div div child::div"),
        ("and and or or mod", "(child::and and child::or) or child::mod"),
        ("@*", "attribute::*"),
        ("a[*]*2", "child::a[child::*] * 2"),
        ("2*3+4*-5", "(2 * 3) + (4 * (-5))"),
        ("a-b", "child::a-b"),
        ("a - b", "child::a - child::b"),
        ("1 - 2 - 3", "1 - 2 - 3"),
        ("1 < 2 = 3 > 4", "(1 < 2) = (3 > 4)"),
        ("--a", "-(-child::a)"),
        ("-a|b", "-(child::a | child::b)"),
        (".5 + 5.", "0.5 + 5"),
        ("/ * 2", "/child::* 2"),
        ("a/b | //c = 'x'", "(child::a/child::b | /descendant-or-self::node()/child::c) = \"x\""),
    ] {
        let is_error = expected == "/child::* 2";
        match is_error {
            // A slash takes the star after it for a step.
            true => assert!(parse(text).is_err(), "{text}"),
            false => assert_eq!(shown(text), expected, "{text}"),
        }
    }
}

#[test]
fn what_is_no_expression_is_refused_with_its_column() {
    let deep = "(".repeat(DEPTH_MAX + 1);
    let long = "a".repeat(TEXT_BYTES_MAX + 1);
    for (text, column, what) in [
        ("", 1, "found the end"),
        ("a[", 3, "found the end"),
        ("a]", 2, "an operator, or the end, found ]"),
        ("äö/§", 4, "no word begins so"),
        ("a/'x'", 3, "a step"),
        ("f(1)", 1, "there is no function f"),
        ("x:count(a)", 1, "no function count"),
        ("count()", 1, "takes 1 arguments, not 0"),
        ("substring('a')", 1, "2 to 3 arguments, not 1"),
        ("up::a", 1, "no axis up"),
        ("'a", 1, "does not end"),
        ("$x", 1, "variables"),
        ("a b", 3, "found b"),
        ("1 2", 3, "found 2"),
        ("a::", 1, "no axis a"),
        ("child::", 8, "found the end"),
        (&deep, DEPTH_MAX + 1, "64 deep"),
        (&long, 1, "65537 bytes"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.to_string().contains(what), "{text}: {error}");
    }
}

#[test]
fn long_expressions_are_not_deep() {
    for operator in ["+", " or ", " and ", "=", "|", "*", "/"] {
        let text = vec!["a"; 9000].join(operator);
        let expression = parse(&text).unwrap();
        drop(parse(&expression.to_string()).unwrap_err().to_string());
        drop(expression);
    }
    assert!(parse(&format!("{}1", "-".repeat(60_000))).is_ok());
    assert!(parse(&"(".repeat(60_000)).is_err());
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a".to_owned()),
        Just("@b".to_owned()),
        Just("//c".to_owned()),
        Just("/".to_owned()),
        Just("7".to_owned()),
        Just("9".repeat(310)),
        Just("9".repeat(309)),
        Just("'x\"'".to_owned()),
        Just("text()".to_owned()),
        Just("position()".to_owned()),
        Just("..".to_owned()),
        Just("p:*".to_owned()),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        const SIGNS: [&str; 12] =
            ["+", " - ", " * ", " div ", " mod ", "=", "!=", "<", ">=", " or ", " and ", "|"];
        prop_oneof![
            (inner.clone(), proptest::sample::select(&SIGNS[..]), inner.clone())
                .prop_map(|(left, sign, right)| format!("({left}){sign}({right})")),
            (inner.clone(), proptest::sample::select(&SIGNS[..]), inner.clone())
                .prop_map(|(left, sign, right)| format!("{left} {sign} {right}")),
            inner.clone().prop_map(|inner| format!("b[{inner}]/c")),
            inner.clone().prop_map(|inner| format!("-{inner}")),
            inner.clone().prop_map(|inner| format!("({inner})[1]/ancestor::d")),
            (inner.clone(), inner).prop_map(|(one, other)| format!("concat({one}, {other})")),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_the_same(text in expressions()) {
        // Some are none: `/ * 2`.
        if let Ok(expression) = parse(&text) {
            let shown = expression.to_string();
            prop_assert_eq!(parse(&shown), Ok(expression), "{}", shown);
        }
    }

    #[test]
    fn no_text_is_a_panic(text in "[a-c/@*.:()\\[\\]|+='\" 0-9<>!,$-]{0,40}|\\PC{0,20}") {
        if let Err(error) = parse(&text) {
            prop_assert!(error.column <= text.chars().count() + 1);
        }
    }
}
