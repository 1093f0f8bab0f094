//! Flushes: what they wait for, and what has to be durable before they are answered.
//!
//! ```text
//!   waiting ── writes that were answered are on all members ──┬─► flushing ── all done ─► answered
//!      ▲                                                      │ a member is out, unrecorded
//!      │                                                      └─► recording ─► flushing ──┐
//!      └── a member failed meanwhile ◄────────────────────────────────────────────────────┘
//! ```
//!
//! 1. A flush covers every write that was answered before it: fragments that were still under way when
//!    their write was answered, and those that a member missed and did not fail for.
//! 2. When it is answered, a record names every member that missed any of that as not current.
//! 3. After a flush that failed nothing is known of what a member holds: it is left alone.
//! 4. One record is under way at a time.
//! 5. A rebuilt member becomes current as `membership` draws it, by a flush of its own.

use super::*;

pub(super) struct Flush {
    /// The request; none where rebuilt members are to become current.
    request: Option<u64>,
    phase: Phase,
    /// Answers of members that are awaited.
    outstanding_count: u32,
    /// Repairs begun when it was, if it is for rebuilt members.
    repairs_begun: u64,
}

#[derive(Debug)]
enum Phase {
    /// For these jobs, for repairs, or for another's record.
    Waiting(BTreeSet<u64>),
    Recording,
    Flushing {
        has_recorded: bool,
    },
}

impl<D: Device + ?Sized> ArrayDevice<D> {
    /// Begins the flush `request`.
    pub(super) fn begin_flush(&mut self, request: Option<u64>) {
        let is_answered =
            |(id, job): (&u64, &Job)| (job.is_reported && job.is_storing).then_some(*id);
        let under_way = self.jobs.iter().filter_map(is_answered).collect();
        let flush = Flush {
            request,
            phase: Phase::Waiting(under_way),
            outstanding_count: 0,
            repairs_begun: self.repairs_begun,
        };
        let id = self.new_id();
        self.flushes.insert(id, flush);
    }

    /// Begins to make rebuilt members current, unless that is under way.
    pub(super) fn begin_promotion(&mut self) {
        if self.flushes.values().all(|flush| flush.request.is_some()) {
            self.begin_flush(None);
            self.advance_flushes();
        }
    }

    /// Has flushes go on that wait for something that may have ended.
    pub(super) fn advance_flushes(&mut self) {
        let is_waiting =
            |(id, flush): (&u64, &Flush)| matches!(flush.phase, Phase::Waiting(_)).then_some(*id);
        let waiting: Vec<u64> = self.flushes.iter().filter_map(is_waiting).collect();
        for id in waiting {
            self.try_flush(id);
        }
    }

    fn try_flush(&mut self, id: u64) {
        let flush = self.flushes.get_mut(&id).expect("it waits");
        let is_promotion = flush.request.is_none();
        let Phase::Waiting(jobs) = &mut flush.phase else { return };
        jobs.retain(|job| self.jobs.contains_key(job));
        if !jobs.is_empty() || !self.behind.is_empty() {
            return;
        }
        if !is_promotion && !self.has_quorum() {
            return self.end_flush(id);
        }
        let records = |flush: &Flush| match flush.phase {
            Phase::Recording => true,
            Phase::Flushing { has_recorded } => has_recorded,
            Phase::Waiting(_) => false,
        };
        if !self.needs_record() {
            self.send_flush(id, false);
        } else if !self.flushes.values().any(records) {
            self.begin_epoch();
            self.set_phase(id, Phase::Recording);
            self.send_all(id, |array, request, index| array.record_write(request, index));
        }
    }

    fn set_phase(&mut self, id: u64, phase: Phase) {
        self.flushes.get_mut(&id).expect("it is under way").phase = phase;
    }

    fn send_flush(&mut self, id: u64, has_recorded: bool) {
        self.set_phase(id, Phase::Flushing { has_recorded });
        self.send_all(id, |_, request, _| Request::flush(request));
    }

    fn send_all(&mut self, flush: u64, request: impl Fn(&Self, u64, usize) -> Request) {
        let now = self.clock.now();
        let in_use = self.members_in_use();
        let flush_state = self.flushes.get_mut(&flush).expect("it is under way");
        flush_state.outstanding_count = in_use.count_ones();
        if in_use == 0 {
            return self.end_flush(flush);
        }
        for index in (0..self.members.len()).filter(|index| in_use & 1 << index != 0) {
            let id = self.new_id();
            let request = request(self, id, index);
            let byte_count = self.members[index].bytes_of(&request);
            self.addressees.insert(id, Addressee::Flush { flush, byte_count });
            self.members[index].send(now, request, Nanos::ZERO);
        }
    }

    /// A member has answered `id`, well or not.
    pub(super) fn flush_answered(&mut self, id: u64) {
        let flush = self.flushes.get_mut(&id).expect("a flush waits for its members");
        flush.outstanding_count -= 1;
        if flush.outstanding_count > 0 {
            return;
        }
        match flush.phase {
            Phase::Waiting(_) => {}
            Phase::Recording => self.send_flush(id, true),
            Phase::Flushing { has_recorded } => self.flushed(id, has_recorded),
        }
    }

    fn flushed(&mut self, id: u64, has_recorded: bool) {
        if has_recorded {
            self.end_epoch();
        }
        let Flush { request, repairs_begun, .. } = self.flushes[&id];
        if request.is_none() && !has_recorded && !self.promote(repairs_begun) {
            self.membership.promoted = 0;
            self.flushes.remove(&id);
        } else if self.needs_record() && (request.is_none() || self.has_quorum()) {
            self.set_phase(id, Phase::Waiting(BTreeSet::new()));
            self.try_flush(id);
        } else {
            self.end_flush(id);
        }
    }

    /// What was rebuilt is durable: whether it may become current.
    fn promote(&mut self, repairs_begun: u64) -> bool {
        let is_repaired = self.repairs.is_empty() && repairs_begun == self.repairs_begun;
        if is_repaired {
            let rebuilt = self.members_in(MemberState::Rebuilding);
            self.membership.promoted = rebuilt;
            self.membership.current |= rebuilt;
        }
        is_repaired
    }

    fn end_flush(&mut self, id: u64) {
        let flush = self.flushes.remove(&id).expect("it is under way");
        let Some(request) = flush.request else {
            let promoted = std::mem::take(&mut self.membership.promoted);
            for (member, index) in self.members.iter_mut().zip(0..) {
                if promoted & 1 << index != 0 && member.state == MemberState::Rebuilding {
                    member.state = MemberState::Healthy;
                }
            }
            return;
        };
        let what = "fewer members than a block needs made their writes durable".into();
        let lost = DeviceError::Media { first_sector: 0, what };
        let result = if self.has_quorum() { Ok(()) } else { Err(lost) };
        self.part_done(request, result);
    }
}
