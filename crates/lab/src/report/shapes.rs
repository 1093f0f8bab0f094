//! The shapes of an experiment as tables, one for each class, predictions and differences first.

use super::html::{escape, prose, sign};
use super::ticks::size_text;
use crate::claim::digits;
use crate::outcome::{Decided, Outcome, Verdict};
use crate::shape::Class;
use std::fmt::Write as _;

/// The tables of all shapes of `outcome`, each row with the place, the value and the limits that decided.
pub(super) fn tables(html: &mut String, outcome: &Outcome) {
    for class in Class::ALL {
        let [all, holding] = outcome.count(class);
        if all == 0 {
            continue;
        }
        let _ = write!(
            html,
            "<h3>{holding} of {all} {}</h3>\n<div class=\"scroll\"><table class=\"shapes\"><thead><tr><th></th>\
             <th>Claim</th><th>At</th><th>Value</th><th>Limits</th></tr></thead><tbody>\n",
            class.explanation()
        );
        for verdict in outcome.verdicts.iter().filter(|verdict| verdict.class == class) {
            row(html, verdict);
        }
        html.push_str("</tbody></table></div>\n");
    }
}

fn row(html: &mut String, verdict: &Verdict) {
    let (style, sign) = sign(verdict.holds, verdict.class);
    let claim = if verdict.claim.is_empty() { &verdict.text } else { &verdict.claim };
    let _ = write!(
        html,
        "<tr class=\"{style}\"><td class=\"mark\" title=\"{}\">{sign}</td><td>{}",
        verdict.mark(),
        escape(claim)
    );
    // The rest of the text is printed only where it says more than the columns for value and limits
    // do.
    let says_more = !verdict.holds || verdict.class == Class::Differs;
    let more = verdict.text.strip_prefix(claim.as_str()).map(|rest| rest.trim_start_matches(": "));
    if let Some(more) = more.filter(|more| says_more && !more.is_empty()) {
        let _ = write!(html, "<p>{}</p>", escape(more));
    }
    if !verdict.reason.is_empty() {
        let (reason, varied) = (prose(&verdict.reason), prose(&verdict.varied));
        let _ = write!(html, "<p>{reason} <em>Varied:</em> {varied}</p>");
    }
    if !verdict.source.is_empty() {
        let _ = write!(html, "<p>{}</p>", escape(&verdict.source));
    }
    let [place, value, limits] =
        verdict.decided.as_ref().map_or_else(Default::default, |decided| {
            [place_text(decided), value_text(decided), limits_text(decided)]
        });
    let _ = writeln!(
        html,
        "</td><td data-head=\"at\">{place}</td><td data-head=\"value\">{value}</td>\
         <td data-head=\"limits\">{limits}</td></tr>"
    );
}

fn place_text(decided: &Decided) -> String {
    match decided.x_unit.as_str() {
        "B" => size_text(decided.x),
        "" => digits(decided.x),
        unit => format!("{} {}", digits(decided.x), escape(unit)),
    }
}

/// The value, and where seeds differ how far.
fn value_text(decided: &Decided) -> String {
    let value = digits(decided.value);
    let least = decided.by_seed.iter().copied().fold(f64::INFINITY, f64::min);
    let most = decided.by_seed.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let [from, to] = [least, most].map(digits);
    if least < most && from != to { format!("{value} ({from} to {to})") } else { value }
}

fn limits_text(decided: &Decided) -> String {
    // A shape that claims an order and no factor has the next number above 1 as its lower limit.
    let is_order = |low: f64| low.to_bits() == 1.0_f64.next_up().to_bits();
    match (decided.low, decided.high) {
        (Some(low), None) if is_order(low) => "above 1".into(),
        (Some(low), Some(high)) => format!("{} to {}", digits(low), digits(high)),
        (Some(low), None) => format!("at least {}", digits(low)),
        (None, Some(high)) => format!("at most {}", digits(high)),
        (None, None) => String::new(),
    }
}
