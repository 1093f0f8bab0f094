//! Which files of a directory are a volume's, and by which numbers: lines of text.
//!
//! ```text
//!   nandu volume 1            the layout's version
//!   next 6                    the number of the next new file
//!   file 2 customers          is there
//!   new 5 orders              is there, or was about to be made
//!   gone invoices             was removed, or was about to be
//!   checksum 0a1b2c3d         CRC-32C of all before this line
//! ```
//!
//! 1. It is replaced as a whole: written beside, made durable, renamed.
//! 2. Numbers below `next` were given out, and are never used again.

use nandu_storage::FileId;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Its first line without the version.
const TITLE: &str = "nandu volume ";
/// The version that is written and read.
const VERSION: u32 = 1;

/// A file of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    /// Whether it may be missing, since it was about to be made.
    pub(super) is_new: bool,
}

/// What the lines say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) next_file: u32,
    pub(super) files: BTreeMap<FileId, Listed>,
    pub(super) gone: Vec<String>,
}

/// Why lines are no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// They are somebody else's.
    Foreign,
    /// They are of another version.
    OtherVersion(String),
    /// They were damaged.
    Damaged(&'static str),
}

impl Manifest {
    /// No files yet.
    pub(super) const fn new() -> Self {
        Self { next_file: 1, files: BTreeMap::new(), gone: Vec::new() }
    }

    /// Leaves out what is certain by now: the next manifest makes the directory durable again.
    pub(super) fn settle(&mut self) {
        self.gone.clear();
        self.files.values_mut().for_each(|listed| listed.is_new = false);
    }

    /// The lines.
    pub(super) fn encode(&self) -> String {
        let mut text = format!("{TITLE}{VERSION}\nnext {}\n", self.next_file);
        for (file, Listed { name, is_new }) in &self.files {
            let state = if *is_new { "new" } else { "file" };
            writeln!(text, "{state} {} {name}", file.0).expect("a string takes everything");
        }
        for name in &self.gone {
            writeln!(text, "gone {name}").expect("a string takes everything");
        }
        let sum = crc32c::crc32c(text.as_bytes());
        writeln!(text, "checksum {sum:08x}").expect("a string takes everything");
        text
    }

    /// What `bytes` say.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let Some(rest) = bytes.strip_prefix(TITLE.as_bytes()) else {
            return Err(Unreadable::Foreign);
        };
        let version = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if version != VERSION.to_string().as_bytes() {
            let version = String::from_utf8_lossy(&version[..version.len().min(16)]).into_owned();
            return Err(Unreadable::OtherVersion(version));
        }
        let damaged = |what| Err(Unreadable::Damaged(what));
        let Ok(text) = std::str::from_utf8(bytes) else { return damaged("it is not UTF-8") };
        let Some((body, sum)) = text.trim_end_matches('\n').rsplit_once("\nchecksum ") else {
            return damaged("its last line is missing");
        };
        let body = &text[..=body.len()];
        if u32::from_str_radix(sum, 16).ok() != Some(crc32c::crc32c(body.as_bytes())) {
            return damaged("it does not match its checksum");
        }
        let mut manifest = Self::new();
        for line in body.lines().skip(1) {
            if manifest.read_line(line).is_none() {
                return damaged("a line breaks its rules");
            }
        }
        Ok(manifest)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "next" => self.next_file = rest.parse().ok().filter(|&next| next > 0)?,
            "file" | "new" => {
                let (number, name) = rest.split_once(' ')?;
                let file = FileId(number.parse().ok()?);
                let listed = Listed { name: name.to_owned(), is_new: word == "new" };
                let is_known = self.files.values().any(|other| other.name == name);
                if is_known
                    || u32::from(file.0) >= self.next_file
                    || self.files.insert(file, listed).is_some()
                {
                    return None;
                }
            }
            "gone" => self.gone.push(rest.to_owned()),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let listed = |name: &str, is_new| Listed { name: name.into(), is_new };
        let files = [
            (FileId(2), listed("customers with spaces", false)),
            (FileId(5), listed("checksum 1", true)),
        ];
        Manifest { next_file: 6, files: files.into(), gone: vec!["käse".into()] }
    }

    #[test]
    fn what_was_written_is_read_back_and_any_changed_byte_is_found() {
        let text = manifest().encode();
        assert_eq!(Manifest::decode(text.as_bytes()), Ok(manifest()));
        assert_eq!(Manifest::decode(Manifest::new().encode().as_bytes()), Ok(Manifest::new()));
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(Manifest::decode(&bytes).is_err(), "byte {at}");
            assert!(Manifest::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn other_files_and_versions_are_told_apart() {
        assert_eq!(Manifest::decode(b""), Err(Unreadable::Foreign));
        assert_eq!(Manifest::decode(b"SQLite format 3\0"), Err(Unreadable::Foreign));
        let other = Manifest::decode(b"nandu volume 9\nnext 1\n");
        assert_eq!(other, Err(Unreadable::OtherVersion("9".into())));
        let sealed = |body: &str| {
            let sum = crc32c::crc32c(body.as_bytes());
            Manifest::decode(format!("{body}checksum {sum:08x}\n").as_bytes())
        };
        assert!(sealed("nandu volume 1\nnext 2\nfile 1 a\n").is_ok());
        for bad in ["next 0", "next 2\nfile 2 a", "next 3\nfile 1 a\nfile 2 a", "what 1", "next"] {
            assert!(sealed(&format!("nandu volume 1\n{bad}\n")).is_err(), "{bad}");
        }
    }
}
