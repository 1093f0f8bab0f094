//! A range of labels in a document, taken out of its containers and put back with other records in
//! it.
//!
//! ```text
//!   containers   [ a b │ c d ] [ e f ] [ g │ h ]       range: c … g
//!                  before│   inside      │after        written again, something else inside
//! ```
//!
//! 1. Containers beside the range keep their bytes. A value that goes on beyond the last container
//!    of the range is taken whole.
//! 2. What does not fit one container is spread evenly over as few as hold it.

use crate::container::{
    CONTAINER_BYTES_MIN, ContainerForm, ContainerPlace, ContainerReader, ContainerWriter, split_key,
};
use crate::document::{Document, DocumentNames};
use crate::error::XmlError;
use crate::record::{NodeKind, Record, ValueType};
use crate::synopsis::ClassId;
use crate::walk::container_key;
use nandu_storage::database::{EntryRange, Tables, WriteTransaction};

/// A record by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) label: Vec<u8>,
    pub(super) kind: NodeKind,
    pub(super) value_type: ValueType,
    pub(super) class: ClassId,
    pub(super) value: Vec<u8>,
    /// Which part of its value this is, where parts lie in containers before the region.
    part: u32,
}

/// Records of some containers, in three parts.
#[derive(Debug, Default)]
pub(super) struct Region {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    before: Vec<Kept>,
    pub(super) inside: Vec<Kept>,
    after: Vec<Kept>,
}

impl Kept {
    pub(super) fn of(record: &Record<'_>, part: u32) -> Self {
        let Record { kind, value_type, class, .. } = *record;
        let (label, value) = (record.label.to_vec(), record.value.to_vec());
        Self { label, kind, value_type, class, value, part }
    }

    /// The record of an element with nothing in it.
    pub(super) fn element(label: &[u8], class: ClassId) -> Self {
        let (kind, value_type) = (NodeKind::Element, ValueType::Text);
        Self { label: label.to_vec(), kind, value_type, class, value: Vec::new(), part: 0 }
    }

    pub(super) fn as_record(&self) -> Record<'_> {
        let Self { kind, value_type, class, .. } = *self;
        let (label, value) = (&self.label[..], &self.value[..]);
        Record { label, kind, value_type, class, value, is_continued: false, goes_on: false }
    }
}

impl Region {
    /// The containers around the labels from `start` up to, not including, `end`.
    ///
    /// # Errors
    /// If a page cannot be read, or the document is damaged.
    pub(super) fn read(
        tables: &Tables,
        document: &Document,
        start: &[u8],
        end: &[u8],
    ) -> Result<Self, XmlError> {
        let nodes = DocumentNames::of(document.name()).nodes;
        let first = container_key(tables, document, start)?;
        let range = EntryRange::of(&nodes).at_least(&first).with_ahead_count(0);
        let mut entries = tables.entries(range)?;
        let mut region = Self::default();
        let mut goes_on = false;
        let mut place = ContainerPlace::default();
        while let Some((key, value)) = entries.next_entry()? {
            if !goes_on && !region.entries.is_empty() && key >= end {
                break;
            }
            let is_first = region.entries.is_empty();
            goes_on = region
                .add(document.form(), (key, value), is_first, (start, end), &mut place)
                .map_err(|what| document.damaged(what))?;
            region.entries.push((key.to_vec(), value.to_vec()));
        }
        Ok(region)
    }

    /// Takes the records of a container. Says whether the last value goes on; or what is wrong.
    fn add(
        &mut self,
        form: ContainerForm,
        (key, value): (&[u8], &[u8]),
        is_first: bool,
        (start, end): (&[u8], &[u8]),
        place: &mut ContainerPlace,
    ) -> Result<bool, &'static str> {
        let part = split_key(key).map_or(0, |(_, part)| part);
        let mut reader = ContainerReader::new(form, (key, value), place)?;
        let mut goes_on = false;
        while let Some(record) = reader.next_record()? {
            goes_on = record.goes_on;
            let records = match record.label {
                label if label < start => &mut self.before,
                label if label < end => &mut self.inside,
                _ => &mut self.after,
            };
            match records.last_mut().filter(|_| record.is_continued && !is_first) {
                Some(last) => last.value.extend_from_slice(record.value),
                None => {
                    let part = if record.is_continued { part } else { 0 };
                    records.push(Kept::of(&record, part));
                }
            }
        }
        Ok(goes_on)
    }

    /// The last record before the range, in these containers.
    pub(super) fn last_before(&self) -> Option<&Kept> {
        self.before.last()
    }

    /// Forgets the last record before the range.
    pub(super) fn drop_last_before(&mut self) {
        self.before.pop();
    }

    /// The first record behind the range, in these containers.
    pub(super) fn first_after(&self) -> Option<&Kept> {
        self.after.first()
    }

    /// Puts the containers back.
    ///
    /// # Errors
    /// If they cannot be written, or other transactions are in the way.
    pub(super) fn write(
        self,
        write: &mut WriteTransaction<'_>,
        document: &mut Document,
    ) -> Result<(), XmlError> {
        let nodes = DocumentNames::of(document.name()).nodes;
        let byte_count_max =
            usize::try_from(document.catalog.container_bytes).unwrap_or(usize::MAX);
        let mut packed = self.pack(document.form(), byte_count_max);
        let byte_count: usize = packed.iter().map(|(_, value)| value.len()).sum();
        if packed.len() > 1 {
            let even = byte_count / packed.len() + CONTAINER_BYTES_MIN / 2;
            let evenly =
                self.pack(document.form(), even.clamp(CONTAINER_BYTES_MIN, byte_count_max));
            if evenly.len() == packed.len() {
                packed = evenly;
            }
        }
        for (key, _) in &self.entries {
            if packed.binary_search_by(|(new, _)| new.cmp(key)).is_err() {
                write.delete_value(&nodes, key)?;
            }
        }
        for (key, value) in &packed {
            let old = self.entries.binary_search_by(|(old, _)| old.cmp(key));
            if old.is_err() || old.is_ok_and(|place| self.entries[place].1 != *value) {
                write.put_value(&nodes, key, value)?;
            }
        }
        let count = &mut document.catalog.container_count;
        *count = (*count + packed.len() as u64).saturating_sub(self.entries.len() as u64);
        document.catalog.change_count = document.catalog.change_count.wrapping_add(1);
        Ok(())
    }

    fn pack(&self, form: ContainerForm, byte_count_max: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut packed = Vec::new();
        let mut sink = |key: &[u8], value: &[u8]| {
            packed.push((key.to_vec(), value.to_vec()));
            Ok::<(), std::convert::Infallible>(())
        };
        let mut writer = ContainerWriter::like(form, byte_count_max, &self.entries);
        for kept in self.before.iter().chain(&self.inside).chain(&self.after) {
            let Ok(()) = writer.push_from(&kept.as_record(), kept.part, &mut sink);
        }
        let Ok(()) = writer.finish(&mut sink);
        packed
    }
}

/// The records of containers by themselves.
pub(super) fn unpack(
    document: &Document,
    entries: &[(Vec<u8>, Vec<u8>)],
) -> Result<Vec<Kept>, XmlError> {
    let mut region = Region::default();
    let mut room = ContainerPlace::default();
    for (place, (key, value)) in entries.iter().enumerate() {
        let all = (&[][..], &[0xFF][..]);
        let entry = (&key[..], &value[..]);
        region
            .add(document.form(), entry, place == 0, all, &mut room)
            .map_err(|what| document.damaged(what))?;
    }
    Ok(region.inside)
}
