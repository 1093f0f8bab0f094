//! What log records say, and their bytes: ARIES records (Mohan et al., TODS 1992), with all page
//! changes of an action in one of them (`docs/decisions/007-storage-engine.md`).
//!
//! ```text
//!   action        0x10 │ transaction │ previous │ change bytes u32 │ changes │ undo: the rest
//!   compensation  0x11 │ transaction │ previous │ undo next │ change bytes u32 │ changes
//!   commit 0x12, abort 0x13, end 0x14 │ transaction │ previous
//!   begin checkpoint 0x15
//!   end checkpoint 0x16 │ begin │ last part 0/1 │ n │ n × (id, status, last, undo next)
//!                       │ m │ m × (file, page, LSN)
//!   pages durable 0x17 │ write
//!   change        file │ page │ code u8 │ operand │ length │ first │ length │ second
//! ```
//!
//! 1. Integers are LEB128 varints unless they say otherwise; fixed ones are little endian.
//! 2. [`decode_record`] takes any bytes. It checks all of them once, so that what it lends can be
//!    walked without errors; it allocates nothing, unless it refuses.
//! 3. What [`RecordBuilder`] makes, [`decode_record`] accepts, and gives back the same.

use super::varint::{Cursor, put_length_prefixed, put_varint};
use crate::{FileId, Lsn, PageAddress, PageOperation, StorageError};

const ACTION: u8 = 0x10;
const COMPENSATION: u8 = 0x11;
const COMMIT: u8 = 0x12;
const ABORT: u8 = 0x13;
const END: u8 = 0x14;
const BEGIN_CHECKPOINT: u8 = 0x15;
const END_CHECKPOINT: u8 = 0x16;
const PAGES_DURABLE: u8 = 0x17;

/// A record of the log, borrowed from the bytes it was decoded from. `previous` is the
/// transaction's record before this one, `Lsn(0)` where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRecord<'a> {
    /// All page changes of one action, and how to undo it.
    Action {
        /// The transaction that made the changes.
        transaction: u64,
        /// The transaction's record before.
        previous: Lsn,
        /// What it did to which pages, in order.
        changes: Changes<'a>,
        /// The structure's own words for undoing it; empty if there is nothing to undo.
        undo: &'a [u8],
    },
    /// The undoing of an action; never undone itself.
    Compensation {
        /// The transaction that is rolled back.
        transaction: u64,
        /// The transaction's record before.
        previous: Lsn,
        /// The next record that is to be undone.
        undo_next: Lsn,
        /// What it did to which pages, in order.
        changes: Changes<'a>,
    },
    /// The transaction is committed.
    Commit {
        /// The number of the transaction.
        transaction: u64,
        /// The transaction's record before this one.
        previous: Lsn,
    },
    /// The transaction is going to be rolled back.
    Abort {
        /// The number of the transaction.
        transaction: u64,
        /// The transaction's record before this one.
        previous: Lsn,
    },
    /// Nothing is left to do for the transaction.
    End {
        /// The number of the transaction.
        transaction: u64,
        /// The transaction's record before this one.
        previous: Lsn,
    },
    /// A fuzzy checkpoint begins.
    BeginCheckpoint,
    /// A part of what a fuzzy checkpoint found; complete with its last part.
    EndCheckpoint(CheckpointPart<'a>),
    /// Pages are durable that no record holds, and later ones refer to.
    PagesDurable {
        /// The propagation's last write by then: see [`crate::propagation::Propagation::last_write`].
        written: u64,
    },
}

impl LogRecord<'_> {
    /// What it is, for messages.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Action { transaction, .. } => format!("an action of transaction {transaction}"),
            Self::Compensation { transaction, .. } => {
                format!("the undoing of an action of transaction {transaction}")
            }
            Self::Commit { transaction, .. } => format!("the commit of transaction {transaction}"),
            Self::Abort { transaction, .. } => {
                format!("the beginning of the rollback of transaction {transaction}")
            }
            Self::End { transaction, .. } => format!("the end of transaction {transaction}"),
            Self::BeginCheckpoint => "the beginning of a checkpoint".to_owned(),
            Self::EndCheckpoint(_) => "the end of a checkpoint".to_owned(),
            Self::PagesDurable { .. } => "word of pages that are durable".to_owned(),
        }
    }
}

/// The page changes of a record, checked when it was decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Changes<'a> {
    bytes: &'a [u8],
}

/// A part of a checkpoint's tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CheckpointPart<'a> {
    /// The record that began the checkpoint.
    pub begin: Lsn,
    /// Whether no other part follows.
    pub is_last: bool,
    transactions: &'a [u8],
    dirty_pages: &'a [u8],
}

/// What became of a transaction by the time of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TransactionStatus {
    /// It is running and may make more changes.
    Active = 0,
    /// Its commit record is written, its end record is not.
    Committed = 1,
    /// It is being rolled back.
    RollingBack = 2,
}

/// A line of a checkpoint's transaction table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionEntry {
    /// The number of the transaction.
    pub id: u64,
    /// How far the transaction is.
    pub status: TransactionStatus,
    /// Its latest record.
    pub last: Lsn,
    /// The next record that a rollback has to undo.
    pub undo_next: Lsn,
}

/// A line of a checkpoint's dirty-page table: a page, and the first record that may not have reached
/// the device.
pub type DirtyPageEntry = (PageAddress, Lsn);

/// The bytes of a whole record, ready for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedRecord<'a>(&'a [u8]);

/// Makes records in a buffer that it uses again and again.
#[derive(Clone, Debug, Default)]
pub struct RecordBuilder {
    bytes: Vec<u8>,
    /// Where the byte count of the open record's changes stands.
    change_bytes_at: Option<usize>,
    is_compensation: bool,
}

impl<'a> EncodedRecord<'a> {
    /// The bytes that [`decode_record`] takes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl RecordBuilder {
    /// A builder that holds no record yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the record of an action. One that was begun before is forgotten.
    pub fn begin_action(&mut self, transaction: u64, previous: Lsn) {
        self.begin(ACTION, transaction, previous);
        self.open_changes(false);
    }

    /// Begins the record of an undo. One that was begun before is forgotten.
    pub fn begin_compensation(&mut self, transaction: u64, previous: Lsn, undo_next: Lsn) {
        self.begin(COMPENSATION, transaction, previous);
        put_varint(&mut self.bytes, undo_next.0);
        self.open_changes(true);
    }

    /// Adds a change to the open record.
    ///
    /// # Panics
    /// If no record was begun, or the page is number 0.
    pub fn add_change(&mut self, address: PageAddress, operation: &PageOperation<'_>) {
        assert!(self.change_bytes_at.is_some(), "changes belong to a record that was begun");
        assert!(address.page > 0, "pages are counted from 1");
        put_varint(&mut self.bytes, u64::from(address.file.0));
        put_varint(&mut self.bytes, u64::from(address.page));
        self.bytes.push(operation.code);
        put_varint(&mut self.bytes, u64::from(operation.operand));
        put_length_prefixed(&mut self.bytes, operation.first);
        put_length_prefixed(&mut self.bytes, operation.second);
    }

    /// How long the open record is so far, in bytes.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// Ends the open record. A compensation has no `undo`.
    ///
    /// # Panics
    /// If no record was begun, its changes pass 4 GiB, or a compensation brings an undo.
    pub fn finish(&mut self, undo: &[u8]) -> EncodedRecord<'_> {
        let at = self.change_bytes_at.take().expect("only a record that was begun can end");
        assert!(!self.is_compensation || undo.is_empty(), "a compensation is never undone");
        let change_bytes = nandu_base::to_u32((self.bytes.len() - at - 4) as u64);
        self.bytes[at..at + 4].copy_from_slice(&change_bytes.to_le_bytes());
        self.bytes.extend_from_slice(undo);
        EncodedRecord(&self.bytes)
    }

    /// The record of a transaction that commits.
    pub fn commit(&mut self, transaction: u64, previous: Lsn) -> EncodedRecord<'_> {
        self.begin(COMMIT, transaction, previous)
    }

    /// The record of a transaction that is given up.
    pub fn abort(&mut self, transaction: u64, previous: Lsn) -> EncodedRecord<'_> {
        self.begin(ABORT, transaction, previous)
    }

    /// The record of a transaction that is over.
    pub fn end(&mut self, transaction: u64, previous: Lsn) -> EncodedRecord<'_> {
        self.begin(END, transaction, previous)
    }

    /// The first record of a checkpoint.
    pub fn begin_checkpoint(&mut self) -> EncodedRecord<'_> {
        self.start(BEGIN_CHECKPOINT);
        EncodedRecord(&self.bytes)
    }

    /// A part of the tables of the checkpoint that began at `begin`.
    pub fn end_checkpoint(
        &mut self,
        begin: Lsn,
        is_last: bool,
        transactions: &[TransactionEntry],
        dirty_pages: &[DirtyPageEntry],
    ) -> EncodedRecord<'_> {
        self.start(END_CHECKPOINT);
        put_varint(&mut self.bytes, begin.0);
        self.bytes.push(u8::from(is_last));
        put_varint(&mut self.bytes, transactions.len() as u64);
        for entry in transactions {
            put_varint(&mut self.bytes, entry.id);
            self.bytes.push(entry.status as u8);
            put_varint(&mut self.bytes, entry.last.0);
            put_varint(&mut self.bytes, entry.undo_next.0);
        }
        put_varint(&mut self.bytes, dirty_pages.len() as u64);
        for (address, lsn) in dirty_pages {
            put_varint(&mut self.bytes, u64::from(address.file.0));
            put_varint(&mut self.bytes, u64::from(address.page));
            put_varint(&mut self.bytes, lsn.0);
        }
        EncodedRecord(&self.bytes)
    }

    /// The record that says that all writes of pages up to this one are durable.
    pub fn pages_durable(&mut self, written: u64) -> EncodedRecord<'_> {
        self.start(PAGES_DURABLE);
        put_varint(&mut self.bytes, written);
        EncodedRecord(&self.bytes)
    }

    fn start(&mut self, kind: u8) {
        self.bytes.clear();
        self.bytes.push(kind);
        self.change_bytes_at = None;
    }

    fn begin(&mut self, kind: u8, transaction: u64, previous: Lsn) -> EncodedRecord<'_> {
        self.start(kind);
        put_varint(&mut self.bytes, transaction);
        put_varint(&mut self.bytes, previous.0);
        EncodedRecord(&self.bytes)
    }

    fn open_changes(&mut self, is_compensation: bool) {
        self.change_bytes_at = Some(self.bytes.len());
        self.is_compensation = is_compensation;
        self.bytes.extend_from_slice(&[0; 4]);
    }
}

/// Takes a record apart. Any bytes will do.
///
/// # Errors
/// If they are not a record, saying which rule they break.
pub fn decode_record(bytes: &[u8]) -> Result<LogRecord<'_>, StorageError> {
    decode(bytes).map_err(|what| {
        let place = "a log record".to_owned();
        StorageError::Corrupt { place, what: what.to_owned() }
    })
}

/// Takes the record at `lsn` apart, and checks that what it refers to lies before it, so that
/// whoever follows records backwards arrives.
pub(super) fn decode_record_at(lsn: Lsn, bytes: &[u8]) -> Result<LogRecord<'_>, StorageError> {
    let record = decode_record(bytes)?;
    let latest = match record {
        LogRecord::Action { previous, .. }
        | LogRecord::Commit { previous, .. }
        | LogRecord::Abort { previous, .. }
        | LogRecord::End { previous, .. } => previous,
        LogRecord::Compensation { previous, undo_next, .. } => previous.max(undo_next),
        LogRecord::BeginCheckpoint | LogRecord::PagesDurable { .. } => Lsn(0),
        LogRecord::EndCheckpoint(part) => part.begin,
    };
    if latest < lsn {
        return Ok(record);
    }
    let place = format!("the log record at LSN {}", lsn.0);
    let what = format!("it refers to LSN {}, which comes later", latest.0);
    Err(StorageError::Corrupt { place, what })
}

fn decode(bytes: &[u8]) -> Result<LogRecord<'_>, &'static str> {
    const SHORT: &str = "it ends too early";
    let mut cursor = Cursor::new(bytes);
    let kind = cursor.byte().ok_or(SHORT)?;
    let (transaction, previous) = match kind {
        ACTION..=END => (cursor.varint().ok_or(SHORT)?, Lsn(cursor.varint().ok_or("a bad LSN")?)),
        _ => (0, Lsn(0)),
    };
    let record = match kind {
        ACTION => {
            let changes = take_changes(&mut cursor)?;
            LogRecord::Action { transaction, previous, changes, undo: cursor.take_rest() }
        }
        COMPENSATION => {
            let undo_next = Lsn(cursor.varint().ok_or("a bad LSN")?);
            let changes = take_changes(&mut cursor)?;
            LogRecord::Compensation { transaction, previous, undo_next, changes }
        }
        COMMIT => LogRecord::Commit { transaction, previous },
        ABORT => LogRecord::Abort { transaction, previous },
        END => LogRecord::End { transaction, previous },
        BEGIN_CHECKPOINT => LogRecord::BeginCheckpoint,
        END_CHECKPOINT => LogRecord::EndCheckpoint(take_checkpoint(&mut cursor)?),
        PAGES_DURABLE => LogRecord::PagesDurable { written: cursor.varint().ok_or(SHORT)? },
        _ => return Err("its kind is unknown"),
    };
    match cursor.is_empty() {
        true => Ok(record),
        false => Err("bytes are left over"),
    }
}

fn take_changes<'a>(cursor: &mut Cursor<'a>) -> Result<Changes<'a>, &'static str> {
    let length = cursor.u32_le().ok_or("it ends too early")?;
    let bytes = cursor.take(u64::from(length)).ok_or("its changes pass its end")?;
    let mut walk = Cursor::new(bytes);
    while !walk.is_empty() {
        take_change(&mut walk).ok_or("one of its changes makes no sense")?;
    }
    Ok(Changes { bytes })
}

fn take_change<'a>(cursor: &mut Cursor<'a>) -> Option<(PageAddress, PageOperation<'a>)> {
    let address = take_address(cursor)?;
    let code = cursor.byte()?;
    let operand = u32::try_from(cursor.varint()?).ok()?;
    let first = cursor.length_prefixed()?;
    let second = cursor.length_prefixed()?;
    Some((address, PageOperation { code, operand, first, second }))
}

fn take_address(cursor: &mut Cursor<'_>) -> Option<PageAddress> {
    let file = FileId(u16::try_from(cursor.varint()?).ok()?);
    let page = u32::try_from(cursor.varint()?).ok().filter(|&page| page > 0)?;
    Some(PageAddress::new(file, page))
}

fn take_checkpoint<'a>(cursor: &mut Cursor<'a>) -> Result<CheckpointPart<'a>, &'static str> {
    let begin = Lsn(cursor.varint().ok_or("a bad LSN")?);
    let is_last = match cursor.byte() {
        Some(0) => false,
        Some(1) => true,
        _ => return Err("it is neither the last part nor another"),
    };
    let transactions =
        take_table(cursor, |walk| take_transaction(walk).map(drop)).ok_or("a bad transaction")?;
    let dirty_pages =
        take_table(cursor, |walk| take_dirty_page(walk).map(drop)).ok_or("a bad dirty page")?;
    Ok(CheckpointPart { begin, is_last, transactions, dirty_pages })
}

/// The bytes of as many entries as the count before them says. Each entry has bytes, so that a
/// count out of all proportion ends with them.
fn take_table<'a>(
    cursor: &mut Cursor<'a>,
    take_entry: impl Fn(&mut Cursor<'a>) -> Option<()>,
) -> Option<&'a [u8]> {
    let count = cursor.varint()?;
    let table = *cursor;
    for _ in 0..count {
        take_entry(cursor)?;
    }
    table.until(cursor)
}

fn take_transaction(cursor: &mut Cursor<'_>) -> Option<TransactionEntry> {
    let id = cursor.varint()?;
    let status = match cursor.byte()? {
        0 => TransactionStatus::Active,
        1 => TransactionStatus::Committed,
        2 => TransactionStatus::RollingBack,
        _ => return None,
    };
    let (last, undo_next) = (Lsn(cursor.varint()?), Lsn(cursor.varint()?));
    Some(TransactionEntry { id, status, last, undo_next })
}

fn take_dirty_page(cursor: &mut Cursor<'_>) -> Option<DirtyPageEntry> {
    Some((take_address(cursor)?, Lsn(cursor.varint()?)))
}

impl<'a> Changes<'a> {
    /// Changes of no bytes at all.
    #[must_use]
    pub const fn none() -> Self {
        Self { bytes: &[] }
    }

    /// The changes in the order in which they were made.
    pub fn iter(&self) -> impl Iterator<Item = (PageAddress, PageOperation<'a>)> + use<'a> {
        let mut walk = Cursor::new(self.bytes);
        std::iter::from_fn(move || take_change(&mut walk))
    }
}

impl std::fmt::Debug for Changes<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> CheckpointPart<'a> {
    /// The transactions that had not ended.
    pub fn transactions(&self) -> impl Iterator<Item = TransactionEntry> + use<'a> {
        let mut walk = Cursor::new(self.transactions);
        std::iter::from_fn(move || take_transaction(&mut walk))
    }

    /// The pages that were dirty.
    pub fn dirty_pages(&self) -> impl Iterator<Item = DirtyPageEntry> + use<'a> {
        let mut walk = Cursor::new(self.dirty_pages);
        std::iter::from_fn(move || take_dirty_page(&mut walk))
    }
}

impl std::fmt::Debug for CheckpointPart<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "begin {:?}, last {}, ", self.begin, self.is_last)?;
        formatter.debug_list().entries(self.transactions()).finish()?;
        formatter.debug_list().entries(self.dirty_pages()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Change = (u16, u32, u8, u32, Vec<u8>, Vec<u8>);

    fn change() -> impl Strategy<Value = Change> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        (any::<u16>(), 1_u32.., any::<u8>(), any::<u32>(), bytes(), bytes())
    }

    fn add(builder: &mut RecordBuilder, changes: &[Change]) {
        for (file, page, code, operand, first, second) in changes {
            let operation = PageOperation { code: *code, operand: *operand, first, second };
            builder.add_change(PageAddress::new(FileId(*file), *page), &operation);
        }
    }

    fn is_same(found: Changes<'_>, changes: &[Change]) -> bool {
        let operation = |(file, page, code, operand, first, second): &Change| {
            let address = PageAddress::new(FileId(*file), *page);
            let (code, operand) = (*code, *operand);
            (address, code, operand, first.clone(), second.clone())
        };
        let plain = |(address, operation): (PageAddress, PageOperation<'_>)| {
            let PageOperation { code, operand, first, second } = operation;
            (address, code, operand, first.to_vec(), second.to_vec())
        };
        found.iter().map(plain).eq(changes.iter().map(operation))
    }

    fn entry() -> impl Strategy<Value = TransactionEntry> {
        let status = prop_oneof![
            Just(TransactionStatus::Active),
            Just(TransactionStatus::Committed),
            Just(TransactionStatus::RollingBack)
        ];
        (any::<u64>(), status, any::<u64>(), any::<u64>()).prop_map(|(id, status, last, next)| {
            TransactionEntry { id, status, last: Lsn(last), undo_next: Lsn(next) }
        })
    }

    fn dirty_page() -> impl Strategy<Value = DirtyPageEntry> {
        (any::<u16>(), 1_u32.., any::<u64>())
            .prop_map(|(file, page, lsn)| (PageAddress::new(FileId(file), page), Lsn(lsn)))
    }

    /// A walk over everything that a record lends must end, and must not panic.
    fn walk(record: LogRecord<'_>) -> usize {
        match record {
            LogRecord::Action { changes, .. } | LogRecord::Compensation { changes, .. } => {
                changes.iter().count()
            }
            LogRecord::EndCheckpoint(part) => {
                part.transactions().count() + part.dirty_pages().count()
            }
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn actions_and_compensations_come_back(
            transaction in any::<u64>(), previous in any::<u64>(), next in any::<u64>(),
            changes in proptest::collection::vec(change(), 0..6),
            undo in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut builder = RecordBuilder::new();
            builder.begin_action(transaction, Lsn(previous));
            add(&mut builder, &changes);
            let record = builder.finish(&undo);
            match decode_record(record.as_bytes()).unwrap() {
                LogRecord::Action { transaction: t, previous: p, changes: c, undo: u } => {
                    prop_assert_eq!((t, p, u), (transaction, Lsn(previous), &undo[..]));
                    prop_assert!(is_same(c, &changes));
                }
                other => prop_assert!(false, "{other:?}"),
            }
            builder.begin_compensation(transaction, Lsn(previous), Lsn(next));
            add(&mut builder, &changes);
            match decode_record(builder.finish(&[]).as_bytes()).unwrap() {
                LogRecord::Compensation { transaction: t, previous: p, undo_next, changes: c } => {
                    prop_assert_eq!((t, p, undo_next), (transaction, Lsn(previous), Lsn(next)));
                    prop_assert!(is_same(c, &changes));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }

        #[test]
        fn checkpoints_come_back(
            begin in any::<u64>(), is_last in any::<bool>(),
            transactions in proptest::collection::vec(entry(), 0..5),
            pages in proptest::collection::vec(dirty_page(), 0..20),
        ) {
            let mut builder = RecordBuilder::new();
            let record = builder.end_checkpoint(Lsn(begin), is_last, &transactions, &pages);
            let LogRecord::EndCheckpoint(part) = decode_record(record.as_bytes()).unwrap() else {
                panic!("a part of a checkpoint comes back as one")
            };
            prop_assert_eq!((part.begin, part.is_last), (Lsn(begin), is_last));
            prop_assert!(part.transactions().eq(transactions.iter().copied()));
            prop_assert!(part.dirty_pages().eq(pages.iter().copied()));
        }

        #[test]
        fn any_bytes_are_refused_or_walked(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            decode_record(&bytes).map(walk).ok();
        }

        #[test]
        fn damaged_records_are_refused_or_walked(
            changes in proptest::collection::vec(change(), 1..4),
            pages in proptest::collection::vec(dirty_page(), 1..9),
            at in any::<proptest::sample::Index>(), value in any::<u8>(),
            length in any::<proptest::sample::Index>(),
        ) {
            let mut builder = RecordBuilder::new();
            builder.begin_action(1, Lsn(2));
            add(&mut builder, &changes);
            let mut bytes = builder.finish(b"undo").as_bytes().to_vec();
            let whole = bytes.clone();
            *at.get_mut(&mut bytes) = value;
            decode_record(&bytes).map(walk).ok();
            decode_record(&whole[..length.index(whole.len())]).map(walk).ok();
            let mut bytes =
                builder.end_checkpoint(Lsn(5), false, &[], &pages).as_bytes().to_vec();
            *at.get_mut(&mut bytes) = value;
            prop_assert!(decode_record(&bytes).map_or(0, walk) <= bytes.len());
        }
    }

    #[test]
    fn the_short_records_come_back() {
        let (transaction, previous) = (300, Lsn(70_000));
        let mut builder = RecordBuilder::new();
        let commit = LogRecord::Commit { transaction, previous };
        assert_eq!(decode_record(builder.commit(300, previous).as_bytes()), Ok(commit));
        let abort = LogRecord::Abort { transaction, previous };
        assert_eq!(decode_record(builder.abort(300, previous).as_bytes()), Ok(abort));
        let end = LogRecord::End { transaction, previous };
        assert_eq!(decode_record(builder.end(300, previous).as_bytes()), Ok(end));
        let begin = builder.begin_checkpoint();
        assert_eq!(decode_record(begin.as_bytes()), Ok(LogRecord::BeginCheckpoint));
        let durable = LogRecord::PagesDurable { written: 90_000 };
        assert_eq!(decode_record(builder.pages_durable(90_000).as_bytes()), Ok(durable));
    }

    #[test]
    fn left_over_bytes_and_unknown_kinds_are_refused() {
        let mut builder = RecordBuilder::new();
        let mut bytes = builder.commit(1, Lsn(2)).as_bytes().to_vec();
        bytes.push(0);
        for bad in [&bytes[..], &[], &[0x00, 0], &[0x01], &[0x17], &[0x18]] {
            assert!(matches!(decode_record(bad), Err(StorageError::Corrupt { .. })), "{bad:?}");
        }
    }
}
