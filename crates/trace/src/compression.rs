//! Gzip and zstd, recognised by their first bytes and undone while a trace is read.
//!
//! 1. Memory is bounded: a window of gzip is 32 KiB, one of zstd at most 128 MiB.
//! 2. Members (gzip) and frames (zstd) that follow each other are one stream; checksums are checked.
//! 3. An end in the middle is an error that says so.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Skippable frames begin with this, but for the lowest four bits of the first byte.
const ZSTD_SKIPPABLE_MAGIC: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];
const BUFFER_BYTES: usize = 128 << 10;

/// How a stream is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// The stream is plain.
    #[default]
    None,
    /// The format of gzip, RFC 1952.
    Gzip,
    /// The format of Zstandard, RFC 8878.
    Zstd,
}

impl Compression {
    /// The name used in descriptions.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// The content of `stream`, uncompressed.
///
/// # Errors
/// If the stream cannot be read.
pub fn decompress(
    stream: impl Read + Send + 'static,
) -> Result<(Box<dyn Read + Send>, Compression), Error> {
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    let start = stream.fill_buf()?;
    if start.starts_with(&GZIP_MAGIC) {
        return Ok((Box::new(Gzip(MultiGzDecoder::new(stream))), Compression::Gzip));
    }
    if start.starts_with(&ZSTD_MAGIC) {
        let zstd = Zstd { stream, decoder: FrameDecoder::new(), in_frame: false };
        return Ok((Box::new(zstd), Compression::Zstd));
    }
    Ok((Box::new(stream), Compression::None))
}

struct Gzip<S>(MultiGzDecoder<S>);

impl<S: BufRead> Read for Gzip<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => ends_early("gzip"),
            kind => Error::new(kind, format!("the gzip data is damaged: {error}")),
        })
    }
}

fn ends_early(what: &str) -> Error {
    let text = format!("the {what} data ends early; the file was cut, fetch it again");
    Error::new(ErrorKind::UnexpectedEof, text)
}

struct Zstd<S> {
    stream: S,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<S: BufRead> Zstd<S> {
    /// Starts the next frame; false at the end of the stream.
    fn next_frame(&mut self) -> Result<bool, Error> {
        loop {
            if self.stream.fill_buf()?.is_empty() {
                return Ok(false);
            }
            let mut magic = [0; 4];
            self.stream.read_exact(&mut magic).map_err(|_| ends_early("zstd"))?;
            if (magic[0] & 0xf0) == ZSTD_SKIPPABLE_MAGIC[0]
                && magic[1..] == ZSTD_SKIPPABLE_MAGIC[1..]
            {
                let mut length = [0; 4];
                self.stream.read_exact(&mut length).map_err(|_| ends_early("zstd"))?;
                let length = u64::from(u32::from_le_bytes(length));
                let skipped = std::io::copy(&mut self.stream.by_ref().take(length), &mut Nowhere)?;
                if skipped < length {
                    return Err(ends_early("zstd"));
                }
                continue;
            }
            self.decoder
                .init((&magic[..]).chain(&mut self.stream))
                .map_err(|error| damaged(&error, &mut self.stream))?;
            self.in_frame = true;
            return Ok(true);
        }
    }

    fn check_frame(&self) -> Result<(), Error> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(computed)) if stored != computed => Err(Error::new(
                ErrorKind::InvalidData,
                "the zstd data is damaged: a checksum does not match",
            )),
            _ => Ok(()),
        }
    }
}

/// The decoder does not say whether the stream ended; a stream without more bytes tells.
fn damaged(error: &dyn std::fmt::Display, stream: &mut impl BufRead) -> Error {
    if stream.fill_buf().is_ok_and(<[u8]>::is_empty) {
        return ends_early("zstd");
    }
    Error::new(ErrorKind::InvalidData, format!("the zstd data is damaged: {error}"))
}

impl<S: BufRead> Read for Zstd<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        loop {
            if self.in_frame {
                let count = self.decoder.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
                if self.decoder.is_finished() {
                    self.check_frame()?;
                    self.in_frame = false;
                } else {
                    self.decoder
                        .decode_blocks(&mut self.stream, BlockDecodingStrategy::UptoBlocks(1))
                        .map_err(|error| damaged(&error, &mut self.stream))?;
                }
            } else if !self.next_frame()? {
                return Ok(0);
            }
        }
    }
}

struct Nowhere;

impl std::io::Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::{Cursor, Write};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn content(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
        let (mut stream, _) = decompress(Cursor::new(bytes)).unwrap();
        let mut content = Vec::new();
        stream.read_to_end(&mut content).map_err(|error| error.to_string())?;
        Ok(content)
    }

    fn lines() -> Vec<u8> {
        (0..40_000)
            .flat_map(|n: u32| format!("{n},{}\n", n.wrapping_mul(7919)).into_bytes())
            .collect()
    }

    #[test]
    fn members_and_frames_that_follow_each_other_are_one_stream() {
        let (left, right) = (lines(), b"and the rest".to_vec());
        let whole = [left.clone(), right.clone()].concat();
        assert_eq!(content([gzip(&left), gzip(&right)].concat()).unwrap(), whole);
        let skippable = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        assert_eq!(content([zstd(&left), skippable, zstd(&right)].concat()).unwrap(), whole);
        assert_eq!(content(right.clone()).unwrap(), right);
        assert_eq!(content(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn an_end_in_the_middle_is_an_error_at_every_length() {
        let text = b"128166372003061629,hm,0,Read,383496192,32768,413\n".repeat(40);
        for (packed, name) in [(gzip(&text), "gzip"), (zstd(&text), "zstd")] {
            for length in 5..packed.len() {
                let error = content(packed[..length].to_vec()).unwrap_err();
                assert!(
                    error.starts_with(&format!("the {name} data ends early")),
                    "{length} {error}"
                );
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_an_error() {
        let text = lines();
        for packed in [gzip(&text), zstd(&text)] {
            for position in (20..packed.len()).step_by(packed.len() / 40) {
                let mut damaged = packed.clone();
                damaged[position] ^= 4;
                assert!(content(damaged).is_err(), "{position}");
            }
        }
    }
}
