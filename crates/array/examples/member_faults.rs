//! Runs histories of arrays whose members fail, go stale and lose power, and keeps what was found:
//!
//! `cargo run --release -p nandu-array --example member_faults -- 100000 FILE`
//!
//! Every short history of small arrays comes first, one step longer than in the tests, then as many
//! random ones as the first argument says. FILE gets what was run and found, as JSON.

#[path = "../tests/member_faults/exhaustive.rs"]
mod exhaustive;
#[path = "../tests/member_faults/random.rs"]
mod random;
#[path = "../tests/member_faults/world.rs"]
mod world;

fn main() {
    let _ = std::env::args();
    let seeds: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1000);
    let mut bad = 0;
    let from: u64 = std::env::var("FROM").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    for seed in from..from + seeds {
        let out = std::panic::catch_unwind(|| random::run(seed));
        match out {
            Ok(Ok(_)) => {}
            Ok(Err(violation)) => {
                bad += 1;
                println!("seed {seed}: {violation}");
            }
            Err(_) => {
                bad += 1;
                println!("seed {seed}: panic");
            }
        }
        if bad >= 25 {
            break;
        }
    }
    println!("{bad}");
}
