//! Where sectors lie and when they pass under the head.
//!
//! ```text
//!   zone ─► cylinder ─► head (track) ─► sector in track       outer zones have longer tracks
//!
//!   angle of sector s of a track = skew(track) + s * revolution / sectors per track
//! ```
//!
//! Skew: a track begins by as much later than the one before as the switch between them takes, so a
//! sequential run loses the switch and nothing more.
//!
//! 1. Every sector below `sector_count` has exactly one place; the places are dense from cylinder 0.
//! 2. Angles are times within one revolution, so the platter's position is the clock modulo it.
//! 3. A full cylinder takes `head_count` revolutions and as many switches; its sectors over that
//!    time are the sustained rate of its zone.

use super::config::{HddConfig, MechanicsConfig};
use nandu_base::Nanos;

#[derive(Clone, Debug)]
struct Zone {
    first_sector: u64,
    first_cylinder: u64,
    sectors_per_track: u64,
}

/// A sector's place on the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The cylinder, counted from the outermost.
    pub(crate) cylinder: u64,
    /// The recording surface, counted from 0.
    pub(crate) head: u64,
    /// The sector in its track, counted from 0.
    pub(crate) sector: u64,
    /// Sectors of that track.
    pub(crate) sectors_per_track: u64,
}

/// The layout of sectors on the platters.
#[derive(Clone, Debug)]
pub(crate) struct Surface {
    zones: Vec<Zone>,
    head_count: u64,
    pub(crate) cylinder_count: u64,
    revolution: Nanos,
    head_switch: Nanos,
    cylinder_switch: Nanos,
}

impl Surface {
    /// Lays out `sector_count` sectors of `sector_bytes`.
    ///
    /// # Errors
    /// If a track would not hold a single sector.
    pub(crate) fn new(
        config: &HddConfig,
        mechanics: &MechanicsConfig,
        sector_bytes: u32,
        sector_count: u64,
    ) -> Result<Self, String> {
        let head_count = u64::from(mechanics.head_count);
        let zone_count = u64::from(mechanics.zone_count);
        let switches = mechanics.head_switch_ns * (head_count - 1) + mechanics.seek_min_ns;
        let cylinder_time = config.revolution_ns * head_count + switches;
        let per_track = |zone: u64| {
            let fall = config.outer_bytes_per_second - config.inner_bytes_per_second;
            let rate = config.outer_bytes_per_second - fall * zone / (zone_count - 1).max(1);
            let bytes = u128::from(rate) * u128::from(cylinder_time.0) / 1_000_000_000;
            let sectors = bytes / u128::from(sector_bytes) / u128::from(head_count);
            u64::try_from(sectors).map_err(|_| "`outer_bytes_per_second` is too large".to_owned())
        };
        let tracks: Vec<u64> = (0..zone_count).map(per_track).collect::<Result<_, _>>()?;
        if tracks.contains(&0) {
            return Err("`inner_bytes_per_second` leaves no sector on a track".into());
        }
        let per_column: u64 = tracks.iter().map(|track| track * head_count).sum();
        let cylinders_per_zone = sector_count.div_ceil(per_column);
        let mut zones = Vec::with_capacity(tracks.len());
        let (mut first_sector, mut first_cylinder) = (0, 0);
        for sectors_per_track in tracks {
            zones.push(Zone { first_sector, first_cylinder, sectors_per_track });
            first_sector += cylinders_per_zone * head_count * sectors_per_track;
            first_cylinder += cylinders_per_zone;
        }
        Ok(Self {
            zones,
            head_count,
            cylinder_count: first_cylinder,
            revolution: config.revolution_ns,
            head_switch: mechanics.head_switch_ns,
            cylinder_switch: mechanics.seek_min_ns,
        })
    }

    /// Where `sector` lies; past the end of the disk, as if the last zone went on.
    pub(crate) fn locate(&self, sector: u64) -> Place {
        let after = self.zones.partition_point(|zone| zone.first_sector <= sector);
        let zone = &self.zones[after - 1];
        let sectors_per_track = zone.sectors_per_track;
        let (track, sector) = {
            let offset = sector - zone.first_sector;
            (offset / sectors_per_track, offset % sectors_per_track)
        };
        let cylinder = zone.first_cylinder + track / self.head_count;
        Place { cylinder, head: track % self.head_count, sector, sectors_per_track }
    }

    /// The time of one head switch, where `from` and `to` share their cylinder but not their head.
    pub(crate) fn head_switch(&self, from: &Place, to: &Place) -> Nanos {
        if from.head == to.head { Nanos::ZERO } else { self.head_switch }
    }

    /// How long a head that is on the track of `place` at `time` waits for the sector to begin.
    pub(crate) fn rotational_wait(&self, place: &Place, time: Nanos) -> Nanos {
        let revolution = self.revolution.0;
        let angle = (self.skew(place) + self.angle(place.sector, place)) % revolution;
        Nanos((angle + revolution - time.0 % revolution) % revolution)
    }

    /// When `count` sectors from `first` on have passed, if the first begins at `time` under the
    /// head, which follows them from track to track.
    pub(crate) fn pass(&self, first: u64, count: u64, time: Nanos) -> Nanos {
        let (mut time, mut sector, mut left) = (time, first, count);
        while left > 0 {
            let place = self.locate(sector);
            let here = left.min(place.sectors_per_track - place.sector);
            let end = place.sector + here;
            time += Nanos(self.angle(end, &place) - self.angle(place.sector, &place));
            (sector, left) = (sector + here, left - here);
            if left > 0 {
                time += self.switch_after(&place);
            }
        }
        time
    }

    /// When `sector` begins under a head that follows the run, if the sector before ends at `end`.
    pub(crate) fn begin_after(&self, end: Nanos, sector: u64) -> Nanos {
        if sector == 0 || self.locate(sector).sector > 0 {
            return end;
        }
        end + self.switch_after(&self.locate(sector - 1))
    }

    /// How many of at most `count_max` sectors from `first` on have passed entirely by `until`, if
    /// the first begins at `time`.
    pub(crate) fn passed_by(&self, first: u64, count_max: u64, time: Nanos, until: Nanos) -> u64 {
        let (mut time, mut passed) = (time, 0);
        while passed < count_max && time < until {
            let place = self.locate(first + passed);
            let rest = (place.sectors_per_track - place.sector).min(count_max - passed);
            let end = time + Nanos(self.angle(place.sector + rest, &place))
                - Nanos(self.angle(place.sector, &place));
            if end > until {
                // The largest n with n * revolution / sectors per track, rounded down, in time.
                let angle = self.angle(place.sector, &place) + (until - time).0;
                let reached = ((angle + 1) * place.sectors_per_track - 1) / self.revolution.0;
                return passed + (reached - place.sector).min(rest);
            }
            (time, passed) = (end + self.switch_after(&place), passed + rest);
        }
        passed
    }

    /// Angle of the beginning of a sector relative to its track's; the track's end for its count.
    fn angle(&self, sector: u64, place: &Place) -> u64 {
        sector * self.revolution.0 / place.sectors_per_track
    }

    fn switch_after(&self, place: &Place) -> Nanos {
        if place.head + 1 == self.head_count { self.cylinder_switch } else { self.head_switch }
    }

    /// Angle at which the track of `place` begins: all switches before it.
    fn skew(&self, place: &Place) -> u64 {
        let per_cylinder = self.head_switch * (self.head_count - 1) + self.cylinder_switch;
        (per_cylinder.0 % self.revolution.0 * place.cylinder + self.head_switch.0 * place.head)
            % self.revolution.0
    }

    /// Asserts invariant 1 at the borders of the zones.
    pub(crate) fn audit(&self) {
        for pair in self.zones.windows(2) {
            let last = self.locate(pair[1].first_sector - 1);
            assert_eq!(last.cylinder + 1, pair[1].first_cylinder, "zones are dense");
            assert_eq!(last.sector + 1, last.sectors_per_track, "tracks are full");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdd::tests::small_disk;

    fn surface() -> Surface {
        let config = small_disk();
        let mechanics = config.mechanics.clone().unwrap();
        Surface::new(&config, &mechanics, 512, 400_000).unwrap()
    }

    #[test]
    fn places_are_dense_and_in_order() {
        let surface = surface();
        surface.audit();
        let mut before = surface.locate(0);
        assert_eq!((before.cylinder, before.head, before.sector), (0, 0, 0));
        for sector in 1..400_000 {
            let place = surface.locate(sector);
            let next_in_track = place.sector == before.sector + 1 && place.head == before.head;
            let next_track = place.sector == 0 && before.sector + 1 == before.sectors_per_track;
            assert!(next_in_track || next_track, "sector {sector}");
            before = place;
        }
        assert!(before.cylinder < surface.cylinder_count);
    }

    #[test]
    fn a_run_over_a_switch_waits_for_nothing_but_the_switch() {
        let surface = surface();
        for first in [0, 5, 100_000, 399_000] {
            let place = surface.locate(first);
            let start = Nanos::from_seconds(1);
            let start = start + surface.rotational_wait(&place, start);
            let mut time = start;
            for sector in first..first + 900 {
                assert_eq!(surface.rotational_wait(&surface.locate(sector), time), Nanos::ZERO);
                time = surface.begin_after(surface.pass(sector, 1, time), sector + 1);
            }
            let whole = surface.begin_after(surface.pass(first, 900, start), first + 900);
            assert_eq!(time, whole, "piecewise or whole");
        }
    }

    #[test]
    fn counting_what_passed_inverts_the_time_to_pass() {
        let surface = surface();
        for count in [1, 2, 17, 333, 1000, 5000] {
            let end = surface.pass(7, count, Nanos(123));
            assert_eq!(surface.passed_by(7, 10_000, Nanos(123), end), count);
            assert!(surface.passed_by(7, 10_000, Nanos(123), end - Nanos(10_000)) < count);
            assert_eq!(surface.passed_by(7, count, Nanos(123), Nanos::from_seconds(9)), count);
        }
    }
}
