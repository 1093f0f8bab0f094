//! A range of labels in a document, taken out of its containers and put back with other records in
//! it.
//!
//! ```text
//!   containers   [ a b │ c d ] [ e f ] [ g │ h ]       range: c … g
//!                  before│   inside      │after        written again, something else inside
//! ```
//!
//! 1. Containers beside the range keep their bytes. A value of the range that goes on beyond its last
//!    container is taken whole; of one behind the range what lies in that container stays in one piece.
//! 2. What does not fit one container is spread evenly over as few as hold it.

use crate::container::{
    CONTAINER_BYTES_MIN, ContainerForm, ContainerPlace, ContainerReader, ContainerWriter, split_key,
};
use crate::counts::CountChange;
use crate::document::{Document, DocumentNames};
use crate::error::XmlError;
use crate::record::{NodeKind, Record, ValueType};
use crate::synopsis::ClassId;
use nandu_storage::database::{Around, EntryScan, Tables, WriteTransaction};

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
    /// Whether the last record behind the range goes on in containers that stay.
    goes_on: bool,
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

/// Labels from the first up to, not including, the second.
type Labels<'l> = (&'l [u8], &'l [u8]);

impl Region {
    /// The containers around the labels from `start` up to, not including, `end`, to be looked at.
    ///
    /// # Errors
    /// If a page cannot be read, or the document is damaged.
    pub(super) fn read(
        tables: &Tables,
        document: &Document,
        (start, end): Labels<'_>,
    ) -> Result<Self, XmlError> {
        let nodes = DocumentNames::of(document.name()).nodes;
        Self::whole(end, &mut |read_end| {
            let containers = tables.entries_around(&nodes, Around::keys(start, read_end))?;
            Self::of(document, containers, (start, end))
        })
    }

    /// The same, to be put back with something else inside: nobody else may look at them, change them or put
    /// anything between.
    ///
    /// # Errors
    /// The same; and if other transactions are in the way.
    pub(super) fn claim(
        write: &mut WriteTransaction<'_>,
        document: &Document,
        (start, end): Labels<'_>,
    ) -> Result<Self, XmlError> {
        let nodes = DocumentNames::of(document.name()).nodes;
        Self::whole(end, &mut |claimed_end| {
            let around = Around::keys(start, claimed_end);
            let containers = write.claim_entries_around(&nodes, around)?;
            let region = Self::of(document, containers, (start, end))?;
            if !region.entries.is_empty() {
                return Ok(region);
            }
            // Before the first container of all: else each thing that is put in front would get its own.
            let containers = write.claim_entries_around(&nodes, around.with_next())?;
            Self::of(document, containers, (start, end))
        })
    }

    /// With the containers in which its last value goes on, if that is one of the range.
    fn whole(
        end: &[u8],
        open: &mut dyn FnMut(&[u8]) -> Result<Self, XmlError>,
    ) -> Result<Self, XmlError> {
        let mut region = open(end)?;
        while region.goes_on && region.after.is_empty() {
            let last = region.inside.last().or(region.before.last());
            let mut label = last.map(|last| last.label.clone()).unwrap_or_default();
            // Parts of a value come before whatever else begins with its label.
            label.push(0x01);
            let container_count = region.entries.len();
            region = open(&label)?;
            if region.entries.len() == container_count {
                // The rest is not there, as whoever walks over it will find.
                region.goes_on = false;
            }
        }
        Ok(region)
    }

    /// The records of containers.
    fn of(
        document: &Document,
        mut containers: EntryScan<'_>,
        labels: Labels<'_>,
    ) -> Result<Self, XmlError> {
        let (mut region, mut room) = (Self::default(), ContainerPlace::default());
        while let Some((key, value)) = containers.next_entry()? {
            let is_first = region.entries.is_empty();
            region.goes_on = region
                .add(document.form(), (key, value), is_first, labels, &mut room)
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

    /// Puts claimed containers back.
    ///
    /// # Errors
    /// If they cannot be written, or other transactions are in the way.
    pub(super) fn write(
        self,
        write: &mut WriteTransaction<'_>,
        (document, counts): (&Document, &mut CountChange),
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
        counts.count_containers(packed.len(), self.entries.len());
        Ok(())
    }

    fn pack(&self, form: ContainerForm, byte_count_max: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut packed = Vec::new();
        let mut sink = |key: &[u8], value: &[u8]| {
            packed.push((key.to_vec(), value.to_vec()));
            Ok::<(), std::convert::Infallible>(())
        };
        let mut writer = ContainerWriter::like(form, byte_count_max, &self.entries);
        let (last, after) = match self.after.split_last() {
            Some((last, after)) if self.goes_on => (Some(last), after),
            _ => (None, &self.after[..]),
        };
        for kept in self.before.iter().chain(&self.inside).chain(after) {
            let Ok(()) = writer.push_from(&kept.as_record(), kept.part, &mut sink);
        }
        if let Some(last) = last {
            let Ok(()) = writer.push_last(&last.as_record(), last.part, &mut sink);
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
