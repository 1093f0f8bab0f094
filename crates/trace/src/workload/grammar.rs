//! Text to workload and back. docs/workloads.md is the same grammar for users.
//!
//! 1. Every key and kind that is refused is answered with the nearest valid one.
//! 2. A share is read digit by digit into parts per billion, so that 0.1 is exactly a tenth.

use super::{Arrival, Class, SizeShare, WHOLE_PPB, WorkloadKind, WorkloadSpec};
use crate::field::decimal;
use nandu_base::{ByteCount, Nanos, words};
use std::fmt;

/// The longest time that a host thinks. Longer ones reach the end of virtual time within a few batches.
const THINK_MAX: Nanos = Nanos::from_seconds(86_400);

const KINDS: [&str; 8] =
    ["uniform", "permuted", "sequential", "zipf", "zones", "oltp", "oltp-fitted", "jesd219"];
const KEYS: [&str; 14] = [
    "theta",
    "classes",
    "clustered",
    "read",
    "trim",
    "size",
    "align",
    "start",
    "area",
    "rate",
    "arrival",
    "think",
    "flush",
    "requests",
];
const CLASS_COUNT_MAX: usize = 256;
/// Shares as people write them may miss one whole by this much; the last one takes the difference.
const SHARE_SLACK_PPB: u64 = 1_000;
/// Reference section 2.5.7: shares of writes .45, .40, .15 on .04, .16, .80 of the pages.
const OLTP: &str = "s0.04f0.45+s0.16f0.4+s0.8f0.15";
/// The same, fitted to the window coverage of FAST's table 2; the cold class takes the rest of the
/// space, since the published shares add up to 0.99968.
const OLTP_FITTED: &str = "s0.00898f0.292+s0.0967f0.55+s0.89432f0.158";
/// JESD219's enterprise mix as fio's `examples/jesd219.fio` states it.
const JESD219_ZONES: &str = "s0.05f0.5+s0.15f0.3+s0.8f0.2";
const JESD219_SIZES: &str =
    "512/4+1024/1+1536/1+2048/1+2560/1+3072/1+3584/1+4KiB/67+8KiB/10+16KiB/7+32KiB/3+64KiB/3";

pub(super) fn parse(text: &str) -> Result<WorkloadSpec, String> {
    let (name, items) = text.split_once(':').unwrap_or((text, ""));
    // `uniform,read=30` is what people write; both separators lead to the items.
    let (name, items) = match name.split_once(',') {
        Some((name, first)) if items.is_empty() => (name, first),
        _ => (name, items),
    };
    let mut spec = of_kind(name.trim())?;
    let mut rate = None;
    let mut exponential = None;
    for item in items.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (key, value) = match item.split_once('=') {
            Some((key, value)) => (key.trim(), value.trim()),
            None => (positional_key(&spec.kind, item)?, item),
        };
        match key {
            "rate" => rate = Some(whole(value, key, 1, 1_000_000_000)?),
            "arrival" => {
                exponential = Some(match value {
                    "fixed" => false,
                    "exponential" | "poisson" => true,
                    _ => return Err(unknown("arrival", value, &["fixed", "exponential"])),
                });
            }
            _ => set(&mut spec, key, value)?,
        }
    }
    match (rate, exponential) {
        (None, None) => {}
        (None, Some(_)) => return Err("`arrival` needs `rate`, for example rate=10000".into()),
        (Some(_), _) if spec.arrival != (Arrival::Closed { think_ns: Nanos::ZERO }) => {
            return Err("`think` and `rate` exclude each other".into());
        }
        (Some(per_second), Some(true)) => spec.arrival = Arrival::Exponential { per_second },
        (Some(per_second), _) => spec.arrival = Arrival::Fixed { per_second },
    }
    if u64::from(spec.read_ppb) + u64::from(spec.trim_ppb) > u64::from(WHOLE_PPB) {
        return Err("`read` and `trim` together pass 100 percent".into());
    }
    Ok(spec)
}

fn of_kind(name: &str) -> Result<WorkloadSpec, String> {
    let zones = |text| Ok::<_, String>(WorkloadKind::Zones { classes: parse_classes(text)? });
    let kind = match name {
        "uniform" => WorkloadKind::Uniform,
        "permuted" => WorkloadKind::Permuted,
        "sequential" => WorkloadKind::Sequential,
        "zipf" => WorkloadKind::Zipf { theta_ppm: 990_000 },
        "zones" => zones("s0.2f0.8+s0.8f0.2")?,
        "oltp" => zones(OLTP)?,
        "oltp-fitted" => zones(OLTP_FITTED)?,
        "jesd219" => zones(JESD219_ZONES)?,
        _ => return Err(unknown("kind", name, &KINDS)),
    };
    let mut spec = WorkloadSpec {
        clustered: clustered_by_default(&kind),
        kind,
        read_ppb: 0,
        trim_ppb: 0,
        sizes: Vec::new(),
        align_bytes: None,
        start_bytes: 0,
        area_bytes: None,
        arrival: Arrival::Closed { think_ns: Nanos::ZERO },
        flush_every: 0,
        request_count: None,
    };
    if name == "jesd219" {
        spec.read_ppb = WHOLE_PPB / 100 * 40;
        spec.sizes = parse_sizes(JESD219_SIZES)?;
        spec.align_bytes = Some(4096);
    }
    Ok(spec)
}

const fn clustered_by_default(kind: &WorkloadKind) -> bool {
    matches!(kind, WorkloadKind::Zones { .. })
}

/// What an item without a key means.
fn positional_key(kind: &WorkloadKind, item: &str) -> Result<&'static str, String> {
    match kind {
        WorkloadKind::Zipf { .. } => Ok("theta"),
        WorkloadKind::Zones { .. } => Ok("classes"),
        _ => Err(format!("`{item}` needs a key, as in `read=30`")),
    }
}

fn set(spec: &mut WorkloadSpec, key: &str, value: &str) -> Result<(), String> {
    match (key, &mut spec.kind) {
        ("theta", WorkloadKind::Zipf { theta_ppm }) => {
            *theta_ppm = fraction(value, 1_000_000, 10_000_000, key)?;
        }
        ("classes", WorkloadKind::Zones { classes }) => *classes = parse_classes(value)?,
        ("clustered", WorkloadKind::Zipf { .. } | WorkloadKind::Zones { .. }) => {
            spec.clustered = yes_or_no(value, key)?;
        }
        ("theta", _) => return Err("`theta` belongs to `zipf` only".into()),
        ("classes", _) => return Err("`classes` belongs to `zones` only".into()),
        ("clustered", _) => return Err("`clustered` belongs to `zipf` and `zones` only".into()),
        ("read", _) => spec.read_ppb = fraction(value, WHOLE_PPB / 100, WHOLE_PPB, key)?,
        ("trim", _) => spec.trim_ppb = fraction(value, WHOLE_PPB / 100, WHOLE_PPB, key)?,
        ("size", _) => spec.sizes = parse_sizes(value)?,
        ("align", _) => spec.align_bytes = Some(positive_size(value, key)?),
        ("start", _) => spec.start_bytes = ByteCount::parse(value)?.0,
        ("area", _) => spec.area_bytes = Some(positive_size(value, key)?),
        ("think", _) => {
            let think_ns = duration(value)?;
            if think_ns > THINK_MAX {
                return Err(format!("`think` is `{value}`, must be at most 86400s, a day"));
            }
            spec.arrival = Arrival::Closed { think_ns };
        }
        ("flush", _) => spec.flush_every = whole(value, key, 0, u64::MAX)?,
        ("requests", _) => spec.request_count = Some(whole(value, key, 0, u64::MAX)?),
        _ => return Err(unknown("key", key, &KEYS)),
    }
    Ok(())
}

fn unknown(what: &str, word: &str, valid: &[&str]) -> String {
    match words::nearest(word, valid.iter().copied()) {
        Some(nearest) => format!("no {what} is called `{word}`; did you mean `{nearest}`?"),
        None => format!("no {what} is called `{word}`; use one of {}", valid.join(", ")),
    }
}

fn whole(value: &str, key: &str, least: u64, most: u64) -> Result<u64, String> {
    let number: u64 = value
        .parse()
        .map_err(|_| format!("`{key}` is `{value}`, must be a whole number of {least} or more"))?;
    if !(least..=most).contains(&number) {
        return Err(format!("`{key}` is {number}, must be {least} to {most}"));
    }
    Ok(number)
}

/// A decimal number times `unit`, at most `most`.
fn fraction(value: &str, unit: u32, most: u32, key: &str) -> Result<u32, String> {
    let text = value.strip_suffix('%').unwrap_or(value);
    decimal(text.as_bytes(), u64::from(unit), &format!("`{key}`")).and_then(|number| {
        u32::try_from(number)
            .ok()
            .filter(|&number| number <= most)
            .ok_or_else(|| format!("`{key}` is {value}, must be at most {}", most / unit))
    })
}

fn yes_or_no(value: &str, key: &str) -> Result<bool, String> {
    match value {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" => Ok(false),
        _ => Err(format!("`{key}` is `{value}`, must be yes or no")),
    }
}

fn positive_size(value: &str, key: &str) -> Result<u64, String> {
    match ByteCount::parse(value)?.0 {
        0 => Err(format!("`{key}` is 0 bytes, must be at least 1")),
        bytes => Ok(bytes),
    }
}

/// `100us`, `0.5ms`, `1s`; a bare number counts nanoseconds.
pub(crate) fn duration(value: &str) -> Result<Nanos, String> {
    let split = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let (digits, unit) = value.split_at(split);
    let unit = unit.trim();
    let unit_ns = match unit {
        "" | "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(format!("`{unit}` in `{value}` is no unit; use ns, us, ms or s")),
    };
    decimal(digits.as_bytes(), unit_ns, "the duration").map(Nanos)
}

/// `s0.2f0.8+s0.8f0.2`: a fifth of the space gets four fifths of the accesses, and the rest.
fn parse_classes(text: &str) -> Result<Vec<Class>, String> {
    let share = |text: &str| fraction(text, WHOLE_PPB, WHOLE_PPB, "a share");
    let mut classes = text
        .split('+')
        .map(|part| {
            let (space, access) = part
                .trim()
                .strip_prefix('s')
                .and_then(|rest| rest.split_once('f'))
                .ok_or_else(|| format!("`{part}` is no class; write for example s0.2f0.8"))?;
            Ok(Class { space_ppb: share(space)?, access_ppb: share(access)? })
        })
        .collect::<Result<Vec<Class>, String>>()?;
    if classes.len() > CLASS_COUNT_MAX {
        return Err(format!("there are {} classes, at most 256 are possible", classes.len()));
    }
    complete(classes.iter_mut().map(|class| &mut class.space_ppb), "space (s)")?;
    complete(classes.iter_mut().map(|class| &mut class.access_ppb), "accesses (f)")?;
    Ok(classes)
}

/// Makes shares that add up to nearly one whole add up to it.
fn complete<'a>(shares: impl Iterator<Item = &'a mut u32>, what: &str) -> Result<(), String> {
    let mut sum = 0_u64;
    let mut last = None;
    for share in shares {
        sum += u64::from(*share);
        last = Some(share);
    }
    let whole = u64::from(WHOLE_PPB);
    let rest =
        last.map(|last| (u64::from(*last) + whole).checked_sub(sum).map(|rest| (last, rest)));
    match rest.flatten() {
        Some((last, rest)) if sum.abs_diff(whole) <= SHARE_SLACK_PPB => {
            *last = u32::try_from(rest).expect("a share of nearly one whole");
            Ok(())
        }
        _ => Err(format!("shares of the {what} add up to {}, need 1", shown_ppb(sum, whole))),
    }
}

/// `4KiB`, or sizes with their percent: `4KiB/70+8KiB/30`.
fn parse_sizes(text: &str) -> Result<Vec<SizeShare>, String> {
    if !text.contains('/') {
        return Ok(vec![SizeShare { size_bytes: positive_size(text, "size")?, percent: 100 }]);
    }
    let mut sum = 0_u64;
    let sizes = text
        .split('+')
        .map(|part| {
            let (size, percent) = part
                .split_once('/')
                .ok_or_else(|| format!("`{part}` has no share; write for example 4KiB/70"))?;
            let percent = whole(percent.trim(), "share of a size", 1, 100)?;
            sum += percent;
            let percent = u8::try_from(percent).expect("checked to be at most 100");
            Ok(SizeShare { size_bytes: positive_size(size, "size")?, percent })
        })
        .collect::<Result<Vec<SizeShare>, String>>()?;
    if sum != 100 {
        return Err(format!("shares of the sizes add up to {sum}, need 100"));
    }
    Ok(sizes)
}

/// `part / whole` as a decimal without trailing zeros; `whole` is a power of ten.
fn shown_ppb(part: u64, whole: u64) -> String {
    let digits = whole.ilog10() as usize;
    let (units, rest) = (part / whole, part % whole);
    let fraction = format!("{rest:0digits$}");
    match fraction.trim_end_matches('0') {
        "" => units.to_string(),
        fraction => format!("{units}.{fraction}"),
    }
}

impl fmt::Display for WorkloadSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = u64::from(WHOLE_PPB);
        let share = |ppb: u32| shown_ppb(u64::from(ppb), whole);
        let mut items = Vec::new();
        let name = match &self.kind {
            WorkloadKind::Uniform => "uniform",
            WorkloadKind::Permuted => "permuted",
            WorkloadKind::Sequential => "sequential",
            WorkloadKind::Zipf { theta_ppm } => {
                items.push(shown_ppb(u64::from(*theta_ppm), 1_000_000));
                "zipf"
            }
            WorkloadKind::Zones { classes } => {
                let class = |class: &Class| {
                    format!("s{}f{}", share(class.space_ppb), share(class.access_ppb))
                };
                items.push(classes.iter().map(class).collect::<Vec<_>>().join("+"));
                "zones"
            }
        };
        if self.clustered != clustered_by_default(&self.kind) {
            items.push(format!("clustered={}", if self.clustered { "yes" } else { "no" }));
        }
        self.push_common(&mut items);
        formatter.write_str(name)?;
        if !items.is_empty() {
            write!(formatter, ":{}", items.join(","))?;
        }
        Ok(())
    }
}

impl WorkloadSpec {
    fn push_common(&self, items: &mut Vec<String>) {
        let percent = |ppb: u32| shown_ppb(u64::from(ppb), u64::from(WHOLE_PPB) / 100);
        for (key, ppb) in [("read", self.read_ppb), ("trim", self.trim_ppb)] {
            if ppb > 0 {
                items.push(format!("{key}={}", percent(ppb)));
            }
        }
        match self.sizes[..] {
            [] => {}
            [only] => items.push(format!("size={}", only.size_bytes)),
            _ => {
                let part = |share: &SizeShare| format!("{}/{}", share.size_bytes, share.percent);
                let parts: Vec<String> = self.sizes.iter().map(part).collect();
                items.push(format!("size={}", parts.join("+")));
            }
        }
        let positive = |bytes: u64| (bytes > 0).then_some(bytes);
        for (key, number) in [
            ("align", self.align_bytes),
            ("start", positive(self.start_bytes)),
            ("area", self.area_bytes),
            ("flush", positive(self.flush_every)),
            ("requests", self.request_count),
        ] {
            items.extend(number.map(|number| format!("{key}={number}")));
        }
        match self.arrival {
            Arrival::Closed { think_ns: Nanos::ZERO } => {}
            Arrival::Closed { think_ns } => items.push(format!("think={}ns", think_ns.0)),
            Arrival::Fixed { per_second } => items.push(format!("rate={per_second}")),
            Arrival::Exponential { per_second } => {
                items.push(format!("rate={per_second},arrival=exponential"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_workload_displays_parses_to_the_same_workload() {
        for (text, shown) in [
            ("uniform", "uniform"),
            ("uniform,read=30", "uniform:read=30"),
            ("uniform:read=30,size=8KiB,rate=10000", "uniform:read=30,size=8192,rate=10000"),
            ("zipf:0.9,read=33.5%", "zipf:0.9,read=33.5"),
            ("zipf:theta=1,clustered=yes,trim=5", "zipf:1,clustered=yes,trim=5"),
            ("zones:s0.2f0.8+s0.8f0.2,clustered=no", "zones:s0.2f0.8+s0.8f0.2,clustered=no"),
            ("oltp", "zones:s0.04f0.45+s0.16f0.4+s0.8f0.15"),
            ("permuted:think=0.5us", "permuted:think=500ns"),
            (
                "sequential:start=1MiB,area=2MiB,align=512,requests=9,flush=4",
                "sequential:align=512,start=1048576,area=2097152,flush=4,requests=9",
            ),
            ("uniform:rate=7,arrival=poisson", "uniform:rate=7,arrival=exponential"),
            ("uniform:size=4KiB/70+512/30", "uniform:size=4096/70+512/30"),
        ] {
            let spec = parse(text).unwrap();
            assert_eq!(spec.to_string(), shown, "{text}");
            assert_eq!(parse(shown).unwrap(), spec, "{text}");
        }
        for kind in KINDS {
            let spec = parse(kind).unwrap();
            assert_eq!(parse(&spec.to_string()).unwrap(), spec, "{kind}");
        }
    }

    #[test]
    fn shares_may_miss_one_whole_by_a_rounding_only() {
        let WorkloadKind::Zones { classes } =
            parse("zones:s0.3333333f0.5+s0.3333333f0.25+s0.3333333f0.25").unwrap().kind
        else {
            panic!("zones are zones");
        };
        assert_eq!(classes.iter().map(|class| class.space_ppb).sum::<u32>(), WHOLE_PPB);
        assert_eq!(
            parse("zones:s0.2f0.8+s0.7f0.2").unwrap_err(),
            "shares of the space (s) add up to 0.9, need 1"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_the_nearest_right_word() {
        for (text, message) in [
            ("unifrom", "no kind is called `unifrom`; did you mean `uniform`?"),
            ("", "no kind is called ``; use one of uniform"),
            ("uniform:raed=30", "no key is called `raed`; did you mean `read`?"),
            ("uniform:30", "`30` needs a key, as in `read=30`"),
            ("uniform:theta=1", "`theta` belongs to `zipf` only"),
            ("zipf:11", "`theta` is 11, must be at most 10"),
            ("zipf:-1", "`theta` `-1` is negative"),
            ("uniform:read=101", "`read` is 101, must be at most 100"),
            ("uniform:read=70,trim=40", "`read` and `trim` together pass 100 percent"),
            ("uniform:rate=0", "`rate` is 0, must be 1 to 1000000000"),
            ("uniform:arrival=fixed", "`arrival` needs `rate`"),
            ("uniform:rate=5,think=1us", "`think` and `rate` exclude each other"),
            ("uniform:rate=5,arrival=exponentail", "did you mean `exponential`?"),
            ("uniform:size=0", "`size` is 0 bytes, must be at least 1"),
            ("uniform:size=4KiB/70", "shares of the sizes add up to 70, need 100"),
            ("uniform:think=5 weeks", "`weeks` in `5 weeks` is no unit"),
            ("uniform:think=86401s", "`think` is `86401s`, must be at most 86400s"),
            ("zones:0.2", "`0.2` is no class; write for example s0.2f0.8"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
