//! How pages of Parquet are unpacked. Nothing here packs: the crate `parquet` would bring the other half of
//! each library, and Zstandard's in C, into the first build (decision 003).
//!
//! 1. A page becomes no longer than its header says, but for a byte that shows it; no memory is taken for
//!    what its bytes cannot hold. Zstandard's window, up to 100 MiB, comes on top.
//! 2. Checksums that packed bytes carry are checked.

use brotli_decompressor::Decompressor as Brotli;
use flate2::bufread::MultiGzDecoder;
use parquet::basic::Compression;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fmt::Display;
use std::io::Read;

/// No block of LZ4 becomes more times as long: a byte of its own adds at most 255 to a length.
const LZ4_FACTOR_MAX: usize = 255;
const BROTLI_BUFFER_BYTES: usize = 4 << 10;
/// Before each block of Hadoop's LZ4: its length unpacked and packed, four bytes each, the highest first.
const HADOOP_PREFIX_BYTES: usize = 8;

/// A way of packing that the crate does not undo for us.
pub(super) enum Codec {
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// Blocks of LZ4 as Hadoop frames them; older writers put a frame of LZ4's own or a bare block there.
    Lz4Hadoop,
    /// One bare block of LZ4.
    Lz4Raw,
    /// RFC 8878; with what the decoder keeps from one page to the next.
    Zstd(Box<FrameDecoder>),
}

impl Codec {
    /// `None` for what the crate reads by itself, or refuses.
    pub(super) fn of(compression: Compression) -> Option<Self> {
        match compression {
            Compression::GZIP(_) => Some(Self::Gzip),
            Compression::BROTLI(_) => Some(Self::Brotli),
            Compression::LZ4 => Some(Self::Lz4Hadoop),
            Compression::LZ4_RAW => Some(Self::Lz4Raw),
            Compression::ZSTD(_) => Some(Self::Zstd(Box::new(FrameDecoder::new()))),
            _ => None,
        }
    }

    /// Adds the `length` bytes to `target` that `packed` becomes, or says what is wrong with them.
    pub(super) fn unpack(
        &mut self,
        packed: &[u8],
        length: usize,
        target: &mut Vec<u8>,
    ) -> Result<(), String> {
        let start = target.len();
        match self {
            Self::Gzip => read_all(MultiGzDecoder::new(packed), "gzip", length, target)?,
            Self::Brotli => {
                read_all(Brotli::new(packed, BROTLI_BUFFER_BYTES), "Brotli", length, target)?;
            }
            Self::Lz4Raw => lz4_block(packed, length, target)?,
            Self::Lz4Hadoop => lz4_of_any_writer(packed, length, target)?,
            Self::Zstd(decoder) => zstd(decoder, packed, start + length, target)?,
        }
        match target.len() - start {
            unpacked if unpacked == length => Ok(()),
            _ => Err(format!("a page does not become the {length} bytes that its header says")),
        }
    }
}

fn damaged(name: &str, why: impl Display) -> String {
    format!("the {name} data of a page is damaged: {why}")
}

fn read_all(
    packed: impl Read,
    name: &str,
    length: usize,
    target: &mut Vec<u8>,
) -> Result<(), String> {
    // One more than there should be, so that too many are noticed, and what follows the last is checked.
    let most = u64::try_from(length).unwrap_or(u64::MAX).saturating_add(1);
    packed.take(most).read_to_end(target).map_err(|error| damaged(name, error))?;
    Ok(())
}

fn lz4_block(packed: &[u8], length: usize, target: &mut Vec<u8>) -> Result<(), String> {
    if length / LZ4_FACTOR_MAX > packed.len() {
        return Err(damaged("LZ4", format!("{} bytes are not {length}", packed.len())));
    }
    let start = target.len();
    target.resize(start + length, 0);
    let unpacked = lz4_flex::block::decompress_into(packed, &mut target[start..]);
    let unpacked = unpacked.map_err(|error| damaged("LZ4", error))?;
    target.truncate(start + unpacked);
    Ok(())
}

fn lz4_of_any_writer(packed: &[u8], length: usize, target: &mut Vec<u8>) -> Result<(), String> {
    let start = target.len();
    if hadoop_blocks(packed, start + length, target).is_some() && target.len() == start + length {
        return Ok(());
    }
    target.truncate(start);
    let frame = lz4_flex::frame::FrameDecoder::new(packed);
    if read_all(frame, "LZ4", length, target).is_ok() && target.len() == start + length {
        return Ok(());
    }
    target.truncate(start);
    lz4_block(packed, length, target)
}

/// `None` where the bytes are no blocks of Hadoop's, or would make `target` longer than `most`.
fn hadoop_blocks(mut packed: &[u8], most: usize, target: &mut Vec<u8>) -> Option<()> {
    while !packed.is_empty() {
        let (prefix, rest) = packed.split_at_checked(HADOOP_PREFIX_BYTES)?;
        let number = |bytes: &[u8]| {
            let number = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
            nandu_base::to_index(number.into())
        };
        let (length, packed_bytes) = (number(&prefix[..4]), number(&prefix[4..]));
        let (block, rest) = rest.split_at_checked(packed_bytes)?;
        if length > most - target.len() {
            return None;
        }
        lz4_block(block, length, target).ok()?;
        packed = rest;
    }
    Some(())
}

/// Frames one after the other, whose content makes `target` no longer than `most`.
fn zstd(
    decoder: &mut FrameDecoder,
    mut packed: &[u8],
    most: usize,
    target: &mut Vec<u8>,
) -> Result<(), String> {
    while !packed.is_empty() {
        match decoder.init(&mut packed) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = nandu_base::to_index(length.into());
                packed = packed.get(length..).ok_or_else(|| damaged("zstd", "it ends early"))?;
                continue;
            }
            Err(error) => return Err(damaged("zstd", error)),
        }
        while !decoder.is_finished() {
            decoder
                .decode_blocks(&mut packed, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(|error| damaged("zstd", error))?;
            if decoder.can_collect() > most - target.len() {
                return Err(damaged("zstd", "it is longer than its page"));
            }
            decoder.collect_to_writer(&mut *target).map_err(|error| damaged("zstd", error))?;
        }
        if let (Some(stored), Some(computed)) =
            (decoder.get_checksum_from_data(), decoder.get_calculated_checksum())
            && stored != computed
        {
            return Err(damaged("zstd", "a checksum does not match"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write;

    /// Packed bytes of each format that a crate of this build can make; Brotli stands in the samples.
    fn packed_by_all(bytes: &[u8]) -> Vec<(Codec, Vec<u8>)> {
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        let block = lz4_flex::block::compress(bytes);
        let (left, right) = bytes.split_at(bytes.len() / 3);
        let mut hadoop = Vec::new();
        for part in [left, right] {
            let packed = lz4_flex::block::compress(part);
            hadoop.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
            hadoop.extend(u32::try_from(packed.len()).unwrap().to_be_bytes());
            hadoop.extend(packed);
        }
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(bytes).unwrap();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let skipped = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let frames = [left, right].map(|part| ruzstd::encoding::compress_to_vec(part, level));
        vec![
            (Codec::Gzip, gzip.finish().unwrap()),
            (Codec::Lz4Raw, block.clone()),
            (Codec::Lz4Hadoop, hadoop),
            (Codec::Lz4Hadoop, frame.finish().unwrap()),
            (Codec::Lz4Hadoop, block),
            (
                Codec::of(Compression::ZSTD(Default::default())).unwrap(),
                [skipped, frames.concat()].concat(),
            ),
        ]
    }

    proptest! {
        #[test]
        fn pages_are_what_they_were(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 1..3000),
                (1_usize..400_000, any::<u8>()).prop_map(|(count, byte)| vec![byte; count]),
                prop::collection::vec(0_u8..4, 1..100_000),
            ]
        ) {
            for (mut codec, packed) in packed_by_all(&bytes) {
                let mut target = b"levels".to_vec();
                codec.unpack(&packed, bytes.len(), &mut target).unwrap();
                prop_assert_eq!(&target[..6], b"levels");
                prop_assert_eq!(&target[6..], &bytes);
            }
        }

        #[test]
        fn a_page_of_another_length_is_an_error_and_takes_no_more_memory(
            count in 2_usize..200_000, wrong in 1_usize..200_000,
        ) {
            prop_assume!(wrong != count);
            for (mut codec, packed) in packed_by_all(&vec![7; count]) {
                let mut target = Vec::new();
                prop_assert!(codec.unpack(&packed, wrong, &mut target).is_err());
                prop_assert!(target.len() <= wrong + 1, "{} of {wrong}", target.len());
            }
        }
    }

    #[test]
    fn bytes_that_could_not_become_so_long_take_no_memory() {
        let mut target = Vec::new();
        let told = Codec::Lz4Raw.unpack(&[0; 100], 1 << 30, &mut target).unwrap_err();
        assert_eq!(told, "the LZ4 data of a page is damaged: 100 bytes are not 1073741824");
        assert_eq!(target.capacity(), 0);
    }
}
