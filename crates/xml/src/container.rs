//! Containers: runs of records in document order, each an entry of a raw tree. The inner nodes of
//! that tree are the document index of S004 (section 5.3), its leaves with the containers the
//! document container.
//!
//! ```text
//!   key     label of the first record                  │ 00 │ part (4), if it continues a value
//!   value   record │ record │ …                        at most as many bytes as the document says
//!
//!   a long value fills up the container where it begins, then whole ones, then part of the last:
//!   …│ part 0 ]   [ part 1 ]   [ part 2 │ next record │ …
//! ```
//!
//! 1. Keys of containers are in the order of what they hold; records are in document order.
//! 2. A value is cut only where a container is full, so a long one takes no page of its own.
//! 3. Here alone containers are packed and unpacked (`compression`): one that is packed holds as many
//!    records as are expected to fit, by those before it.

use crate::compression::{Compression, CompressionStat, RECORD_BYTES_MAX};
use crate::label;
use crate::mapping::MappingKind;
use crate::record::{self, NodeKind, Record};
use crate::synopsis::ClassId;
use crate::varint;

/// Between a label and the number of a part.
const PART: u8 = 0x00;
/// What a value's number of bytes takes at most: a container has fewer than 16,384.
const LENGTH_BYTES: usize = 2;
/// The fewest bytes of a value that are worth a part.
const PART_BYTES_MIN: usize = 32;
/// Containers on a leaf page.
const CONTAINERS_PER_PAGE: usize = 4;
/// What an entry takes in a leaf beside its value, about, and what a leaf takes by itself.
const ENTRY_BYTES: usize = 26;
const NODE_BYTES: usize = 24;
/// The largest container, and the smallest: one of the longest label and a part.
pub(crate) const CONTAINER_BYTES_MAX: usize = 8 << 10;
pub(crate) const CONTAINER_BYTES_MIN: usize = 128;

/// How many bytes a container has at most on pages with so many usable bytes: so many that four
/// fill a page; `None` where keys of the longest label do not fit.
pub(crate) fn container_bytes(usable_bytes: usize) -> Option<usize> {
    let key_bytes = label::LABEL_BYTES_MAX + 1 + size_of::<u32>();
    if nandu_storage::btree::Tree::key_bytes_max(usable_bytes) < key_bytes {
        return None;
    }
    let bytes = (usable_bytes - NODE_BYTES) / CONTAINERS_PER_PAGE - ENTRY_BYTES;
    Some(bytes.min(CONTAINER_BYTES_MAX))
}

/// How the containers of a document are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContainerForm {
    pub(crate) mapping: MappingKind,
    pub(crate) compression: Compression,
}

/// Places for what is read of a container.
#[derive(Debug, Default)]
pub(crate) struct ContainerPlace {
    label: Vec<u8>,
    records: Vec<u8>,
}

/// Packs records into containers.
#[derive(Debug)]
pub(crate) struct ContainerWriter {
    form: ContainerForm,
    /// Of a value of an entry, but for its head.
    byte_count_max: usize,
    /// Of records, as many as should fit that.
    record_bytes_max: usize,
    /// What is left of a thousand bytes of records, as far as is known.
    left_permille: usize,
    packed: Vec<u8>,
    key: Vec<u8>,
    bytes: Vec<u8>,
    /// The label of the last record.
    last: Vec<u8>,
    head: Vec<u8>,
    container_count: u64,
}

impl ContainerWriter {
    pub(crate) fn new(form: ContainerForm, byte_count_max: usize) -> Self {
        Self {
            form,
            byte_count_max,
            record_bytes_max: byte_count_max,
            left_permille: 1000,
            packed: Vec::new(),
            key: Vec::new(),
            bytes: Vec::with_capacity(byte_count_max),
            last: Vec::new(),
            head: Vec::new(),
            container_count: 0,
        }
    }

    /// One for records that were in these entries, and for some others.
    pub(crate) fn like(
        form: ContainerForm,
        byte_count_max: usize,
        entries: &[(Vec<u8>, Vec<u8>)],
    ) -> Self {
        let mut writer = Self::new(form, byte_count_max);
        let mut stat = CompressionStat::default();
        let counted =
            entries.iter().try_for_each(|(_, value)| form.compression.count(value, &mut stat));
        if counted.is_ok() && form.compression != Compression::None && stat.record_bytes > 0 {
            let left = (1000 * stat.stored_bytes / stat.record_bytes).clamp(1, 1000);
            writer.left_permille = usize::try_from(left).unwrap_or(1000);
            writer.fit();
        }
        writer
    }

    /// How many containers were filled.
    pub(crate) const fn container_count(&self) -> u64 {
        self.container_count
    }

    /// Adds a record that follows all that came so far; `sink` gets containers that are full.
    #[inline]
    pub(crate) fn push<E>(
        &mut self,
        record: &Record<'_>,
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.push_from(record, 0, sink)
    }

    /// The same of a record that begins with a later part of its value, as the first one.
    #[inline]
    pub(crate) fn push_from<E>(
        &mut self,
        record: &Record<'_>,
        mut part: u32,
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut value = record.value;
        loop {
            self.write_head(record, part);
            let room = self.record_bytes_max - self.bytes.len();
            let whole_bytes = self.head.len() + LENGTH_BYTES + value.len();
            if whole_bytes <= room {
                self.add(record, value, false);
                return Ok(());
            }
            let part_bytes = room.saturating_sub(self.head.len() + LENGTH_BYTES);
            let is_long = whole_bytes > self.byte_count_max / 4;
            if part_bytes >= PART_BYTES_MIN && (is_long || self.bytes.is_empty()) {
                let (front, rest) = value.split_at(part_bytes);
                self.add(record, front, true);
                value = rest;
                part += 1;
            }
            self.finish(sink)?;
        }
    }

    /// Adds a part of a value that goes on behind all that comes, in one piece: its number is that before the
    /// next part, which is elsewhere already. It came out of a container, so one holds it.
    pub(crate) fn push_last<E>(
        &mut self,
        record: &Record<'_>,
        part: u32,
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write_head(record, part);
        let byte_count = self.head.len() + LENGTH_BYTES + record.value.len();
        if self.bytes.len() + byte_count > self.record_bytes_max {
            self.finish(sink)?;
            self.write_head(record, part);
        }
        self.add(record, record.value, true);
        Ok(())
    }

    /// Hands on what is not full.
    pub(crate) fn finish<E>(
        &mut self,
        sink: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.bytes.is_empty() {
            self.container_count += 1;
            let value = self.form.compression.pack(&self.bytes, &mut self.packed);
            sink(&self.key, value)?;
            if self.form.compression != Compression::None {
                self.expect(self.packed.len());
            }
            self.bytes.clear();
        }
        Ok(())
    }

    /// How many records the next container gets, after one that has become so many bytes. What takes
    /// more bytes than the ones before counts at once, what takes less by and by.
    fn expect(&mut self, packed_bytes: usize) {
        // The end of a document or of a long value says little.
        if self.bytes.len() >= self.byte_count_max / 2 {
            let left = (1000 * packed_bytes / self.bytes.len()).clamp(1, 1000);
            self.left_permille = left.max((7 * self.left_permille + left) / 8);
        }
        self.fit();
    }

    fn fit(&mut self) {
        let fitting = 1000 * self.byte_count_max / self.left_permille;
        let most = (CONTAINERS_PER_PAGE * self.byte_count_max).min(RECORD_BYTES_MAX);
        self.record_bytes_max = fitting.clamp(self.byte_count_max, most);
    }

    /// The tag, the label and the class, in `self.head`; the label in the key where the record is
    /// the first.
    #[inline]
    fn write_head(&mut self, record: &Record<'_>, part: u32) {
        self.head.clear();
        self.head.push(record::tag(record.kind, record.value_type, false));
        if self.bytes.is_empty() {
            self.key.clear();
            self.key.extend_from_slice(record.label);
            if part > 0 {
                self.key.push(PART);
                self.key.extend_from_slice(&part.to_be_bytes());
            }
        } else {
            self.form.mapping.put_label(&self.last, record.label, &mut self.head);
        }
        varint::put(u64::from(record.class.0), &mut self.head);
    }

    #[inline]
    fn add(&mut self, record: &Record<'_>, value: &[u8], goes_on: bool) {
        if goes_on {
            self.head[0] = record::tag(record.kind, record.value_type, true);
        }
        self.bytes.extend_from_slice(&self.head);
        if record.kind != NodeKind::Element {
            varint::put(value.len() as u64, &mut self.bytes);
            self.bytes.extend_from_slice(value);
        }
        self.last.clear();
        self.last.extend_from_slice(record.label);
    }
}

/// Reads the records of a container, one after the other.
#[derive(Debug)]
pub(crate) struct ContainerReader<'c> {
    mapping: MappingKind,
    rest: &'c [u8],
    label: &'c mut Vec<u8>,
    /// Whether the first record, whose label the key is, was not read yet.
    is_first: bool,
    is_continued: bool,
}

impl<'c> ContainerReader<'c> {
    /// The container of an entry. Says what is wrong with its key, or how it is packed.
    pub(crate) fn new(
        ContainerForm { mapping, compression }: ContainerForm,
        (key, value): (&[u8], &'c [u8]),
        place: &'c mut ContainerPlace,
    ) -> Result<Self, &'static str> {
        let (own, part) = split_key(key).ok_or("a key of a container has no label")?;
        let ContainerPlace { label, records } = place;
        label.clear();
        label.extend_from_slice(own);
        let rest = compression.unpack(value, records)?;
        Ok(Self { mapping, rest, label, is_first: true, is_continued: part > 0 })
    }

    /// The next record, until the next call; says which rule is broken.
    #[inline]
    pub(crate) fn next_record(&mut self) -> Result<Option<Record<'_>>, &'static str> {
        let Some((&tag, mut rest)) = self.rest.split_first() else {
            return if self.is_first { Err("a container has no records") } else { Ok(None) };
        };
        let (kind, value_type, goes_on) =
            record::untag(tag).ok_or("a record has an unknown tag")?;
        if !std::mem::take(&mut self.is_first) {
            self.mapping.take_label(self.label, &mut rest).ok_or("a record has no label")?;
        }
        let class = varint::take(&mut rest).and_then(|class| u32::try_from(class).ok());
        let class = ClassId(class.ok_or("a record has no class")?);
        let value = match kind {
            NodeKind::Element => &[],
            _ => varint::take_bytes(&mut rest).ok_or("a record has no value")?,
        };
        self.rest = rest;
        let is_continued = std::mem::take(&mut self.is_continued);
        let label = &self.label[..];
        Ok(Some(Record { label, kind, value_type, class, value, is_continued, goes_on }))
    }
}

/// The label of a key, and which part of its value is the first record of the container.
pub(crate) fn split_key(key: &[u8]) -> Option<(&[u8], u32)> {
    match key.split_last_chunk::<4>() {
        Some((front, part)) if front.last() == Some(&PART) => {
            let own = &front[..front.len() - 1];
            let part = u32::from_be_bytes(*part);
            // An ordinal may have any bytes after its first one.
            if part > 0 && label::check(own).is_ok() {
                return Some((own, part));
            }
            label::check(key).is_ok().then_some((key, 0))
        }
        _ => label::check(key).is_ok().then_some((key, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ValueType;

    const SIZE: usize = CONTAINER_BYTES_MIN;

    fn record<'r>(label: &'r [u8], kind: NodeKind, class: u32, value: &'r [u8]) -> Record<'r> {
        let (value_type, class) = (ValueType::Text, ClassId(class));
        Record { label, kind, value_type, class, value, is_continued: false, goes_on: false }
    }

    fn plain(mapping: MappingKind) -> ContainerForm {
        ContainerForm { mapping, compression: Compression::None }
    }

    fn pack(mapping: MappingKind, records: &[Record<'_>]) -> Vec<(Vec<u8>, Vec<u8>)> {
        pack_in(plain(mapping), records)
    }

    fn pack_in(form: ContainerForm, records: &[Record<'_>]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut writer = ContainerWriter::new(form, SIZE);
        let mut entries = Vec::new();
        let mut sink = |key: &[u8], value: &[u8]| {
            entries.push((key.to_vec(), value.to_vec()));
            Ok::<(), ()>(())
        };
        records.iter().for_each(|record| writer.push(record, &mut sink).unwrap());
        writer.finish(&mut sink).unwrap();
        assert_eq!(writer.container_count(), entries.len() as u64);
        entries
    }

    #[test]
    fn records_have_their_bytes_for_ever() {
        let records = [
            record(&[0x37], NodeKind::Element, 1, b""),
            record(&[0x37, 0x01, 0x37], NodeKind::Attribute, 2, b"1"),
            record(&[0x37, 0x37], NodeKind::Text, 300, b"two"),
        ];
        let bytes = |mapping| pack(mapping, &records).remove(0);
        let (key, value) = bytes(MappingKind::Full);
        assert_eq!(key, [0x37]);
        let full: [&[u8]; 4] = [
            &[0, 1],
            &[1, 3, 0x37, 0x01, 0x37, 2, 1, b'1'],
            &[3, 2, 0x37, 0x37, 0xAC, 0x02, 3],
            b"two",
        ];
        assert_eq!(value, full.concat());
        let prefix: [&[u8]; 4] =
            [&[0, 1], &[1, 0x02, 0x01, 0x37, 2, 1, b'1'], &[3, 0x21, 0x37, 0xAC, 0x02, 3], b"two"];
        assert_eq!(bytes(MappingKind::Prefix), (vec![0x37], prefix.concat()));
        assert_eq!(bytes(MappingKind::Elementless), (vec![0x37], prefix.concat()));
    }

    #[test]
    fn values_are_cut_where_containers_are_full_and_come_back_whole() {
        let long: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let records = [
            record(&[0x37, 0x37], NodeKind::Text, 1, b"short"),
            record(&[0x37, 0x38], NodeKind::Comment, 1, &long),
            record(&[0x37, 0xB7, 0], NodeKind::Text, 1, &long[..70]),
            record(&[0x37, 0xB7, 1], NodeKind::Element, 2, b""),
        ];
        let forms = MappingKind::ALL.map(|mapping| {
            Compression::ALL.map(|compression| ContainerForm { mapping, compression })
        });
        for form in forms.into_iter().flatten() {
            let entries = pack_in(form, &records);
            assert!(entries.is_sorted_by(|one, other| one.0 < other.0), "{entries:?}");
            if form.compression == Compression::None {
                assert!(entries.iter().all(|(_, value)| value.len() <= SIZE));
                // All but the last are full, but for what is not worth a part.
                let (_, full) = entries.split_last().unwrap();
                assert!(full.iter().all(|(_, value)| value.len() > SIZE - 45), "{entries:?}");
            }
            let mut found = Vec::<(Vec<u8>, NodeKind, Vec<u8>)>::new();
            let mut place = ContainerPlace::default();
            let mut goes_on = false;
            for (key, value) in &entries {
                let mut reader = ContainerReader::new(form, (key, value), &mut place).unwrap();
                while let Some(record) = reader.next_record().unwrap() {
                    assert_eq!(record.is_continued, goes_on);
                    goes_on = record.goes_on;
                    match found.last_mut().filter(|_| record.is_continued) {
                        Some((_, _, value)) => value.extend_from_slice(record.value),
                        None => {
                            let (label, value) = (record.label.to_vec(), record.value.to_vec());
                            found.push((label, record.kind, value));
                        }
                    }
                }
            }
            let expected: Vec<_> = records
                .iter()
                .map(|record| (record.label.to_vec(), record.kind, record.value.to_vec()))
                .collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn bytes_that_are_no_container_are_told() {
        let records = [record(&[0x37], NodeKind::Text, 1, b"text"); 1];
        let (key, value) = pack(MappingKind::Prefix, &records).remove(0);
        let (form, mut place) = (plain(MappingKind::Prefix), ContainerPlace::default());
        for cut in 0..value.len() {
            let entry = (&key[..], &value[..cut]);
            let mut reader = ContainerReader::new(form, entry, &mut place).unwrap();
            assert!(reader.next_record().is_err(), "{cut}");
        }
        for key in [&[0][..], &[0xFE, 0x37], &[0xB7]] {
            assert!(ContainerReader::new(form, (key, &value), &mut place).is_err());
        }
        assert_eq!(split_key(&[0x37, 0, 0, 0, 0, 9]), Some((&[0x37][..], 9)));
        // The bytes of a number may look like a part.
        assert_eq!(split_key(&[0xFD, 0, 0, 0, 1]), Some((&[0xFD, 0, 0, 0, 1][..], 0)));
    }
}
