//! Columns that are packed as the crate `parquet` is not built to undo: their pages are read and unpacked
//! here. All else is the crate's.
//!
//! 1. Pages come in the order of the file, those of unknown content left out.
//! 2. No page reaches behind the end of its column.

use super::WholeFile;
use super::codec::Codec;
use super::page_header::{Content, PageHeader};
use bytes::Bytes;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;
use std::io::Read;
use std::sync::Arc;

/// A file of Parquet, packed in any way.
pub(super) struct PackedFile {
    inner: SerializedFileReader<WholeFile>,
    file: Arc<WholeFile>,
}

impl PackedFile {
    pub(super) fn new(file: WholeFile) -> Result<Self> {
        let again = WholeFile(file.0.try_clone()?);
        Ok(Self { inner: SerializedFileReader::new(file)?, file: Arc::new(again) })
    }
}

impl FileReader for PackedFile {
    fn metadata(&self) -> &ParquetMetaData {
        self.inner.metadata()
    }

    fn num_row_groups(&self) -> usize {
        self.inner.num_row_groups()
    }

    fn get_row_group(&self, index: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        Ok(Box::new(Group { inner: self.inner.get_row_group(index)?, file: &self.file }))
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

struct Group<'f> {
    inner: Box<dyn RowGroupReader + 'f>,
    file: &'f Arc<WholeFile>,
}

impl RowGroupReader for Group<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.inner.metadata()
    }

    fn num_columns(&self) -> usize {
        self.inner.num_columns()
    }

    fn get_column_page_reader(&self, index: usize) -> Result<Box<dyn PageReader>> {
        let column = self.inner.metadata().column(index);
        let Some(codec) = Codec::of(column.compression()) else {
            return self.inner.get_column_page_reader(index);
        };
        let (offset, remaining_bytes) = column.byte_range();
        let file = Arc::clone(self.file);
        Ok(Box::new(Pages { file, codec, offset, remaining_bytes, header: None }))
    }

    fn get_column_bloom_filter(&self, index: usize) -> Option<&Sbbf> {
        self.inner.get_column_bloom_filter(index)
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

/// The pages of one column of a group of rows.
struct Pages {
    file: Arc<WholeFile>,
    codec: Codec,
    /// Where the next header begins or, if that is read already, what follows it.
    offset: u64,
    remaining_bytes: u64,
    /// That of the next page, if it was asked for.
    header: Option<PageHeader>,
}

impl Pages {
    /// Reads the header of the next page that is not skipped, unless that has been done.
    fn next_header(&mut self) -> Result<Option<&PageHeader>> {
        while self.header.is_none() && self.remaining_bytes > 0 {
            let mut rest = self.file.get_read(self.offset)?.take(self.remaining_bytes);
            let header = PageHeader::read(&mut rest)?;
            self.pass(self.remaining_bytes - rest.limit());
            if header.packed_bytes as u64 > self.remaining_bytes {
                return Err(general("a page reaches behind the end of its column"));
            }
            match header.content {
                Content::Other => self.pass(header.packed_bytes as u64),
                _ => self.header = Some(header),
            }
        }
        Ok(self.header.as_ref())
    }

    fn pass(&mut self, byte_count: u64) {
        self.offset += byte_count;
        self.remaining_bytes -= byte_count;
    }

    /// The bytes of the page of this header, of which the first ones are not packed.
    fn unpacked(&mut self, header: &PageHeader) -> Result<Bytes> {
        let packed = self.file.get_bytes(self.offset, header.packed_bytes)?;
        self.pass(header.packed_bytes as u64);
        let plain_bytes = match header.content {
            Content::DataV2 { is_packed: false, .. } => return Ok(packed),
            Content::DataV2 { definition_bytes, repetition_bytes, .. } => {
                nandu_base::to_index(u64::from(definition_bytes) + u64::from(repetition_bytes))
            }
            _ => 0,
        };
        let (Some(rest), Some(length)) =
            (packed.get(plain_bytes..), header.unpacked_bytes.checked_sub(plain_bytes))
        else {
            return Err(general("the levels of a page are longer than the page"));
        };
        let mut bytes = packed[..plain_bytes].to_vec();
        // A page of nulls alone has no values, and its writer may have packed nothing.
        if length > 0 {
            self.codec.unpack(rest, length, &mut bytes).map_err(ParquetError::General)?;
        }
        Ok(bytes.into())
    }
}

fn general(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.next_header()?;
        let Some(header) = self.header.take() else { return Ok(None) };
        let buf = self.unpacked(&header)?;
        Ok(Some(match header.content {
            Content::Data { value_count, encoding, definition_encoding, repetition_encoding } => {
                Page::DataPage {
                    buf,
                    num_values: value_count,
                    encoding,
                    def_level_encoding: definition_encoding,
                    rep_level_encoding: repetition_encoding,
                    statistics: None,
                }
            }
            Content::DataV2 {
                value_count,
                null_count,
                row_count,
                encoding,
                definition_bytes,
                repetition_bytes,
                is_packed,
            } => Page::DataPageV2 {
                buf,
                num_values: value_count,
                encoding,
                num_nulls: null_count,
                num_rows: row_count,
                def_levels_byte_len: definition_bytes,
                rep_levels_byte_len: repetition_bytes,
                is_compressed: is_packed,
                statistics: None,
            },
            Content::Dictionary { value_count, encoding, is_sorted } => {
                Page::DictionaryPage { buf, num_values: value_count, encoding, is_sorted }
            }
            Content::Other => unreachable!("next_header passes them"),
        }))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(self.next_header()?.map(|header| {
            let (rows, levels) = match header.content {
                Content::Data { value_count, .. } => (None, Some(value_count)),
                Content::DataV2 { value_count, row_count, .. } => {
                    (Some(row_count), Some(value_count))
                }
                Content::Dictionary { .. } | Content::Other => (None, None),
            };
            PageMetadata {
                num_rows: rows.map(|count| nandu_base::to_index(count.into())),
                num_levels: levels.map(|count| nandu_base::to_index(count.into())),
                is_dict: matches!(header.content, Content::Dictionary { .. }),
            }
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.next_header()?;
        if let Some(header) = self.header.take() {
            self.pass(header.packed_bytes as u64);
        }
        Ok(())
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
