//! How much memory this process may have, asked before work that would end in the middle for want of it.
//!
//! ```text
//!   the machine's memory (all, or what is free) ─┐
//!   limit of its control group, and those above ─┼─► the least of them
//!   limit on its address space (ulimit -v) ──────┘
//! ```
//!
//! 1. What is not known sets no limit: the kernel has the last word in any case.

use crate::failure::Failure;
use nandu_base::ByteCount;
use std::fs;
use std::path::Path;

const GROUPS: &str = "/sys/fs/cgroup";
/// Bytes of a page, as `statm` counts pages.
const PAGE_BYTES: u64 = 4096;

/// Refuses `needed` bytes that are sure to be touched soon, if they are more than are free now. `advice`
/// says what to do.
pub(crate) fn check_free(needed: ByteCount, what: &str, advice: &str) -> Result<(), Failure> {
    check(needed, limits_now(), what, advice)
}

/// The bytes that this process can have now; `None` where nothing says so.
pub(crate) fn free() -> Option<ByteCount> {
    limits_now().into_iter().flatten().min().map(ByteCount)
}

/// Refuses `needed` bytes that may come to be touched, if they are more than this process can ever have.
pub(crate) fn check_possible(needed: ByteCount, what: &str, advice: &str) -> Result<(), Failure> {
    check(needed, [meminfo("MemTotal:"), group_limit(), address_space_left()], what, advice)
}

fn limits_now() -> [Option<u64>; 3] {
    [meminfo("MemAvailable:"), group_limit(), address_space_left()]
}

fn check(
    needed: ByteCount,
    limits: [Option<u64>; 3],
    what: &str,
    advice: &str,
) -> Result<(), Failure> {
    match limits.into_iter().flatten().min() {
        Some(most) if needed.0 > most => Err(Failure::input(format!(
            "{what} takes {needed} of memory, and this process can have {}; {advice}",
            ByteCount(most >> 20 << 20)
        ))),
        _ => Ok(()),
    }
}

/// A row of `/proc/meminfo`, in bytes.
fn meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// The least limit of the control groups that this process is in.
fn group_limit() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let own = Path::new(GROUPS).join(own);
    let groups = own.ancestors().take_while(|path| path.starts_with(GROUPS));
    groups
        .filter_map(|group| fs::read_to_string(group.join("memory.max")).ok()?.trim().parse().ok())
        .min()
}

/// What the limit on the address space leaves.
fn address_space_left() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let most: u64 = line.split_whitespace().next()?.parse().ok()?;
    let used = fs::read_to_string("/proc/self/statm").ok()?;
    let used: u64 = used.split_whitespace().next()?.parse().ok()?;
    Some(most.saturating_sub(used * PAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts_and_none_is_no_limit() {
        let said = |needed, limits| check(ByteCount::mib(needed), limits, "x", "ask for less");
        assert!(said(100, [None; 3]).is_ok());
        assert!(said(100, [None, Some(100 << 20), None]).is_ok());
        let refused = said(101, [Some(1 << 40), Some(100 << 20), None]).unwrap_err();
        let text = refused.report().unwrap();
        assert_eq!(refused.exit_code(), 2);
        assert!(text.contains("x takes 101 MiB") && text.contains("can have 100 MiB"), "{text}");
    }

    #[test]
    fn this_machine_says_how_much_it_has() {
        let (all, free) = (meminfo("MemTotal:").unwrap(), meminfo("MemAvailable:").unwrap());
        assert!(all >= free && free > 0, "{free} of {all}");
    }
}
