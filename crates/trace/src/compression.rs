//! Gzip and zstd, recognised by their first bytes and undone while a trace is read.
//!
//! 1. Memory is bounded: a window of gzip is 32 KiB, one of zstd at most 128 MiB.
//! 2. Members (gzip) and frames (zstd) that follow each other are one stream; checksums are checked.
//! 3. An end in the middle is an error that says so, and so is something else behind the end, with its
//!    byte in the file.

use flate2::bufread::GzDecoder;
use nandu_base::ByteCount;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Cursor, Error, ErrorKind, Read};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Skippable frames begin with this, but for the lowest four bits of the first byte.
const ZSTD_SKIPPABLE_MAGIC: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];
/// Bytes by which a format is known.
const MAGIC_BYTES: usize = 4;
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
    // A pipe may bring the first byte alone.
    let mut start = [0; MAGIC_BYTES];
    let known = read_up_to(&mut stream, &mut start)?;
    let start = start[..known].to_vec();
    let stream = Counted { stream: Cursor::new(start.clone()).chain(stream), consumed_bytes: 0 };
    if start.starts_with(&GZIP_MAGIC) {
        return Ok((Box::new(Gzip::Between(Some(stream))), Compression::Gzip));
    }
    if known == MAGIC_BYTES && (start == ZSTD_MAGIC || begins_skippable(&start)) {
        let zstd = Zstd { stream, decoder: FrameDecoder::new(), in_frame: false };
        return Ok((Box::new(zstd), Compression::Zstd));
    }
    Ok((Box::new(stream), Compression::None))
}

/// A stream that knows how much of it was taken.
struct Counted<S> {
    stream: S,
    consumed_bytes: u64,
}

impl<S: BufRead> Read for Counted<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let count = self.stream.read(buffer)?;
        self.consumed_bytes += count as u64;
        Ok(count)
    }
}

impl<S: BufRead> BufRead for Counted<S> {
    fn fill_buf(&mut self) -> Result<&[u8], Error> {
        self.stream.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.consumed_bytes += count as u64;
        self.stream.consume(count);
    }
}

/// Members of gzip, one behind the other.
enum Gzip<S> {
    Member(GzDecoder<Counted<S>>),
    /// Before a member, or behind the last one; `None` while one takes the place of the other.
    Between(Option<Counted<S>>),
}

impl<S: BufRead> Gzip<S> {
    /// Begins the next member; false at the end of the stream.
    fn next_member(&mut self) -> Result<bool, Error> {
        let Self::Between(stream) = self else { return Ok(true) };
        let waiting = stream.as_mut().expect("a stream is between members, or in one");
        let byte = waiting.consumed_bytes;
        let start = waiting.fill_buf()?;
        if start.is_empty() {
            return Ok(false);
        }
        let known = start.len().min(GZIP_MAGIC.len());
        if start[..known] != GZIP_MAGIC[..known] {
            return Err(goes_on("gzip", byte));
        }
        *self = Self::Member(GzDecoder::new(stream.take().expect("it was there")));
        Ok(true)
    }

    fn end_member(&mut self) {
        if let Self::Member(decoder) = std::mem::replace(self, Self::Between(None)) {
            *self = Self::Between(Some(decoder.into_inner()));
        }
    }
}

impl<S: BufRead> Read for Gzip<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        loop {
            let Self::Member(decoder) = self else {
                if !self.next_member()? {
                    return Ok(0);
                }
                continue;
            };
            let count = decoder.read(buffer).map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof => ends_early("gzip"),
                kind => Error::new(kind, format!("the gzip data is damaged: {error}")),
            })?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.end_member();
        }
    }
}

/// What lies behind the end is nothing of the kind.
fn goes_on(what: &str, byte: u64) -> Error {
    let text = format!(
        "the {what} data ends at byte {byte} of the file, and something else is behind it; cut that off \
         (head -c {byte}), or fetch the file again"
    );
    Error::new(ErrorKind::InvalidData, text)
}

fn ends_early(what: &str) -> Error {
    let text = format!("the {what} data ends early; the file was cut, fetch it again");
    Error::new(ErrorKind::UnexpectedEof, text)
}

struct Zstd<S> {
    stream: Counted<S>,
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
            let (byte, mut magic) = (self.stream.consumed_bytes, [0; MAGIC_BYTES]);
            let known = read_up_to(&mut self.stream, &mut magic)?;
            let is_skippable = begins_skippable(&magic[..known]);
            if !is_skippable && magic[..known] != ZSTD_MAGIC[..known] {
                return Err(goes_on("zstd", byte));
            }
            if known < magic.len() {
                return Err(ends_early("zstd"));
            }
            if is_skippable {
                let mut length = [0; 4];
                self.stream.read_exact(&mut length).map_err(|_| ends_early("zstd"))?;
                let length = u64::from(u32::from_le_bytes(length));
                let skipped = std::io::copy(&mut self.stream.by_ref().take(length), &mut Nowhere)?;
                if skipped < length {
                    return Err(ends_early("zstd"));
                }
                continue;
            }
            self.decoder.init((&magic[..]).chain(&mut self.stream)).map_err(
                |error| match error {
                    FrameDecoderError::WindowSizeTooBig { requested, max } => {
                        window_is_too_large(requested, max)
                    }
                    error => damaged(&error, &mut self.stream),
                },
            )?;
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

/// Whether a frame that is to be skipped may begin so.
fn begins_skippable(start: &[u8]) -> bool {
    let of_frame = |(index, byte): (usize, &u8)| if index == 0 { byte & 0xf0 } else { *byte };
    start.iter().enumerate().map(of_frame).eq(ZSTD_SKIPPABLE_MAGIC.into_iter().take(start.len()))
}

/// Fills `target` as far as there are bytes, and says how far.
fn read_up_to(stream: &mut impl Read, target: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < target.len() {
        match stream.read(&mut target[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// What is packed so that unpacking it takes more memory than anybody is given here.
fn window_is_too_large(wanted: u64, most: u64) -> Error {
    let (wanted, most) = (ByteCount(wanted), ByteCount(most));
    let text = format!(
        "the zstd data was packed with a window of {wanted}, and {most} is the largest that is unpacked \
         here; unpack it before (zstd -d --long=31), or pack it anew with a smaller one (--long=27)"
    );
    Error::new(ErrorKind::Unsupported, text)
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
    use std::io::Write;

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

    /// Brings a byte at a time, as a slow pipe may.
    struct Slow(Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn what_is_packed_is_known_however_its_bytes_come_and_whatever_is_skipped_first() {
        let text = b"128166372003061629,hm,0,Read,383496192,32768,413\n".repeat(40);
        // As pzstd has it: the size of the frame behind.
        let packed = zstd(&text);
        let size = u32::try_from(packed.len()).unwrap().to_le_bytes();
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], &size].concat();
        let framed = [skipped, packed.clone()].concat();
        for (bytes, compression) in [
            (framed, Compression::Zstd),
            (packed, Compression::Zstd),
            (gzip(&text), Compression::Gzip),
            (text.clone(), Compression::None),
            (text[..2].to_vec(), Compression::None),
        ] {
            let expected = if bytes.len() < 4 { &text[..2] } else { &text };
            let (mut stream, found) = decompress(Slow(Cursor::new(bytes.clone()))).unwrap();
            let mut slow = Vec::new();
            stream.read_to_end(&mut slow).unwrap();
            assert!(slow == expected && found == compression, "{found:?}");
            assert_eq!(content(bytes).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_window_that_is_too_large_is_told_with_a_remedy() {
        // A frame as zstd --long=30 begins one: no size is said, the window is 2^(10 + 20) bytes.
        let frame = [&ZSTD_MAGIC[..], &[0, 20 << 3], &[1, 0, 0]].concat();
        let said = content(frame).unwrap_err();
        assert!(said.contains("a window of 1 GiB") && said.contains("--long=27"), "{said}");
        assert!(!said.contains("damaged"), "{said}");
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
    fn what_is_behind_the_end_is_told_with_its_byte() {
        let lines = lines();
        for (packed, name) in [(gzip(&lines), "gzip"), (zstd(&lines), "zstd")] {
            for behind in [&b"x"[..], b"\n", &[0; 7], b"<html>not found</html>", &[0; 5000]] {
                let error = content([&packed[..], behind].concat()).unwrap_err();
                let expected = format!("the {name} data ends at byte {} of the file", packed.len());
                assert!(error.starts_with(&expected), "{error}");
            }
            // What begins as another one does was cut.
            for length in 1..10 {
                let error = content([&packed[..], &packed[..length]].concat()).unwrap_err();
                assert!(error.starts_with(&format!("the {name} data ends early")), "{error}");
            }
        }
        let skippable = [&zstd(&lines)[..], &[0x5a, 0x2a, 0x4d]].concat();
        assert!(content(skippable).unwrap_err().contains("ends early"));
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
