//! What each member says of its array: who is current, since which epoch.
//!
//! ```text
//!   member   │ slots …                                    │ record, even │ record, odd │
//!                                                           the last two sectors, one for each
//!                                                           parity of the epoch's number
//!   record   │ CRC32C │ magic │ shape, member │ created │ complete │ epoch │ those before it … │ *
//!                                               * members from 16 on, two bytes for each epoch
//!
//!   5 {0 1 2} ──► 6 {0 1 2} ──► 7 {0 1}          2 failed; a flush was answered in epoch 7
//!                      └──────► 7 {1 2}          0 was away and came back: it went on alone
//! ```
//!
//! An epoch begins when the array is opened, when a member that failed is no longer current, and when
//! one that was rebuilt is again. Its members are recorded before anything follows from it: before the
//! first write of a session, and before a flush that a member missed is answered.
//!
//! 1. An epoch is complete when all members that were present have its record. Nothing is written in
//!    one that is not, so one that never came about does no harm.
//! 2. A current member has all that was flushed. It has the record of an epoch that is no older than
//!    the last that was known to be complete, and is named as current by the newest.
//! 3. Two lines of epochs that do not contain each other, and may both have been written in, are an
//!    error: no choice between them is right.
//! 4. A device without a record is no member: what lies on it, zeros above all, is never data.

use crate::Layout;
use nandu_device::IoBuffer;
use nandu_ida::checksum;

/// Sectors at the end of each member that are kept for its record.
pub(crate) const RECORD_SECTOR_COUNT: u64 = 2;
const MAGIC: [u8; 4] = *b"nare";
const FORMAT_VERSION: u8 = 1;
const CHECKSUM_BYTES: usize = 4;
/// Bytes before the epochs, and of each.
const HEAD_BYTES: usize = 32;
const EPOCH_BYTES: usize = 8;
/// Epochs that a record remembers, its own included.
const EPOCH_COUNT_MAX: usize = 32;
/// Where the members from 16 on of each epoch stand: zeros for arrays that have none.
const HIGH_AT: usize = HEAD_BYTES + EPOCH_COUNT_MAX * EPOCH_BYTES;
const HIGH_BYTES: usize = 2;
const RECORD_BYTES: usize = HIGH_AT + EPOCH_COUNT_MAX * HIGH_BYTES;

/// One step of the members' history. Numbers grow along a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) number: u32,
    /// Members that were written to, as bits.
    pub(super) present: u32,
    /// Members that have all that was flushed, as bits.
    pub(super) current: u32,
}

impl Epoch {
    /// Whether a flush may have been answered in it: not while too few of the current members were
    /// present, who then stay current without the others.
    const fn has_quorum(self) -> bool {
        self.current & !self.present == 0
    }
}

/// Of what kind of array a member is: what all members have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordShape {
    pub(super) layout: Layout,
    pub(super) fragment_sector_count: u32,
    /// Whether its map was in memory only ([`crate::AdaptiveConfig`]).
    pub(super) follows_load: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) shape: RecordShape,
    /// The number of the member that has it.
    pub(super) member: u8,
    /// The epoch in which the array was made.
    pub(super) created: u32,
    /// The last epoch that was known to be complete and had a quorum.
    pub(super) complete: u32,
    /// Which of the epochs were known to be so, as bits.
    complete_bits: u32,
    /// The newest first; 1 to [`EPOCH_COUNT_MAX`].
    pub(super) epochs: Vec<Epoch>,
}

/// Where the record of epoch `number` lies on a member of `sector_count`.
pub(super) const fn record_sector(sector_count: u64, number: u32) -> u64 {
    sector_count - RECORD_SECTOR_COUNT + number as u64 % RECORD_SECTOR_COUNT
}

impl Record {
    /// A record of the first epoch of an array.
    pub(super) fn new(shape: RecordShape, epoch: Epoch) -> Self {
        let Epoch { number, .. } = epoch;
        let (member, complete_bits, epochs) = (0, 0, vec![epoch]);
        Self { shape, member, created: number, complete: number, complete_bits, epochs }
    }

    pub(super) fn newest(&self) -> Epoch {
        self.epochs[0]
    }

    /// Begins `epoch`, knowing whether the one before it was complete.
    pub(super) fn begin(&mut self, epoch: Epoch, was_complete: bool) {
        if was_complete && self.newest().has_quorum() {
            self.complete = self.newest().number;
            self.complete_bits |= 1;
        }
        self.complete_bits <<= 1;
        self.epochs.insert(0, epoch);
        self.epochs.truncate(EPOCH_COUNT_MAX);
    }

    pub(super) fn to_sector(&self, member: usize, sector_bytes: usize) -> IoBuffer {
        let mut sector = IoBuffer::zeroed(sector_bytes);
        let layout = self.shape.layout;
        sector[4..8].copy_from_slice(&MAGIC);
        sector[8] = FORMAT_VERSION;
        sector[9] = u8::from(self.shape.follows_load);
        sector[10] = layout.member_count();
        sector[11] = layout.needed_count();
        sector[12] = layout.written_count();
        sector[13] = u8::try_from(member).expect("an array has at most 24 members");
        sector[14] = u8::try_from(self.epochs.len()).expect("a record remembers few epochs");
        sector[16..20].copy_from_slice(&self.shape.fragment_sector_count.to_le_bytes());
        sector[20..24].copy_from_slice(&self.created.to_le_bytes());
        sector[24..28].copy_from_slice(&self.complete.to_le_bytes());
        sector[28..32].copy_from_slice(&self.complete_bits.to_le_bytes());
        for (epoch, to) in self.epochs.iter().zip(sector[HEAD_BYTES..].chunks_mut(EPOCH_BYTES)) {
            to[..4].copy_from_slice(&epoch.number.to_le_bytes());
            to[4..6].copy_from_slice(&epoch.present.to_le_bytes()[..2]);
            to[6..8].copy_from_slice(&epoch.current.to_le_bytes()[..2]);
        }
        let high = sector.get_mut(HIGH_AT..).unwrap_or_default().chunks_mut(HIGH_BYTES);
        for (epoch, to) in self.epochs.iter().zip(high) {
            (to[0], to[1]) = (epoch.present.to_le_bytes()[2], epoch.current.to_le_bytes()[2]);
        }
        let sum = checksum(&sector[CHECKSUM_BYTES..]);
        sector[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        sector
    }

    /// What `sector` says, if it is an intact record.
    pub(super) fn from_sector(sector: &[u8]) -> Option<Self> {
        let is_record = sector.len() >= RECORD_BYTES
            && sector[..CHECKSUM_BYTES] == checksum(&sector[CHECKSUM_BYTES..]).to_le_bytes()
            && sector[4..8] == MAGIC
            && sector[8] == FORMAT_VERSION;
        if !is_record {
            return None;
        }
        let word = |at: usize| sector[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let bits = |low: usize, high: usize| {
            u32::from_le_bytes([sector[low], sector[low + 1], sector[high], 0])
        };
        let layout = Layout::new(sector[10], sector[11], sector[12]).ok()?;
        let epoch = |index: usize| {
            let (at, high) = (HEAD_BYTES + index * EPOCH_BYTES, HIGH_AT + index * HIGH_BYTES);
            let (present, current) = (bits(at + 4, high), bits(at + 6, high + 1));
            Some(Epoch { number: word(at)?, present, current })
        };
        let count = usize::from(sector[14]);
        let epochs: Option<Vec<Epoch>> = (0..count.min(EPOCH_COUNT_MAX)).map(epoch).collect();
        let epochs = epochs.filter(|epochs| !epochs.is_empty() && epochs.len() == count)?;
        // Epochs stand from the newest to the oldest. A number of 2^32 - 1 is damage: no array
        // lives through so many epochs.
        let falls = epochs.windows(2).all(|pair| pair[0].number > pair[1].number);
        if !falls || epochs[0].number == u32::MAX || sector[13] >= layout.member_count() {
            return None;
        }
        let follows_load = sector[9] != 0;
        let shape = RecordShape { layout, fragment_sector_count: word(16)?, follows_load };
        let (member, created, complete) = (sector[13], word(20)?, word(24)?);
        let complete_bits = word(28)?;
        Some(Self { shape, member, created, complete, complete_bits, epochs })
    }

    fn has(&self, epoch: Epoch) -> bool {
        self.epochs.contains(&epoch)
    }

    /// The members that were current in the first epoch of its line that `other` does not have and that
    /// is known to be complete, as bits.
    fn went_on(&self, other: &Self) -> u32 {
        let apart = self.epochs.iter().zip(0_u32..).take_while(|(epoch, _)| !other.has(**epoch));
        let complete = apart.filter(|(_, index)| self.complete_bits & 1 << index != 0);
        complete.last().map_or(0, |(epoch, _)| epoch.current)
    }

    /// Whether it would know `epoch` if it had been in it.
    fn reaches_back_to(&self, epoch: Epoch) -> bool {
        self.epochs.len() < EPOCH_COUNT_MAX
            || self.epochs.last().is_some_and(|last| last.number <= epoch.number)
    }
}

/// What the records of all members say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// The newest record, whose line is followed.
    pub(super) record: Record,
    /// Whether all that were present are known to have it.
    pub(super) is_complete: bool,
    /// Members that are current, as bits.
    pub(super) current: u32,
    /// The greatest number of an epoch that any record has.
    pub(super) number: u32,
}

/// Follows the newest line of epochs that no other contradicts: invariants 1 to 3.
///
/// # Errors
/// If there is none, two members that went on without each other.
pub(super) fn judge(records: &[Option<Record>]) -> Result<Option<Judgement>, (usize, usize)> {
    let mut newest: Vec<(usize, &Record)> =
        records.iter().enumerate().filter_map(|(index, it)| Some((index, it.as_ref()?))).collect();
    newest.sort_by_key(|(_, record)| std::cmp::Reverse(record.newest().number));
    let mut contradiction = None;
    for &(index, record) in &newest {
        let against = newest.iter().find(|(_, other)| contradicts(other, record, records));
        let Some((other, _)) = against else { return Ok(Some(follow(record, records))) };
        contradiction.get_or_insert((index.min(*other), index.max(*other)));
    }
    contradiction.map_or(Ok(None), Err)
}

/// Whether something may have been written where `other` was and `record` was not.
fn contradicts(other: &Record, record: &Record, records: &[Option<Record>]) -> bool {
    if !record.reaches_back_to(other.newest()) {
        // The epochs that `record` still lists are all newer than those of `other`, so the two
        // cannot be compared; a member that far behind was left out long ago.
        return false;
    }
    // Who was in an epoch that came about on one line was in none on the other.
    let went_on = record.went_on(other);
    let apart = other.epochs.iter().take_while(|epoch| !record.has(**epoch));
    let mut apart_count = 0;
    for epoch in apart {
        apart_count += 1;
        let is_known = epoch.number <= other.complete;
        let is_dead = epoch.present & went_on != 0 || never_came_about(*epoch, records);
        if (is_known || !is_dead) && epoch.has_quorum() {
            return true;
        }
    }
    apart_count == other.epochs.len()
}

/// Whether a member that was present has no record of `epoch`: invariant 1.
fn never_came_about(epoch: Epoch, records: &[Option<Record>]) -> bool {
    let present = records.iter().enumerate().filter(|(index, _)| epoch.present & 1 << index != 0);
    present
        .filter_map(|(_, record)| record.as_ref())
        .any(|record| record.reaches_back_to(epoch) && !record.has(epoch))
}

fn follow(record: &Record, records: &[Option<Record>]) -> Judgement {
    let newest = record.newest();
    let members = || records.iter().enumerate();
    let known = |other: &Record| other.epochs.iter().find(|epoch| record.has(**epoch)).copied();
    // A new device may be the only one that knows that it is not the one that was current.
    let is_current = |index: usize, other: &Record| {
        newest.current & other.newest().current & 1 << index != 0
            && known(other).is_some_and(|epoch| epoch.number >= record.complete)
    };
    let current = members().filter_map(|(index, it)| Some((index, it.as_ref()?)));
    let current = current.filter(|(index, other)| is_current(*index, other));
    let current = current.fold(0, |bits, (index, _)| bits | 1 << index);
    let present = members().filter(|(index, _)| newest.present & 1 << index != 0);
    let is_complete = present
        .map(|(_, record)| record.as_ref())
        .all(|record| record.is_some_and(|record| record.has(newest)));
    let numbers = records.iter().flatten().map(|record| record.newest().number);
    let number = numbers.max().unwrap_or(0);
    Judgement { record: record.clone(), is_complete, current, number }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> RecordShape {
        let layout = Layout::new(3, 2, 3).unwrap();
        RecordShape { layout, fragment_sector_count: 8, follows_load: false }
    }

    /// A record of epochs given as number, present, current, the oldest first.
    fn record(complete: u32, epochs: &[(u32, u32, u32)]) -> Option<Record> {
        let epoch =
            |&(number, present, current): &(u32, u32, u32)| Epoch { number, present, current };
        let epochs: Vec<Epoch> = epochs.iter().rev().map(epoch).collect();
        let is_complete = |epoch: &Epoch| u32::from(epoch.number <= complete);
        let bits = epochs.iter().zip(0..).map(|(epoch, index)| is_complete(epoch) << index);
        let complete_bits = bits.fold(0, |bits, bit| bits | bit);
        Some(Record { shape: shape(), member: 0, created: 1, complete, complete_bits, epochs })
    }

    fn current(records: &[Option<Record>]) -> Result<(u32, u32), (usize, usize)> {
        judge(records).map(|judged| {
            let judged = judged.unwrap();
            (judged.record.newest().number, judged.current)
        })
    }

    const FIRST: (u32, u32, u32) = (1, 7, 7);

    #[test]
    fn a_record_comes_back_from_its_sector_and_damage_is_noticed() {
        let mut record = record(1, &[FIRST, (2, 7, 5)]).unwrap();
        for number in 3..100 {
            record.begin(Epoch { number, present: 7, current: 3 }, number % 2 == 0);
        }
        let sector = record.to_sector(2, 512);
        let read = Record::from_sector(&sector).unwrap();
        assert_eq!(read, Record { member: 2, ..record });
        for at in 0..sector.len() {
            let mut wrong = sector.to_vec();
            wrong[at] ^= 4;
            assert_eq!(Record::from_sector(&wrong), None, "byte {at}");
        }
        assert_eq!(Record::from_sector(&[0; 512]), None);
    }

    #[test]
    fn members_from_16_on_are_remembered_in_each_epoch() {
        let all = (1 << 24) - 1;
        let mut record = record(1, &[(1, all, all)]).unwrap();
        record.shape.layout = Layout::new(24, 1, 1).unwrap();
        record.begin(Epoch { number: 2, present: all, current: all & !(1 << 20) }, true);
        record.begin(Epoch { number: 3, present: 1 << 23, current: 1 << 15 }, true);
        let read = Record::from_sector(&record.to_sector(23, 512)).unwrap();
        assert_eq!(read, Record { member: 23, ..record });
    }

    #[test]
    fn a_member_that_missed_an_epoch_is_not_current() {
        let (old, new) = (record(1, &[FIRST]), record(1, &[FIRST, (2, 3, 3)]));
        assert_eq!(current(&[new.clone(), new.clone(), old.clone()]), Ok((2, 3)));
        assert_eq!(current(&[old.clone(), new, None]), Ok((2, 3)), "one copy of it is enough");
        assert_eq!(current(&[old, None, None]), Ok((1, 1)));
        assert_eq!(judge(&[None, None, None]), Ok(None));
    }

    #[test]
    fn an_epoch_that_never_came_about_takes_nobody_with_it() {
        let first = record(1, &[FIRST]);
        let (one, two) = (record(1, &[FIRST, (2, 3, 3)]), record(1, &[FIRST, (2, 6, 6)]));
        // Member 0 alone has heard of epoch 2 {0 1}; then 1 and 2 went on.
        assert_eq!(current(&[one.clone(), two.clone(), two.clone()]), Ok((2, 6)));
        // Members 1 and 2 went on, and 2 alone is left to say so.
        let later = record(2, &[FIRST, (2, 6, 6), (3, 4, 4)]);
        assert_eq!(current(&[one.clone(), None, later]), Ok((3, 4)));
        // Neither epoch 2 came about.
        assert_eq!(current(&[one, two, first]), Ok((2, 3)));
    }

    #[test]
    fn members_that_went_on_without_each_other_are_an_error() {
        let first = record(1, &[FIRST]);
        let (one, two) =
            (record(2, &[FIRST, (2, 1, 1)]), record(2, &[FIRST, (2, 2, 2), (3, 2, 2)]));
        assert_eq!(current(&[one.clone(), two, first.clone()]), Err((0, 1)));
        let foreign = record(4, &[(4, 7, 7)]);
        assert_eq!(current(&[one, foreign, None]), Err((0, 1)));
    }

    #[test]
    fn a_new_device_that_knows_that_it_is_new_is_not_current() {
        let old = record(1, &[FIRST]);
        let new = record(1, &[FIRST, (2, 7, 3)]);
        assert_eq!(current(&[old.clone(), old, new]), Ok((2, 3)));
    }

    #[test]
    fn a_member_that_was_taken_out_and_put_back_is_not_the_one_that_was_rebuilt() {
        // Member 2 was replaced in epoch 2 and became current in epoch 3; the old one comes back.
        let rebuilt = record(2, &[FIRST, (2, 7, 3), (3, 7, 7)]);
        assert_eq!(current(&[rebuilt.clone(), rebuilt.clone(), rebuilt.clone()]), Ok((3, 7)));
        assert_eq!(current(&[rebuilt.clone(), rebuilt, record(1, &[FIRST])]), Ok((3, 3)));
    }
}
