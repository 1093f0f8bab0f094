//! Who is current, and how that is made durable ([`record`](super::record)).
//!
//! ```text
//!   created, opened  ─► Healthy ──────── fails ────────► Failed ─► replaced ─┐
//!   opened, stale ──► Rebuilding ◄────────────────────────────────────────────┘
//!                         └─ all repaired ─► flushed ─► recorded as current ─► flushed ─► Healthy
//! ```
//!
//! 1. Members that were replaced, or whose record is not of a current one, are current again when
//!    everything is on them and flushed, and a record says so.
//! 2. Fewer than n - (f - m) current members are never recorded because others fail: flushes fail
//!    then, so that nobody misses anything that was flushed.
//! 3. An array that follows the load keeps its map in memory and cannot be opened again: its record
//!    says no more than that.

use super::record::{Epoch, Judgement, Record, RecordShape, judge, record_sector};
use super::*;

/// What the array knows of the members' records.
pub(super) struct Membership {
    /// The last record that was begun.
    pub(super) record: Record,
    /// Whether all that were present have it, durably.
    pub(super) is_complete: bool,
    /// Members that are to be current, unless they fail.
    pub(super) current: u32,
    /// Members that were rebuilt and are about to become current.
    pub(super) promoted: u32,
    /// The greatest number of an epoch so far, those that never came about included.
    number: u32,
    /// Of the session: what writes are called by.
    id: WriteId,
}

impl Membership {
    /// Of an array over `member_count` that nothing was recorded of.
    pub(super) fn new(shape: RecordShape) -> Self {
        let all = bits_below(shape.layout.member_count());
        let record = Record::new(shape, Epoch { number: 0, present: all, current: all });
        Self { record, is_complete: true, current: all, promoted: 0, number: 0, id: WriteId::NEVER }
    }

    /// The epoch in which the array was made; slots of an earlier one are not its own.
    pub(super) const fn created(&self) -> u32 {
        self.record.created
    }

    /// The id of the next write: [`fragment`](super::fragment) invariant 1.
    pub(super) fn next_id(&mut self) -> WriteId {
        self.id.counter += 1;
        self.id
    }
}

impl<D: Device + ?Sized> ArrayDevice<D> {
    /// Members in `state`, as bits.
    pub(super) fn members_in(&self, state: MemberState) -> u32 {
        let members = self.members.iter().zip(0_u32..);
        let good = members.filter(|(member, _)| member.state == state);
        good.fold(0, |bits, (_, index)| bits | 1 << index)
    }

    /// Members that are written to, as bits.
    pub(super) fn members_in_use(&self) -> u32 {
        self.members_in(MemberState::Healthy) | self.members_in(MemberState::Rebuilding)
    }

    /// Whether so many members are current that a flush can be answered: at most f - m are not.
    pub(super) fn has_quorum(&self) -> bool {
        match self.chooser {
            None => self.is_quorum(self.members_in(MemberState::Healthy)),
            // An array that chooses its layout by the load is not opened again after a power cut,
            // so nobody asks later who was current: members that are being rebuilt count as well.
            Some(_) => self.is_quorum(self.members_in_use()),
        }
    }

    fn is_quorum(&self, members: u32) -> bool {
        let spare_counts = self.map.shapes.iter().map(|shape| shape.layout.spare_count());
        let spare_count = spare_counts.min().expect("there is a shape");
        members.count_ones() + u32::from(spare_count) >= to_u32(self.members.len() as u64)
    }

    /// Members that a record is to name as current: invariant 2.
    fn wanted_current(&self) -> u32 {
        let Membership { current, promoted, .. } = self.membership;
        let promoted = promoted & self.members_in_use();
        let left = current & (self.members_in(MemberState::Healthy) | promoted);
        if self.is_quorum(left) { left } else { current }
    }

    /// Whether the newest record is another than the one that holds.
    pub(super) fn needs_record(&self) -> bool {
        let Membership { record, is_complete, .. } = &self.membership;
        let holds = *is_complete && record.newest().current == self.wanted_current();
        self.chooser.is_none() && !holds
    }

    /// Begins the epoch in which `wanted_current` are current; its record has to be written.
    pub(super) fn begin_epoch(&mut self) {
        let current = self.wanted_current();
        let present = self.members_in_use();
        let membership = &mut self.membership;
        membership.number += 1;
        let number = membership.number;
        membership.record.begin(Epoch { number, present, current }, membership.is_complete);
        membership.is_complete = false;
        membership.current = current;
    }

    /// The record that was begun is durable on those that took it; whether that is all of them.
    pub(super) fn end_epoch(&mut self) -> bool {
        let Epoch { present, current, .. } = self.membership.record.newest();
        let has_all = present & !self.members_in_use() == 0 && current == self.wanted_current();
        self.membership.is_complete |= has_all;
        has_all
    }

    /// The write of its record to member `index`.
    pub(super) fn record_write(&self, id: u64, index: usize) -> Request {
        let sector_count = self.members[index].device.info().geometry.sector_count;
        let record = &self.membership.record;
        let sector = || record.to_sector(index, self.sector_bytes);
        let buffer = self.config.keeps_data.then(sector);
        Request::write(id, record_sector(sector_count, record.newest().number), 1, buffer)
    }

    /// Begins an epoch and waits until all that are in use have it. Those that do not take it fail.
    fn record_now(&mut self) {
        loop {
            self.begin_epoch();
            let mut latest = Device::now(self);
            for index in 0..self.members.len() {
                if self.members[index].state == MemberState::Failed {
                    continue;
                }
                let write = self.record_write(ASKED_AT_ONCE, index);
                let is_taken = [write, Request::flush(ASKED_AT_ONCE)].into_iter().all(|request| {
                    let (done, at) = self.ask_at_once(index, request);
                    latest = latest.max(at);
                    done.is_some_and(|done| done.result.is_ok())
                });
                if !is_taken {
                    self.members[index].state = MemberState::Failed;
                }
            }
            // The members worked at the same time, so the array's clock goes on to the latest of
            // their answers and not to the sum.
            self.clock.advance_to(latest);
            if self.end_epoch() || self.members_in_use() == 0 {
                return;
            }
        }
    }

    fn ask_at_once(&mut self, index: usize, request: Request) -> (Option<Completion>, Nanos) {
        let (now, timeout) = (Device::now(self), self.config.member_timeout);
        self.members[index].ask_at_once(now, request, timeout)
    }

    /// The record of each member, if it has one. A member that does not answer fails.
    fn read_records(&mut self) -> Vec<Option<Record>> {
        let mut latest = Device::now(self);
        let mut records = Vec::new();
        for index in 0..self.members.len() {
            let mut newest: Option<Record> = None;
            for number in 0..2 {
                let sector_count = self.members[index].device.info().geometry.sector_count;
                let buffer = self.config.keeps_data.then(|| IoBuffer::zeroed(self.sector_bytes));
                let sector = record_sector(sector_count, number);
                let read = Request::read(ASKED_AT_ONCE, sector, 1, buffer);
                let (done, at) = self.ask_at_once(index, read);
                latest = latest.max(at);
                let Some(done) = done else {
                    self.members[index].state = MemberState::Failed;
                    newest = None;
                    break;
                };
                let sector = done.buffer.filter(|_| done.result.is_ok());
                let record = sector.and_then(|sector| Record::from_sector(&sector));
                let number = |record: &Option<Record>| record.as_ref().map(|it| it.newest().number);
                if number(&record) > number(&newest) {
                    newest = record;
                }
            }
            records.push(newest);
        }
        self.clock.advance_to(latest);
        records
    }

    /// Makes the members those of a new array, whatever they were before; whether all took it.
    pub(super) fn record_creation(&mut self) -> bool {
        let records = self.read_records();
        // Ids go on where those of an older array ended, whose slots may still be there.
        let numbers = records.iter().flatten().map(|record| record.newest().number);
        let number = numbers.max().unwrap_or(0).min(EPOCH_NUMBER_MAX);
        let all = bits_below(self.config.layout.member_count());
        let shape = self.membership.record.shape;
        let mut record = Record::new(shape, Epoch { number, present: all, current: all });
        record.created = number + 1;
        self.membership.number = number;
        self.membership.record = record;
        self.record_now();
        self.begin_session();
        self.members_in_use() == all
    }

    /// Finds out who is current, and has the others rebuilt.
    ///
    /// # Errors
    /// If nobody has a record, or records say that the members are other ones or contradict each other.
    pub(super) fn take_up_records(&mut self) -> Result<(), ArrayError> {
        let refuse = |what: String| Err(ArrayError::Value { name: "members", what });
        let records = self.read_records();
        for (index, record) in records.iter().enumerate() {
            if let Some(what) = record.as_ref().and_then(|record| self.misfit(index, record)) {
                return refuse(what);
            }
        }
        let Judgement { record, is_complete, current, number } = match judge(&records) {
            Ok(Some(judgement)) => judgement,
            Ok(None) => {
                return refuse("have no record of an array; make one over blank members".into());
            }
            Err((one, other)) => {
                return refuse(format!(
                    "number {one} and {other} were each written without the other; take one of \
                     them out, open the array with a blank device in its place, and replace that"
                ));
            }
        };
        if number > EPOCH_NUMBER_MAX {
            return refuse("were opened too often; copy their data to a new array".into());
        }
        self.membership.number = number;
        self.membership.current = record.newest().current;
        self.membership.record = record;
        self.membership.is_complete = is_complete;
        for (index, record) in records.iter().enumerate() {
            let member = &mut self.members[index];
            member.state = match record {
                _ if member.state == MemberState::Failed => MemberState::Failed,
                None => MemberState::Failed,
                Some(_) if current & 1 << index != 0 => MemberState::Healthy,
                Some(_) => MemberState::Rebuilding,
            };
        }
        self.record_now();
        self.begin_session();
        if self.members_in(MemberState::Rebuilding) != 0 {
            self.scrub();
        }
        Ok(())
    }

    /// Why member `index` with `record` is not this array's.
    fn misfit(&self, index: usize, record: &Record) -> Option<String> {
        let expected = self.membership.record.shape;
        let RecordShape { layout, fragment_sector_count, follows_load } = record.shape;
        if follows_load {
            return Some(format!(
                "have one, number {index}, of an array that followed the load; where its data lie \
                 was known until it was closed. Make a new array over blank members"
            ));
        }
        if record.shape != expected {
            let (n, name) = (layout.member_count(), layout.name());
            return Some(format!(
                "have one, number {index}, of an array {name} of {n} with fragments of \
                 {fragment_sector_count} sectors; open it as that"
            ));
        }
        let number = usize::from(record.member);
        (number != index)
            .then(|| format!("have number {number} in the place of number {index}; order them"))
    }

    /// From now on writes are this session's.
    fn begin_session(&mut self) {
        let Epoch { number, present, .. } = self.membership.record.newest();
        self.membership.id = WriteId { epoch: number, counter: 0, present };
    }

    /// Member `index` is a new device: no record names it as current until it is rebuilt.
    pub(super) fn record_replacement(&mut self, index: usize) {
        if self.chooser.is_none() {
            self.membership.current &= !(1 << index);
            self.membership.promoted &= !(1 << index);
        }
        if self.chooser.is_none() || self.config.keeps_data {
            self.record_now();
        }
    }
}

/// Requests outside of all others; none has this number.
const ASKED_AT_ONCE: u64 = u64::MAX;
/// Above it an array is opened no more.
const EPOCH_NUMBER_MAX: u32 = u32::MAX - 1_000_000;

/// The lowest `count` bits.
const fn bits_below(count: u8) -> u32 {
    (1_u32 << count) - 1
}
