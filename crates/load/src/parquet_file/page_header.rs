//! The header of a page of Parquet: a struct of Thrift's compact protocol.
//!
//! ```text
//!   field   byte: type in the low half, number in the high half, counted from the field before; 0 in the
//!           high half: the number follows, zigzag; a byte of 0 ends the struct
//!   number  seven bits a byte, the lowest first, zigzag; a truth value is its type
//! ```
//!
//! Fields are those of `parquet.thrift`, `PageHeader`. What is not needed is skipped: statistics, checksums.

use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use std::io::Read;

/// Structs in structs in what is skipped; the format's own are three deep.
const DEPTH_MAX: u32 = 16;
/// Fields of the largest struct, [`PageHeader`] and that of a data page of version 2.
const FIELD_COUNT: usize = 8;
/// Seven bits a byte.
const NUMBER_BYTES_MAX: u32 = 10;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// What a page says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Without the header.
    pub(super) unpacked_bytes: usize,
    /// Without the header.
    pub(super) packed_bytes: usize,
    pub(super) content: Content,
}

/// What is in a page, with what of it differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Data {
        value_count: u32,
        encoding: Encoding,
        definition_encoding: Encoding,
        repetition_encoding: Encoding,
    },
    /// Levels stand before the values and are never packed.
    DataV2 {
        value_count: u32,
        null_count: u32,
        row_count: u32,
        encoding: Encoding,
        definition_bytes: u32,
        repetition_bytes: u32,
        is_packed: bool,
    },
    Dictionary {
        value_count: u32,
        encoding: Encoding,
        is_sorted: bool,
    },
    /// An index, or what is newer than this program; it is skipped.
    Other,
}

/// Numbers and truth values of a struct by the number of their field, from 1 on.
type Numbers = [Option<i64>; FIELD_COUNT];

impl PageHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// If the bytes are none, or cannot be read.
    pub(super) fn read(bytes: &mut impl Read) -> Result<Self, ParquetError> {
        let mut thrift = Thrift(bytes);
        let mut numbers = Numbers::default();
        let mut structs = [Numbers::default(); FIELD_COUNT];
        let mut last = 0;
        while let Some((kind, number)) = thrift.field(&mut last)? {
            match (kind, place_of(number)) {
                (STRUCT, Some(place)) => structs[place] = thrift.numbers()?,
                (_, place) => thrift.number_or_skip(kind, place, &mut numbers, 0)?,
            }
        }
        let content = match needed(&numbers, 1)? {
            0 => data(&structs[4])?,
            2 => dictionary(&structs[6])?,
            3 => data_v2(&structs[7])?,
            _ => Content::Other,
        };
        let size = |number| length(&numbers, number).map(|size| nandu_base::to_index(size.into()));
        Ok(Self { unpacked_bytes: size(2)?, packed_bytes: size(3)?, content })
    }
}

fn data(of: &Numbers) -> Result<Content, ParquetError> {
    Ok(Content::Data {
        value_count: length(of, 1)?,
        encoding: encoding(of, 2)?,
        definition_encoding: encoding(of, 3)?,
        repetition_encoding: encoding(of, 4)?,
    })
}

fn data_v2(of: &Numbers) -> Result<Content, ParquetError> {
    Ok(Content::DataV2 {
        value_count: length(of, 1)?,
        null_count: length(of, 2)?,
        row_count: length(of, 3)?,
        encoding: encoding(of, 4)?,
        definition_bytes: length(of, 5)?,
        repetition_bytes: length(of, 6)?,
        is_packed: of[6] != Some(0),
    })
}

fn dictionary(of: &Numbers) -> Result<Content, ParquetError> {
    Ok(Content::Dictionary {
        value_count: length(of, 1)?,
        encoding: encoding(of, 2)?,
        is_sorted: of[2] == Some(1),
    })
}

fn place_of(number: i64) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1).filter(|place| *place < FIELD_COUNT)
}

fn needed(numbers: &Numbers, number: usize) -> Result<i64, ParquetError> {
    numbers[number - 1].ok_or_else(|| broken("the header of a page leaves something out"))
}

/// A count or a number of bytes, which the format keeps in 32 bits with a sign.
fn length(numbers: &Numbers, number: usize) -> Result<u32, ParquetError> {
    let value = needed(numbers, number)?;
    i32::try_from(value)
        .ok()
        .and_then(|value| u32::try_from(value).ok())
        .ok_or_else(|| broken(&format!("the header of a page has a length or count of {value}")))
}

#[allow(deprecated, reason = "files of old writers have levels of it")]
fn encoding(numbers: &Numbers, number: usize) -> Result<Encoding, ParquetError> {
    Ok(match needed(numbers, number)? {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        other => return Err(ParquetError::NYI(format!("encoding {other} of a page"))),
    })
}

fn broken(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

struct Thrift<'r, R>(&'r mut R);

impl<R: Read> Thrift<'_, R> {
    fn byte(&mut self) -> Result<u8, ParquetError> {
        let mut byte = [0];
        self.0.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn unsigned(&mut self) -> Result<u64, ParquetError> {
        let mut value = 0;
        for place in 0..NUMBER_BYTES_MAX {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(broken("the header of a page has a number without end"))
    }

    fn number(&mut self) -> Result<i64, ParquetError> {
        let value = self.unsigned()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Type and number of the next field; `None` at the end of the struct.
    fn field(&mut self, last: &mut i64) -> Result<Option<(u8, i64)>, ParquetError> {
        let byte = self.byte()?;
        let kind = byte & 0x0f;
        if kind == 0 {
            return Ok(None);
        }
        *last = match byte >> 4 {
            0 => self.number()?,
            more => last.saturating_add(i64::from(more)),
        };
        Ok(Some((kind, *last)))
    }

    /// The numbers of a struct; other fields are skipped.
    fn numbers(&mut self) -> Result<Numbers, ParquetError> {
        let mut numbers = Numbers::default();
        let mut last = 0;
        while let Some((kind, number)) = self.field(&mut last)? {
            self.number_or_skip(kind, place_of(number), &mut numbers, 1)?;
        }
        Ok(numbers)
    }

    fn number_or_skip(
        &mut self,
        kind: u8,
        place: Option<usize>,
        numbers: &mut Numbers,
        depth: u32,
    ) -> Result<(), ParquetError> {
        let value = match kind {
            TRUE | FALSE => i64::from(kind == TRUE),
            BYTE => i64::from(self.byte()?),
            I16..=I64 => self.number()?,
            _ => return self.skip(kind, depth),
        };
        if let Some(place) = place {
            numbers[place] = Some(value);
        }
        Ok(())
    }

    fn skip_bytes(&mut self, count: u64) -> Result<(), ParquetError> {
        let skipped = std::io::copy(&mut self.0.by_ref().take(count), &mut std::io::sink())?;
        if skipped < count {
            return Err(ParquetError::EOF("the header of a page ends early".to_owned()));
        }
        Ok(())
    }

    /// Skips a value that is no field's truth value.
    fn skip(&mut self, kind: u8, depth: u32) -> Result<(), ParquetError> {
        if depth > DEPTH_MAX {
            return Err(broken("the header of a page has structs in structs without end"));
        }
        match kind {
            TRUE | FALSE | BYTE => self.skip_bytes(1),
            I16..=I64 => self.number().map(|_| ()),
            DOUBLE => self.skip_bytes(8),
            UUID => self.skip_bytes(16),
            BINARY => {
                let count = self.unsigned()?;
                self.skip_bytes(count)
            }
            LIST | SET => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.unsigned()?,
                    few => u64::from(few),
                };
                (0..count).try_for_each(|_| self.skip(head & 0x0f, depth + 1))
            }
            MAP => {
                let count = self.unsigned()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip(kinds >> 4, depth + 1)?;
                    self.skip(kinds & 0x0f, depth + 1)
                })
            }
            STRUCT => {
                let mut last = 0;
                while let Some((kind, _)) = self.field(&mut last)? {
                    if !matches!(kind, TRUE | FALSE) {
                        self.skip(kind, depth + 1)?;
                    }
                }
                Ok(())
            }
            other => Err(broken(&format!("the header of a page has a value of type {other}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<PageHeader, String> {
        let mut rest = bytes;
        let header = PageHeader::read(&mut rest).map_err(|error| error.to_string())?;
        assert!(rest.is_empty(), "{rest:?}");
        Ok(header)
    }

    #[test]
    fn headers_are_read_with_what_is_to_be_skipped() {
        // Type 0, 300 bytes of 40, checksum -1; a data page with statistics of all types there are.
        let statistics = [
            0x5c, 0x18, 2, b'a', b'b', 0x16, 1, 0x11, 0x12, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x13, 9,
            0x19, 0x25, 2, 4, 0x1b, 1, 0x85, 1, b'k', 6, 0x1a, 0x11, 1, 0x1c, 0x11, 0x00, 0x00,
        ];
        let head = [0x15, 0, 0x15, 0xd8, 4, 0x15, 80, 0x15, 1, 0x1c];
        let page = [0x15, 20, 0x15, 0, 0x15, 6, 0x15, 8];
        // From field 4 on the statistics are number 5.
        let statistics = [&[0x1c][..], &statistics[1..]].concat();
        let bytes = [&head[..], &page, &statistics, &[0, 0]].concat();
        #[allow(deprecated, reason = "files of old writers have levels of it")]
        let content = Content::Data {
            value_count: 10,
            encoding: Encoding::PLAIN,
            definition_encoding: Encoding::RLE,
            repetition_encoding: Encoding::BIT_PACKED,
        };
        let expected = PageHeader { unpacked_bytes: 300, packed_bytes: 40, content };
        assert_eq!(read(&bytes), Ok(expected));
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn pages_of_version_2_are_packed_unless_they_say_no() {
        for (says, expected) in [(vec![], true), (vec![0x11], true), (vec![0x12], false)] {
            let bytes =
                [
                    &[
                        0x15, 6, 0x15, 8, 0x15, 8, 0x5c, 0x15, 2, 0x15, 0, 0x15, 2, 0x15, 16, 0x15,
                        4,
                    ][..],
                    &[0x15, 0],
                    &says,
                    &[0, 0],
                ]
                .concat();
            match read(&bytes).unwrap().content {
                Content::DataV2 { is_packed, definition_bytes, .. } => {
                    assert_eq!((is_packed, definition_bytes), (expected, 2));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_is_no_header_is_an_error_that_says_why() {
        let told = |bytes: &[u8]| read(bytes).unwrap_err();
        assert!(told(&[0]).contains("leaves something out"));
        assert!(told(&[0x15, 2, 0x15, 1, 0x15, 8, 0]).contains("count of -1"));
        assert!(told(&[0x1f]).contains("a value of type 15"));
        assert!(told(&[0xff; 40]).contains("type 15"));
        assert!(
            told(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
                .contains("number without end")
        );
        assert!(told(&[0x9c, 0x1c].repeat(20)).contains("structs in structs"));
        let unknown = [0x15, 0, 0x15, 2, 0x15, 2, 0x2c, 0x15, 2, 0x15, 98, 0x15, 6, 0x15, 6, 0, 0];
        assert!(told(&unknown).contains("encoding 49 of a page"));
    }
}
