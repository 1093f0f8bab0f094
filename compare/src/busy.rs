//! Who else used the machine while something was measured.
//!
//! 1. Counted is user time, and time that a hypervisor took: threads of the kernel, which write back
//!    for whoever is measured, have none of either. What others do in the kernel goes unseen.

#![allow(unsafe_code, reason = "the account of a process has no safe entrance")]

use std::time::{Duration, Instant};

/// The part of a core taken by others from which a measurement counts as disturbed.
pub(crate) const DISTURBED_SHARE: f64 = 0.05;

/// Since some moment, whose processes are the children that ended meanwhile.
pub(crate) struct Watch {
    started: Instant,
    user: Duration,
    own_user_s: f64,
}

impl Watch {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), user: machine_user(), own_user_s: children_user_s() }
    }

    /// How many cores others kept busy on average, 0.5 for half of one.
    pub(crate) fn others_share(&self) -> f64 {
        let all_s = machine_user().saturating_sub(self.user).as_secs_f64();
        let others_s = all_s - (children_user_s() - self.own_user_s);
        (others_s / self.started.elapsed().as_secs_f64().max(1e-9)).max(0.0)
    }
}

/// The load averages, as the kernel tells them.
pub(crate) fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().into()
}

/// The time that all cores together spent for programs or for other machines, since this one started.
fn machine_user() -> Duration {
    user_of(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
fn user_of(text: &str) -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    const USER_NICE_AND_STEAL: [usize; 3] = [0, 1, 7];
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: u32 = line
        .split_whitespace()
        .enumerate()
        .filter(|(index, _)| USER_NICE_AND_STEAL.contains(index))
        .filter_map(|(_, value)| value.parse::<u32>().ok())
        .sum();
    TICK * ticks
}

/// User time of all children of this process that have ended, and of this process.
fn children_user_s() -> f64 {
    let user_s = |who| {
        // SAFETY: an account is numbers, all of which may be 0.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the place lives as long as the call, which cannot fail for the caller itself.
        unsafe { libc::getrusage(who, &raw mut usage) };
        let micros = usage.ru_utime.tv_sec * 1_000_000 + usage.ru_utime.tv_usec;
        Duration::from_micros(u64::try_from(micros).unwrap_or_default()).as_secs_f64()
    };
    user_s(libc::RUSAGE_CHILDREN) + user_s(libc::RUSAGE_SELF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn programs_and_other_machines_count_and_the_kernel_does_not() {
        let text = "cpu  100 10 20 99999 500 1 2 3 77 0\ncpu0 5 5 5 5 5 5 5 5 0 0\n";
        assert_eq!(user_of(text), Duration::from_millis(1130));
        assert_eq!(user_of(""), Duration::ZERO);
        assert!(machine_user() > Duration::ZERO);
    }

    #[test]
    fn what_a_child_used_is_not_taken_for_others() {
        let before = children_user_s();
        let count = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", count]).status().unwrap().success());
        assert!(children_user_s() > before);
    }
}
