//! How long a member is busy with a fragment: S000 section 8.4.
//!
//! ```text
//!   flash   read    one whole page for each page that the fragment touches
//!           write   by size (program + cleaning), or a whole program (ProgramCharge)
//!           cleaning  (e + live (r + w)) / (p - live) a page: 266.875 us at one half (equation 2.2)
//!   disk    seek + whole pages read, or bytes written
//! ```
//!
//! 1. Times are integers; what does not divide is rounded up to a nanosecond.

use crate::{ArrayError, Layout};
use nandu_base::Nanos;
use serde::{Deserialize, Serialize};

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Member {
    /// A flash chip.
    Flash(FlashMember),
    /// A disk, which positions anew for each request.
    Disk(DiskMember),
}

/// What a flash chip takes for its commands, and when it cleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashMember {
    /// Bytes of a flash page.
    pub page_bytes: u32,
    /// Flash pages of an erase block, p.
    pub erase_block_page_count: u32,
    /// Live flash pages of an erase block that is cleaned, below p.
    pub live_page_count: u32,
    /// Time to read a flash page.
    pub read_ns: Nanos,
    /// Time to program one.
    pub program_ns: Nanos,
    /// Time to erase an erase block.
    pub erase_ns: Nanos,
    /// When cleaning is paid.
    #[serde(default)]
    pub cleaning: Cleaning,
    /// What a program of less than a page costs.
    #[serde(default)]
    pub program_charge: ProgramCharge,
}

/// What a disk takes to position and to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskMember {
    /// Bytes of a page, the unit of reading.
    pub page_bytes: u32,
    /// Positioning, the same for each request.
    pub seek_ns: Nanos,
    /// Speed of the transfer.
    pub bytes_per_second: u64,
}

/// When a chip pays for cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleaning {
    /// Its average with every write, as the thesis must have had it.
    #[default]
    Averaged,
    /// All of it with the write that uses up the freed pages.
    Bursty,
}

/// What a program of less than a page costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramCharge {
    /// Time by size: small writes gather in a buffer (S000 section 8.4).
    #[default]
    Linear,
    /// A whole program's time, a part of the space: a real partial-page program.
    PartialPage,
    /// A whole page, in time and in space.
    WholePage,
}

/// What one fragment costs its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTimes {
    /// How long its member takes to read it.
    pub read: Nanos,
    /// Writing it, without a burst of cleaning.
    pub write: Nanos,
    /// How cleaning in bursts adds to the writes; `None` where it does not come in bursts.
    pub burst: Option<Burst>,
}

/// A burst of cleaning: it comes when the writes have used up `space_per_burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// How long a burst lasts.
    pub time: Nanos,
    /// Space that one fragment takes, in bytes times m so that it stays whole.
    pub space_per_write: u64,
    /// Space that cleaning an erase block frees, in the same unit.
    pub space_per_burst: u64,
}

impl Member {
    /// A chip of S000 section 8.4, half full.
    #[must_use]
    pub const fn thesis_chip() -> Self {
        Self::Flash(FlashMember {
            page_bytes: 2048,
            erase_block_page_count: 64,
            live_page_count: 32,
            read_ns: Nanos::from_micros(20),
            program_ns: Nanos::from_micros(200),
            erase_ns: Nanos::from_micros(1500),
            cleaning: Cleaning::Averaged,
            program_charge: ProgramCharge::Linear,
        })
    }

    /// A disk of S000 section 8.4.
    #[must_use]
    pub const fn thesis_disk() -> Self {
        Self::Disk(DiskMember {
            page_bytes: 2048,
            seek_ns: Nanos::from_millis(6),
            bytes_per_second: 60_000_000,
        })
    }

    /// What a fragment of a block of `block_bytes` costs under `layout`.
    ///
    /// # Errors
    /// [`ArrayError::Value`] where a member has no pages, no speed, or cleaning frees nothing.
    pub fn service_times(
        &self,
        layout: Layout,
        block_bytes: u32,
    ) -> Result<ServiceTimes, ArrayError> {
        if block_bytes == 0 {
            return Err(value("block_bytes", "must be above 0"));
        }
        match self {
            Self::Flash(chip) => chip.service_times(layout, block_bytes),
            Self::Disk(disk) => disk.service_times(layout, block_bytes),
        }
    }
}

impl FlashMember {
    fn service_times(&self, layout: Layout, block_bytes: u32) -> Result<ServiceTimes, ArrayError> {
        if self.page_bytes == 0 {
            return Err(value("page_bytes", "must be above 0"));
        }
        if self.live_page_count >= self.erase_block_page_count {
            return Err(value("live_page_count", "must be below the pages of an erase block"));
        }
        // Space counts in bytes times m, of which a fragment of a block of B bytes takes B.
        let needed = u64::from(layout.needed_count());
        let page_space = u64::from(self.page_bytes) * needed;
        let block_bytes = u64::from(block_bytes);
        let touched_pages = block_bytes.div_ceil(page_space);
        let space = match self.program_charge {
            ProgramCharge::Linear | ProgramCharge::PartialPage => block_bytes,
            ProgramCharge::WholePage => touched_pages * page_space,
        };
        let freed_pages = u64::from(self.erase_block_page_count - self.live_page_count);
        let copies = (self.read_ns + self.program_ns) * u64::from(self.live_page_count);
        let burst_time = self.erase_ns + copies;
        // time * space / page_space, where cleaning is divided by the freed pages as well.
        let averaged = (burst_time * space).0.div_ceil(freed_pages * page_space);
        let program = match self.program_charge {
            ProgramCharge::Linear => (self.program_ns * space).0.div_ceil(page_space),
            ProgramCharge::PartialPage | ProgramCharge::WholePage => {
                (self.program_ns * touched_pages).0
            }
        };
        let read = self.read_ns * touched_pages;
        let burst = Burst {
            time: burst_time,
            space_per_write: space,
            space_per_burst: freed_pages * page_space,
        };
        Ok(match self.cleaning {
            Cleaning::Averaged => {
                ServiceTimes { read, write: Nanos(program + averaged), burst: None }
            }
            Cleaning::Bursty => ServiceTimes { read, write: Nanos(program), burst: Some(burst) },
        })
    }
}

impl DiskMember {
    fn service_times(&self, layout: Layout, block_bytes: u32) -> Result<ServiceTimes, ArrayError> {
        if self.page_bytes == 0 {
            return Err(value("page_bytes", "must be above 0"));
        }
        if self.bytes_per_second == 0 {
            return Err(value("bytes_per_second", "must be above 0"));
        }
        let needed = u64::from(layout.needed_count());
        let page_bytes = u64::from(self.page_bytes);
        let block_bytes = u64::from(block_bytes);
        let read_bytes = block_bytes.div_ceil(needed * page_bytes) * page_bytes;
        let transfer = |bytes: u64| Nanos::of_transfer(bytes, self.bytes_per_second);
        let written = transfer(block_bytes).0.div_ceil(needed);
        let read = self.seek_ns + transfer(read_bytes);
        Ok(ServiceTimes { read, write: self.seek_ns + Nanos(written), burst: None })
    }
}

fn value(name: &'static str, what: &str) -> ArrayError {
    ArrayError::Value { name, what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip(change: impl Fn(&mut FlashMember)) -> Member {
        let Member::Flash(mut chip) = Member::thesis_chip() else { unreachable!() };
        change(&mut chip);
        Member::Flash(chip)
    }

    fn times(member: Member, needed: u8, block_bytes: u32) -> ServiceTimes {
        member.service_times(Layout::new(4, needed, 4).unwrap(), block_bytes).unwrap()
    }

    #[test]
    fn the_fragments_of_the_thesis_cost_what_equation_2_2_says() {
        // Flash reference 7.2: 466.875 us / m, rounded up here.
        let expected = [466_875, 233_438, 155_625, 116_719];
        for (needed, write) in (1..).zip(expected) {
            let found = times(Member::thesis_chip(), needed, 2048);
            assert!(found.write.0.abs_diff(write) <= 1, "{needed}: {}", found.write.0);
            assert_eq!(found.read, Nanos(20_000));
        }
        for (needed, write) in [(1, 6_034_134), (2, 6_017_067), (3, 6_011_378), (4, 6_008_534)] {
            let found = times(Member::thesis_disk(), needed, 2048);
            assert_eq!((found.read.0, found.write.0), (6_034_134, write));
        }
    }

    #[test]
    fn large_blocks_fill_pages() {
        let found = times(Member::thesis_chip(), 4, 8192);
        assert_eq!((found.read.0, found.write.0), (20_000, 466_875));
        let found = times(Member::thesis_chip(), 1, 8192);
        assert_eq!((found.read.0, found.write.0), (80_000, 4 * 466_875));
    }

    #[test]
    fn real_partial_programs_take_a_whole_program() {
        let partial = chip(|chip| chip.program_charge = ProgramCharge::PartialPage);
        assert_eq!(times(partial, 4, 2048).write.0, 200_000 + 266_875_u64.div_ceil(4));
        let whole = chip(|chip| chip.program_charge = ProgramCharge::WholePage);
        assert_eq!(times(whole, 4, 2048).write.0, 466_875);
    }

    #[test]
    fn bursts_cost_in_sum_what_their_average_costs() {
        let bursty = chip(|chip| chip.cleaning = Cleaning::Bursty);
        for needed in 1..=4 {
            let found = times(bursty, needed, 2048);
            let burst = found.burst.unwrap();
            assert_eq!(burst.time, Nanos(8_540_000));
            let writes = burst.space_per_burst / burst.space_per_write;
            assert_eq!(writes, 32 * u64::from(needed));
            let average = times(Member::thesis_chip(), needed, 2048).write.0 * writes;
            let sum = found.write.0 * writes + burst.time.0;
            assert!(average.abs_diff(sum) <= 2 * writes, "{average} and {sum}");
        }
    }

    #[test]
    fn members_that_make_no_sense_are_refused() {
        let full = chip(|chip| chip.live_page_count = 64);
        let layout = Layout::new(4, 1, 1).unwrap();
        assert!(full.service_times(layout, 2048).is_err());
        assert!(Member::thesis_chip().service_times(layout, 0).is_err());
    }
}
