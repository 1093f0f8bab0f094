//! What a user may choose about a database, with defaults that hold for most.

use super::volumes::{create_file, find_file};
use crate::log::{Durability, LogConfig, LogWritingKind, check_buffer};
use crate::page::check_page_bytes;
use crate::pool::ReplacementKind;
use crate::propagation::{DoubleWriteFile, PropagationKind, PropagationSettings};
use crate::volume::{Io, IoOwner};
use crate::{FileId, StorageError};
use nandu_device::{IoBuffer, Operation};
use serde::{Deserialize, Serialize};

/// How pages that a power cut tore are made whole again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TornPages {
    /// The log holds the image of each page that changes for the first time after a checkpoint.
    LogImages,
    /// Pages are written twice: packed into a file of their own, then in place.
    #[default]
    DoubleWrite,
    /// The device writes a page as a whole or not at all.
    Trust,
}

/// The settings of a database. Page size, propagation with its size of segments, what is done about
/// torn pages, and log size are fixed when it is created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Bytes of a page, a power of two from 512 to 65,536.
    pub page_bytes: u32,
    /// Memory of the buffer pool.
    pub pool_bytes: u64,
    /// Which page leaves the pool for another.
    pub replacement: ReplacementKind,
    /// How changed pages are placed: the key `propagation`, and one for each kind that has settings.
    #[serde(flatten)]
    pub propagation: PropagationSettings,
    /// What is done about torn pages.
    pub torn_pages: TornPages,
    /// Bytes of a lap of the double write, after which what is in place is synced and the file of copies
    /// is used from its start again; at least two pages. Half a pool from 32 KiB to 4 MiB if not given.
    pub double_write_bytes: Option<u64>,
    /// What a commit waits for.
    pub durability: Durability,
    /// How long a commit that is to be durable waits for others to commit, too, on the devices' clock, so
    /// that one flush serves all; 0 for not at all, a minute at most. Whoever writes alone waits in vain.
    pub commit_delay_ns: u64,
    /// How many commits that wait so for the same flush are a whole group, which waits no longer; 0 for none. It
    /// is of collected records, and chosen at each opening.
    pub commit_group_count: u32,
    /// Capacity of the log, at least [`Self::log_bytes_min`]. It bounds a transaction: what that logs, and
    /// room to take it back, have to fit into seven eighths of it.
    pub log_bytes: u64,
    /// Log between two checkpoints; a restart reads at most about twice as much.
    pub checkpoint_bytes: u64,
    /// Bytes of log that are collected in memory before they are flushed unasked, from 4096 to 64 MiB; two such
    /// buffers take turns.
    pub log_buffer_bytes: u32,
    /// How records get to the device of the log.
    pub log_writing: LogWritingKind,
    /// Memory, beside the pool, for earlier versions of pages: what snapshots see that are older than a
    /// change. Past it the oldest snapshot that needs one gets [`StorageError::SnapshotTooOld`].
    pub version_bytes: u64,
    /// How long a transaction waits for a row that another has locked before it gives up, on the devices'
    /// clock.
    pub lock_timeout_ns: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            page_bytes: 4096,
            pool_bytes: 64 << 20,
            replacement: ReplacementKind::default(),
            propagation: PropagationSettings::default(),
            torn_pages: TornPages::default(),
            double_write_bytes: None,
            durability: Durability::default(),
            commit_delay_ns: 0,
            commit_group_count: 0,
            log_bytes: 64 << 20,
            checkpoint_bytes: 16 << 20,
            log_buffer_bytes: LogConfig::default().buffer_bytes,
            log_writing: LogWritingKind::default(),
            version_bytes: 64 << 20,
            lock_timeout_ns: 10_000_000_000,
        }
    }
}

/// The longest that a commit waits for others.
const COMMIT_DELAY_NS_MAX: u64 = 60_000_000_000;
/// A lap of the double write is no longer than this, on any device.
const DOUBLE_WRITE_BYTES_MAX: u64 = 1 << 40;

/// Bounds of the double write's file.
const LAP_BYTES_MIN: u64 = 32 << 10;
const LAP_BYTES_MAX: u64 = 4 << 20;

/// Fewest frames that the pool may have: an action pins the path of a split.
const FRAME_COUNT_MIN: u64 = 32;

/// Log between two checkpoints, in pages, at least.
const CHECKPOINT_PAGES_MIN: u64 = 16;

/// No device of pages has smaller sectors.
const SECTOR_BYTES_MIN: u32 = 512;

impl Settings {
    /// Checks that the settings can work together, on the smallest sectors that there are.
    ///
    /// # Errors
    /// The first that cannot, with what would do.
    pub fn check(&self) -> Result<(), StorageError> {
        self.check_on(SECTOR_BYTES_MIN)
    }

    /// The same with pages on sectors of `sector_bytes`.
    pub(super) fn check_on(&self, sector_bytes: u32) -> Result<(), StorageError> {
        let invalid = |what: String| Err(StorageError::InvalidSetting { what });
        check_page_bytes(self.page_bytes)?;
        let least = FRAME_COUNT_MIN * u64::from(self.page_bytes);
        if self.pool_bytes < least {
            return invalid(format!("pool_bytes {} is below {least}, 32 pages", self.pool_bytes));
        }
        if self.commit_delay_ns > COMMIT_DELAY_NS_MAX {
            let found = self.commit_delay_ns;
            return invalid(format!("commit_delay_ns {found} is above {COMMIT_DELAY_NS_MAX}"));
        }
        if let Some(found) = self.double_write_bytes.filter(|&it| it > DOUBLE_WRITE_BYTES_MAX) {
            let what = format!("double_write_bytes {found} is above {DOUBLE_WRITE_BYTES_MAX}");
            return invalid(what);
        }
        check_buffer(&self.log_config())?;
        // Two checkpoint intervals stay in the log, and a transaction may lie across them.
        let least = self.checkpoint_bytes.saturating_mul(4);
        if self.log_bytes < least {
            let (log, interval) = (self.log_bytes, self.checkpoint_bytes);
            return invalid(format!(
                "log_bytes {log} is below four times checkpoint_bytes {interval}, {least}"
            ));
        }
        if self.checkpoint_bytes < CHECKPOINT_PAGES_MIN * u64::from(self.page_bytes) {
            let what = format!("checkpoint_bytes {} is below 16 pages", self.checkpoint_bytes);
            return invalid(what);
        }
        self.propagation.config().check(self.page_bytes, sector_bytes)
    }

    /// The shortest log that a database with such pages can have: four intervals of checkpoints, each of
    /// 16 pages.
    #[must_use]
    pub fn log_bytes_min(page_bytes: u32) -> u64 {
        4 * CHECKPOINT_PAGES_MIN * u64::from(page_bytes)
    }

    /// The longest row that can be stored: an action holds all pages that it changes, and undoing one
    /// may hold as many again.
    #[must_use]
    pub const fn row_bytes_max(&self) -> u64 {
        self.pool_bytes / 4
    }

    /// Frames of the pool.
    #[must_use]
    pub fn frame_count(&self) -> u32 {
        u32::try_from(self.pool_bytes / u64::from(self.page_bytes)).unwrap_or(u32::MAX)
    }
}

/// The name of the file that holds the settings.
pub(super) const SETTINGS_FILE: &str = "settings";
const MAGIC: &[u8; 16] = b"nandu database 1";
const SETTINGS_BYTES_MAX: usize = 4096;
/// Behind the settings stands whose log it is that lies apart: magic, number, sum.
const LOG_NOTE_MAGIC: &[u8; 8] = b"its log:";
const LOG_NOTE_BYTES: usize = 20;
const LOG_NOTE_AT: usize = SETTINGS_BYTES_MAX - LOG_NOTE_BYTES;

impl Settings {
    /// Those settings that concern the log.
    pub(super) fn log_config(&self) -> LogConfig {
        LogConfig { capacity_bytes: self.log_bytes, buffer_bytes: self.log_buffer_bytes }
    }

    /// The double write: half a pool of copies, in bounds, or as much as there is room for. The file
    /// has its room from the start, so that a full device does not keep pages from being written.
    pub(super) fn double_write(
        &self,
        file: FileId,
        io: &Io,
        epoch: u32,
    ) -> Result<DoubleWriteFile, StorageError> {
        let sector_bytes = u64::from(io.sector_bytes());
        let usual_bytes = (self.pool_bytes / 2).clamp(LAP_BYTES_MIN, LAP_BYTES_MAX);
        let least_bytes = 2 * u64::from(self.page_bytes);
        let wanted_bytes = self.double_write_bytes.unwrap_or(usual_bytes).max(least_bytes);
        let lap_bytes = wanted_bytes.next_multiple_of(sector_bytes);
        let present = io.byte_count(file);
        if present >= lap_bytes {
            return Ok(DoubleWriteFile { file, lap_bytes, epoch });
        }
        match io.set_byte_count(file, lap_bytes) {
            Ok(()) => {
                io.sync(file)?;
                Ok(DoubleWriteFile { file, lap_bytes, epoch })
            }
            Err(StorageError::NoSpace { .. } | StorageError::ReadOnly { .. }) if present > 0 => {
                Ok(DoubleWriteFile { file, lap_bytes: present, epoch })
            }
            Err(error) => Err(error),
        }
    }

    /// Without what the propagation has no use for: where no page is overwritten, none is torn.
    pub(super) fn without_idle_parts(mut self) -> Self {
        if !self.propagation.kind.overwrites_pages() {
            self.torn_pages = TornPages::Trust;
        }
        self
    }

    /// These settings, as far as they were fixed when the database was made, and the rest of `wanted`.
    pub(crate) fn with(self, wanted: &Self) -> Self {
        let Self { page_bytes, propagation, torn_pages, log_bytes, .. } = self;
        let checkpoint_bytes = wanted.checkpoint_bytes.min(log_bytes / 4);
        Self {
            page_bytes,
            propagation: propagation.with(&wanted.propagation),
            torn_pages,
            log_bytes,
            checkpoint_bytes,
            ..wanted.clone()
        }
    }
}

/// Settings as they are stored. Of the tables of propagations the database's own alone, which lies there
/// whole: another kind, or another default of one, changes nothing in a database that has no use for it,
/// and keeps no program from it that does not know the kind.
fn stored_text(settings: &Settings) -> Vec<u8> {
    let mut text = serde_json::to_value(settings).expect("settings are plain values");
    let fields = text.as_object_mut().expect("settings have names");
    let others = PropagationKind::ALL.iter().filter(|&&kind| kind != settings.propagation.kind);
    others.for_each(|kind| drop(fields.remove(&kind.name())));
    // Chosen at each opening, by programs that know of it.
    for later in ["log_writing", "commit_group_count"] {
        fields.remove(later);
    }
    serde_json::to_vec(&text).expect("settings are plain values")
}

/// Writes the settings and makes them durable: from then on there is a database. Where its log lies apart,
/// its number stands behind them.
pub(super) fn store(
    io: &Io,
    settings: &Settings,
    log_apart: Option<u64>,
) -> Result<(), StorageError> {
    let text = stored_text(settings);
    assert!(text.len() + 24 + LOG_NOTE_BYTES <= SETTINGS_BYTES_MAX, "settings are short");
    let sector_bytes = io.sector_bytes() as usize;
    let alignment = io.buffer_alignment().max(1) as usize;
    let length = SETTINGS_BYTES_MAX.next_multiple_of(sector_bytes);
    let mut buffer = IoBuffer::with_alignment(length, alignment);
    let bytes = encode(&text);
    buffer[..bytes.len()].copy_from_slice(&bytes);
    if let Some(database_id) = log_apart {
        buffer[LOG_NOTE_AT..SETTINGS_BYTES_MAX].copy_from_slice(&log_note(database_id));
    }
    let file = create_file(io, SETTINGS_FILE)?;
    let ticket = io.submit(IoOwner::Operator, file, Operation::Write, 0, buffer)?;
    let done = io.wait(ticket);
    done.result.map_err(|error| device_error("write the settings", error))?;
    io.sync(file)
}

/// What the file of settings says.
pub(super) struct Found {
    pub(super) settings: Settings,
    /// The number of the database, where its log lies on another volume.
    pub(super) log_apart: Option<u64>,
}

/// The settings of the database on a volume, if there is one.
pub(super) fn find(io: &Io) -> Result<Option<Found>, StorageError> {
    let Some(file) = find_file(io, SETTINGS_FILE) else { return Ok(None) };
    let sector_bytes = io.sector_bytes() as usize;
    let alignment = io.buffer_alignment().max(1) as usize;
    let length = SETTINGS_BYTES_MAX.next_multiple_of(sector_bytes);
    let buffer = IoBuffer::with_alignment(length, alignment);
    let ticket = io.submit(IoOwner::Operator, file, Operation::Read, 0, buffer)?;
    let done = io.wait(ticket);
    done.result.map_err(|error| device_error("read the settings", error))?;
    let bytes = done.buffer.expect("a read brings its buffer back");
    let place = format!("the file {SETTINGS_FILE} of {}", io.name());
    let settings = decode(&bytes, &place)?;
    // Its sum is over the text alone, behind which a sector is full of zeros.
    let (found, whole) = (io.found_byte_count(file), length as u64);
    if settings.is_some() && found != whole {
        let what = format!(
            "it has {found} bytes, not {whole}: something cut it or made it longer; its text is \
             whole, so `truncate -s {whole} {SETTINGS_FILE}` in its directory mends it"
        );
        return Err(StorageError::Corrupt { place, what });
    }
    let log_apart = found_log_note(&bytes[LOG_NOTE_AT..SETTINGS_BYTES_MAX]);
    Ok(settings.map(|settings| Found { settings, log_apart }))
}

fn log_note(database_id: u64) -> [u8; LOG_NOTE_BYTES] {
    let mut note = [0; LOG_NOTE_BYTES];
    note[..8].copy_from_slice(LOG_NOTE_MAGIC);
    note[8..16].copy_from_slice(&database_id.to_be_bytes());
    let sum = crc32c::crc32c(&note[..16]);
    note[16..].copy_from_slice(&sum.to_be_bytes());
    note
}

/// The number in a note; none where there is no note, or it is damaged.
fn found_log_note(note: &[u8]) -> Option<u64> {
    let database_id = u64::from_be_bytes(note.get(8..16)?.try_into().ok()?);
    (note == log_note(database_id)).then_some(database_id)
}

/// What the bytes of a file of settings say; `None` where it was never written.
pub(crate) fn decode(bytes: &[u8], place: &str) -> Result<Option<Settings>, StorageError> {
    if bytes.iter().all(|&byte| byte == 0) {
        // Zeros alone: the creation of the database was interrupted before its settings were
        // written, so there is no database yet.
        return Ok(None);
    }
    let place = place.to_owned();
    let Some((head, rest)) = bytes.split_at_checked(24).filter(|(head, _)| head[..16] == *MAGIC)
    else {
        let what = "it does not begin as nandu's does".to_owned();
        return Err(StorageError::NotADatabase { place, what });
    };
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let text = rest.get(..word(20) as usize).unwrap_or_default();
    if crc32c::crc32c(text) != word(16) {
        return Err(StorageError::Corrupt {
            place,
            what: "its checksum fails; restore it from a copy".into(),
        });
    }
    match serde_json::from_slice(text) {
        Ok(settings) => Ok(Some(settings)),
        Err(error) => {
            // Its checksum is right, so it is as it was written.
            Err(StorageError::OtherVersion { place, what: error.to_string() })
        }
    }
}

/// The bytes of a file of settings whose text is `text`, up to the end of that.
pub(crate) fn encode(text: &[u8]) -> Vec<u8> {
    let sum = crc32c::crc32c(text).to_be_bytes();
    let length = nandu_base::to_u32(text.len() as u64).to_be_bytes();
    [&MAGIC[..], &sum, &length, text].concat()
}

fn device_error(what: &str, error: nandu_device::DeviceError) -> StorageError {
    StorageError::Device { what: what.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_another_version_are_not_called_damaged() {
        let told =
            |text: &str| decode(&encode(text.as_bytes()), "settings").unwrap_err().to_string();
        let newer = told(r#"{"page_bytes":4096,"colour":"red"}"#);
        assert!(newer.contains("unknown field `colour`"), "{newer}");
        assert!(newer.starts_with("settings was written by another version of nandu"), "{newer}");
        let of_a_part = told(r#"{"page_bytes":4096,"log_structured":{"victm":"fifo"}}"#);
        assert!(of_a_part.contains("unknown field `victm`"), "{of_a_part}");
        let beside = told(r#"{"propagation":"log_structured","victim":"fifo"}"#);
        assert!(beside.contains("unknown field `victim`"), "{beside}");
        let kind = told(r#"{"propagation":"in_space"}"#);
        assert!(kind.contains("unknown variant `in_space`, expected"), "{kind}");
        let mut damaged = encode(br#"{"page_bytes":4096}"#);
        damaged[30] ^= 1;
        let told = decode(&damaged, "settings").unwrap_err().to_string();
        assert!(told.ends_with("restore it from a copy"), "{told}");
    }

    fn stored(settings: &Settings) -> String {
        String::from_utf8(stored_text(settings)).unwrap()
    }

    /// Whatever kinds there are: this test knows some that programs do not.
    #[test]
    fn what_a_database_in_place_stores_does_not_change_when_a_kind_of_propagation_is_added() {
        let text = r#"{"checkpoint_bytes":16777216,"commit_delay_ns":0,"double_write_bytes":null,"#
            .to_owned()
            + r#""durability":"every_commit","lock_timeout_ns":10000000000,"log_buffer_bytes":1048576,"#
            + r#""log_bytes":67108864,"page_bytes":4096,"pool_bytes":67108864,"#
            + r#""propagation":"in_place","replacement":"two_q","torn_pages":"double_write","#
            + r#""version_bytes":67108864}"#;
        let mut settings = Settings::default();
        settings.propagation.log_structured.segment_bytes = 64 << 10;
        assert_eq!(stored(&settings), text);
    }

    #[test]
    fn the_table_of_the_own_kind_is_stored_whole_and_comes_back() {
        for &kind in PropagationKind::ALL {
            let settings = Settings { propagation: kind.into(), ..Settings::default() };
            let text = stored(&settings);
            let fields: serde_json::Value = serde_json::from_str(&text).unwrap();
            let is_stored = |other: &&PropagationKind| fields.get(other.name()).is_some();
            let all = serde_json::to_value(&settings).unwrap();
            let has_table = all.get(kind.name()).is_some();
            let stored: Vec<_> = PropagationKind::ALL.iter().filter(is_stored).copied().collect();
            let own = if has_table { vec![kind] } else { Vec::new() };
            assert_eq!(stored, own, "{text}");
            assert_eq!(fields.get(kind.name()), all.get(kind.name()));
            let found = decode(&encode(text.as_bytes()), "settings").unwrap();
            assert_eq!(found, Some(settings));
        }
    }

    #[test]
    fn settings_with_the_tables_of_all_kinds_as_they_were_stored_before_are_read() {
        let mut expected = Settings::default();
        let text = serde_json::to_vec(&expected).unwrap();
        let found = decode(&encode(&text), "settings").unwrap();
        assert_eq!(found.as_ref(), Some(&expected));
        let text = br#"{"propagation":"in_place","log_structured":{"segment_bytes":65536}}"#;
        expected.propagation.log_structured.segment_bytes = 64 << 10;
        assert_eq!(decode(&encode(text), "settings").unwrap(), Some(expected));
    }

    #[test]
    fn settings_that_cannot_work_together_are_refused_with_what_would() {
        let good = Settings {
            page_bytes: 1024,
            pool_bytes: 32 << 10,
            log_bytes: 64 << 10,
            checkpoint_bytes: 16 << 10,
            ..Settings::default()
        };
        assert_eq!(good.check(), Ok(()));
        assert_eq!(Settings::default().check(), Ok(()));
        let in_segments = |segment_bytes| {
            let mut settings = good.clone();
            settings.propagation = PropagationKind::LogStructured.into();
            settings.propagation.log_structured.segment_bytes = segment_bytes;
            settings
        };
        assert_eq!(in_segments(1 << 20).check(), Ok(()));
        let mut idle = in_segments(3);
        idle.propagation.kind = PropagationKind::InPlace;
        assert_eq!(idle.check(), Ok(()), "what lies idle does not matter");
        for (settings, message) in [
            (
                Settings { page_bytes: 1000, ..good.clone() },
                "page size 1000 is not a power of two from 512 to 65536",
            ),
            (
                Settings { page_bytes: 256, ..good.clone() },
                "page size 256 is not a power of two from 512 to 65536",
            ),
            (
                Settings { page_bytes: 1 << 17, ..Settings::default() },
                "page size 131072 is not a power of two from 512 to 65536",
            ),
            (
                Settings { commit_delay_ns: u64::MAX, ..good.clone() },
                "commit_delay_ns 18446744073709551615 is above 60000000000",
            ),
            (
                Settings { double_write_bytes: Some(u64::MAX), ..good.clone() },
                "double_write_bytes 18446744073709551615 is above 1099511627776",
            ),
            (
                Settings { log_buffer_bytes: 4095, ..good.clone() },
                "log_buffer_bytes 4095 is not from 4096 to 67108864",
            ),
            (
                Settings { pool_bytes: (32 << 10) - 1, ..good.clone() },
                "pool_bytes 32767 is below 32768, 32 pages",
            ),
            (
                Settings { log_bytes: (64 << 10) - 1, ..good.clone() },
                "log_bytes 65535 is below four times checkpoint_bytes 16384, 65536",
            ),
            (
                Settings { checkpoint_bytes: u64::MAX / 2, ..good.clone() },
                "log_bytes 65536 is below four times checkpoint_bytes 9223372036854775807, \
                 18446744073709551615",
            ),
            (
                Settings { checkpoint_bytes: (16 << 10) - 1, ..good.clone() },
                "checkpoint_bytes 16383 is below 16 pages",
            ),
            (
                in_segments(3 << 19),
                "segment_bytes 1572864 is not a power of two from 4096 (4 pages or sectors) to \
                 67108864",
            ),
        ] {
            assert_eq!(settings.check().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn segments_that_are_shorter_than_a_write_bound_it() {
        let mut kept = Settings::default();
        kept.propagation.log_structured.segment_bytes = 64 << 10;
        let merged = kept.with(&Settings::default()).propagation.log_structured;
        assert_eq!((merged.segment_bytes, merged.write_bytes), (64 << 10, 64 << 10));
        assert_eq!(merged.check(512), Ok(()));
    }
}
