//! What a stripe holds: judged by the fragments that came, once for all who ask.
//!
//! ```text
//!   decided ── a write that too few took ─► undecided ◄─ opened
//!      ▲                                        │ all fragments of current members
//!      │                                        ▼
//!      │        m or more of one write: the newest such       all data, of several writes: each as
//!      │        its other fragments are stored                it is, as a write of its own
//!      └───────────────┴────────────────────────────────────────┘
//! ```
//!
//! 1. No write is taken that is older than what the stripe is known to hold. Members that are current
//!    hold what was flushed or later writes, so that all that can be taken is as good.
//! 2. Nobody learns what an undecided stripe holds before all members in use hold just that: not by
//!    reading, whatever fails later.
//! 3. Fragments of the write that is taken are never overwritten on the way, and data of several writes
//!    by equal bytes only: a power cut in the middle does not change what is taken next time.
//! 4. A stripe that was lost is marked so on members that are rebuilt; what lay there is not data.

use super::work::numbers;
use super::*;

/// What a stripe is found to hold.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// The fragments that can be used, as bits.
    present: u32,
    /// The write that they are of, or several.
    id: Option<WriteId>,
}

impl<D: Device + ?Sized> ArrayDevice<D> {
    /// Everything that was asked for has come, or never will.
    pub(super) fn gathered(&mut self, id: u64, job: Job) {
        if job.kind == JobKind::Write && self.is_whole(&job) {
            let length = self.shape(job.stripe).fragment_sector_count as usize * self.sector_bytes;
            let length = if self.config.keeps_data { length } else { 0 };
            let fragments = vec![vec![0; length]; job.found.len()];
            return self.store_new(id, job, fragments);
        }
        if let Some(found) = self.found(&job) {
            if self.versions[to_index(job.stripe)].is_decided {
                self.go_on_decided(id, job, found.present);
            } else {
                self.go_on_undecided(id, job, found);
            }
            return;
        }
        let others = self.usable(job.stripe, MemberState::Rebuilding) & !job.tried;
        if others != 0 {
            return self.gather(id, job, others);
        }
        self.go_on_lost(id, job);
    }

    /// What the fragments that came give back, if it is enough for `job`.
    fn found(&self, job: &Job) -> Option<Found> {
        let of = |id: WriteId| bits_of(job, |fragment| fragment.id == id);
        let version = self.versions[to_index(job.stripe)];
        let needed = u32::from(self.shape(job.stripe).layout.needed_count());
        let all_data = (1_u32 << needed) - 1;
        if version.is_decided {
            let present = of(version.id);
            let data = if job.kind == JobKind::Read { self.data_fragments(job) } else { all_data };
            let is_enough = present.count_ones() >= needed || present & data == data;
            return is_enough.then_some(Found { present, id: Some(version.id) });
        }
        let found = job.found.iter().flatten().map(|fragment| fragment.id);
        let whole = found.filter(|id| *id >= version.id && of(*id).count_ones() >= needed).max();
        if let Some(id) = whole {
            return Some(Found { present: of(id), id: Some(id) });
        }
        let recent = bits_of(job, |fragment| fragment.id >= version.id);
        (recent & all_data == all_data).then_some(Found { present: all_data, id: None })
    }

    fn go_on_decided(&mut self, id: u64, mut job: Job, present: u32) {
        let in_use = self.in_use(job.stripe);
        if job.tried & in_use & !present != 0 && job.kind != JobKind::Repair {
            self.repairs.insert(job.stripe);
        }
        let needed = self.shape(job.stripe).layout.needed_count();
        let all_data = (1_u32 << needed) - 1;
        match job.kind {
            JobKind::Read => {
                let data = self.data_fragments(&job);
                let fragments = self.compute(&mut job, present, data);
                self.fill_buffer(&job, &fragments);
                self.report(&mut job, Ok(()));
                self.end(&job);
            }
            JobKind::Write => {
                let fragments = self.compute(&mut job, present, all_data);
                self.store_new(id, job, fragments);
            }
            JobKind::Repair => {
                let lost = in_use & !present;
                let fragments = self.compute(&mut job, present, lost);
                job.id = self.versions[to_index(job.stripe)].id;
                self.store(id, job, &fragments, lost);
            }
            JobKind::Move => {
                let fragments = self.compute(&mut job, present, all_data);
                self.store_copy(id, job, &fragments);
            }
        }
    }

    /// Decides, and has all members in use hold that before anybody is told: invariant 2.
    fn go_on_undecided(&mut self, id: u64, mut job: Job, found: Found) {
        let in_use = self.in_use(job.stripe);
        let needed = self.shape(job.stripe).layout.needed_count();
        let Found { present, id: of_write } = found;
        let fragments = match of_write {
            Some(_) => self.compute(&mut job, present, in_use | ((1_u32 << needed) - 1)),
            None => self.encoded(&mut job),
        };
        match job.kind {
            JobKind::Write => return self.store_new(id, job, fragments),
            JobKind::Move => return self.store_copy(id, job, &fragments),
            JobKind::Read => self.fill_buffer(&job, &fragments),
            JobKind::Repair => {}
        }
        let which = match of_write {
            Some(write) => {
                self.versions[to_index(job.stripe)] = StripeVersion::decided(write);
                job.id = write;
                in_use & !present
            }
            None => {
                self.begin_write(&mut job);
                in_use
            }
        };
        self.store(id, job, &fragments, which);
    }

    /// Nothing is left to be tried.
    fn go_on_lost(&mut self, id: u64, mut job: Job) {
        let error = self.loss(&job);
        self.report(&mut job, Err(error));
        match job.kind {
            JobKind::Move => self.give_up_migration(&job),
            JobKind::Repair => {
                self.lost_stripe_count += 1;
                let is_rebuilt = |state| state == MemberState::Rebuilding;
                let which = self.fragments_on(job.stripe, is_rebuilt);
                return self.store_lost(id, job, which);
            }
            JobKind::Read | JobKind::Write => {}
        }
        self.end(&job);
    }

    /// The error of a stripe of which too few fragments agree.
    fn loss(&self, job: &Job) -> DeviceError {
        let found = || job.found.iter().flatten().map(|found| found.id);
        let same = |id: WriteId| found().filter(|other| *other == id).count();
        let version = self.versions[to_index(job.stripe)];
        let left = if version.is_decided {
            same(version.id)
        } else {
            found().filter(|id| *id >= version.id).map(same).max().unwrap_or(0)
        };
        let is_lost = |number: &u8| {
            let found = job.found[usize::from(*number)].as_ref();
            found.is_none_or(|found| version.is_decided && found.id != version.id)
        };
        let written = self.shape(job.stripe).layout.written_count();
        let lost = numbers((1_u32 << written) - 1).filter(is_lost);
        let lost: Vec<String> =
            lost.map(|number| self.member_of(job.stripe, number).to_string()).collect();
        let remedy = match lost.is_empty() {
            true => "write them anew".into(),
            false => format!("replace or restore members {}", lost.join(", ")),
        };
        let what = format!(
            "{} are lost: {left} intact fragments of one write are left, {} are needed; {remedy}",
            self.sectors_in_words(job),
            self.shape(job.stripe).layout.needed_count(),
        );
        DeviceError::Media { first_sector: self.first_sector(job), what }
    }

    /// The error of a write that too few members took.
    pub(super) fn refusal(&self, job: &Job) -> DeviceError {
        let what = format!(
            "{} are not written: {} members took their fragments, {} must",
            self.sectors_in_words(job),
            job.stored_count,
            self.shape(job.stripe).layout.needed_count()
        );
        DeviceError::Media { first_sector: self.first_sector(job), what }
    }

    fn first_sector(&self, job: &Job) -> u64 {
        job.stripe * self.map.stripe_sectors + u64::from(job.first_sector)
    }

    fn sectors_in_words(&self, job: &Job) -> String {
        let stripe_sectors = self.map.stripe_sectors;
        let start = job.stripe * stripe_sectors;
        format!("sectors {start} to {}", start + stripe_sectors - 1)
    }
}

/// The fragments that came and are `meant`, as bits.
fn bits_of(job: &Job, meant: impl Fn(&Fragment) -> bool) -> u32 {
    let found = job.found.iter().zip(0_u32..);
    let found = found.filter(|(fragment, _)| fragment.as_ref().is_some_and(&meant));
    found.fold(0, |bits, (_, number)| bits | 1 << number)
}
