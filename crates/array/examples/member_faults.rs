//! Runs histories of arrays whose members fail, go stale and lose power, and keeps what was found:
//!
//! `cargo run --release -p nandu-array --example member_faults -- 100000 FILE`
//!
//! Every short history of small arrays comes first, one step longer than in the tests, then as many
//! random ones as the first argument says, a fifth of it of any code, and a tenth of arrays that follow
//! the load. `100000..120000` runs these seeds, and no short histories. FILE gets what was run and found,
//! as JSON. A third argument replays that random seed alone.
#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../tests/member_faults/adaptive.rs"]
mod adaptive;
#[path = "../tests/member_faults/exhaustive.rs"]
mod exhaustive;
#[path = "../tests/member_faults/random.rs"]
mod random;
#[path = "../tests/member_faults/world.rs"]
mod world;

use nandu_array::WriteReturn;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Setup, Tally};

/// Members, needed, written, and how many steps come before the one that is cut.
const SEARCHES: [((u8, u8, u8), usize); 7] = [
    ((2, 1, 2), 3),
    ((3, 1, 3), 2),
    ((3, 2, 3), 2),
    ((3, 1, 2), 2),
    ((4, 2, 4), 1),
    ((4, 3, 4), 1),
    ((5, 3, 5), 1),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seeds, file, rest @ ..] = arguments.as_slice() else {
        return Err("name how many random histories to run, and a file for what is found".into());
    };
    let (from, to) = seeds.split_once("..").unwrap_or(("0", seeds));
    let (from, to): (u64, u64) = (from.parse()?, to.parse()?);
    let part = |divisor: u64| from..from + to.saturating_sub(from) / divisor;
    if let [seed] = rest {
        let seed = seed.parse()?;
        println!("{:?}", random::run(seed));
        println!("of any code: {:?}", random::run_any(seed));
        println!("following the load: {:?}", adaptive::run(seed));
        return Ok(());
    }
    let mut violations = Vec::new();
    let searches = SEARCHES.iter().filter(|_| from == 0);
    let searches: Vec<Value> = searches.map(|each| search(*each, &mut violations)).collect();
    let random = campaign("random", part(1), &mut violations, random::run);
    let any_code = campaign("of any code", part(5), &mut violations, random::run_any);
    let follows = campaign("following the load", part(10), &mut violations, |seed| {
        adaptive::run(seed).map(|(tally, _)| tally)
    });
    let found = json!({
        "command": format!(
            "cargo run --release -p nandu-array --example member_faults -- {seeds} FILE"
        ),
        "exhaustive": searches,
        "random": random,
        "of_any_code": any_code,
        "following_the_load": follows,
        "violations": violations,
    });
    std::fs::write(file, format!("{found:#}\n"))?;
    println!("{} violations; see {file}", violations.len());
    Ok(())
}

fn search(((n, m, f), depth): ((u8, u8, u8), usize), violations: &mut Vec<String>) -> Value {
    let (mut count, mut all) = (0, Tally::default());
    for write_return in [WriteReturn::Needed, WriteReturn::All] {
        let setup = Setup {
            member_count: n,
            needed_count: m,
            written_count: f,
            fragment_sectors: 1,
            row_count: 1,
            write_return,
        };
        match exhaustive::search(&setup, depth) {
            Ok((history_count, tally)) => {
                count += history_count;
                all.add(&tally);
            }
            Err(violation) => violations.push(violation),
        }
    }
    let code = format!("{m} of {f} on {n}");
    println!("{code}, {depth} steps and one that is cut: {count} histories");
    json!({ "code": code, "step_count": depth + 1, "history_count": count, "total": total(&all) })
}

fn campaign(
    name: &str,
    seeds: std::ops::Range<u64>,
    violations: &mut Vec<String>,
    run: impl Fn(u64) -> Result<Tally, String>,
) -> Value {
    let mut all = Tally::default();
    let (first_seed, seed_count) = (seeds.start, seeds.end - seeds.start);
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(Ok(tally)) => all.add(&tally),
            Ok(Err(violation)) => violations.push(format!("{name}, seed {seed}: {violation}")),
            Err(_) => violations.push(format!("{name}, seed {seed}: a panic")),
        }
    }
    println!("{name}: {seed_count} seeds");
    json!({ "first_seed": first_seed, "seed_count": seed_count, "total": total(&all) })
}

fn total(tally: &Tally) -> Value {
    json!({
        "write_count": tally.write_count,
        "flush_count": tally.flush_count,
        "read_count": tally.read_count,
        "cut_count": tally.cut_count,
        "bad_member_count": tally.bad_count,
        "rebuilt_member_count": tally.rebuilt_count,
        "failed_request_count": tally.refused_count,
        "failed_read_count": tally.hole_count,
    })
}
