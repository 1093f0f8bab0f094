//! Which files of a directory are a volume's, and by which numbers: lines of text.
//!
//! ```text
//!   nandu volume 2            the layout's version
//!   making 0a1b2c3d4e5f6071   what this is part of; `made` once it is complete
//!   file 2 4096 customers     is there, and records of the log from 4096 on may speak of it
//!   new 5 - orders            is there, or was about to be made; no log speaks of it
//!   gone invoices             was removed, or was about to be
//!   checksum 0a1b2c3d         CRC-32C of all before this line
//! ```
//!
//! 1. It is replaced as a whole: written beside, made durable, renamed.
//! 2. Every name is a [`FileName`]; no two files have the same name or number.
//! 3. While the state is `making`, all files that it names are worth nothing.

use nandu_storage::volume::{FileName, NO_RECORDS};
use nandu_storage::{FileId, Lsn};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Its first line without the version.
const TITLE: &str = "nandu volume ";
/// The version that is written and read.
pub(super) const VERSION: u32 = 2;
/// Longer ones are not read: 65,535 files with the longest names take half as much.
pub(super) const BYTES_MAX: u64 = 32 << 20;

/// A file of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: FileName,
    /// The first record of a log that may speak of it.
    pub(super) records_from: Lsn,
    /// Whether it may be missing, since it was about to be made.
    pub(super) is_new: bool,
}

/// What the lines say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Volumes of one database share it.
    pub(super) identity: u64,
    /// Whether what the volume was made for is complete.
    pub(super) is_made: bool,
    pub(super) files: BTreeMap<FileId, Listed>,
    pub(super) gone: Vec<FileName>,
}

/// Why lines are no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// There are none.
    Empty,
    /// They are somebody else's.
    Foreign,
    /// They are of another version.
    OtherVersion(String),
    /// They were damaged.
    Damaged(&'static str),
}

impl Unreadable {
    /// What is wrong with the directory, in words.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Empty => {
                "its nandu.files is empty; if a database was here, restore it from a copy"
                    .to_owned()
            }
            Self::Foreign => "its nandu.files is another program's".to_owned(),
            Self::OtherVersion(version) => {
                format!("its layout has version {version}, this program reads {VERSION}")
            }
            Self::Damaged(what) => (*what).to_owned(),
        }
    }
}

impl Manifest {
    /// No files yet.
    pub(super) const fn new(identity: u64, is_made: bool) -> Self {
        Self { identity, is_made, files: BTreeMap::new(), gone: Vec::new() }
    }

    /// Leaves out what is certain by now: the next manifest makes the directory durable again.
    pub(super) fn settle(&mut self) {
        self.gone.clear();
        self.files.values_mut().for_each(|listed| listed.is_new = false);
    }

    /// Every name in it.
    pub(super) fn names(&self) -> impl Iterator<Item = &FileName> {
        self.files.values().map(|listed| &listed.name).chain(&self.gone)
    }

    /// The manifest as the lines of its file.
    pub(super) fn encode(&self) -> String {
        let state = if self.is_made { "made" } else { "making" };
        let mut text = format!("{TITLE}{VERSION}\n{state} {:016x}\n", self.identity);
        for (file, Listed { name, records_from, is_new }) in &self.files {
            let state = if *is_new { "new" } else { "file" };
            let from = match *records_from {
                NO_RECORDS => "-".to_owned(),
                Lsn(from) => from.to_string(),
            };
            writeln!(text, "{state} {} {from} {name}", file.0).expect("a string takes everything");
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
        if bytes.is_empty() {
            return Err(Unreadable::Empty);
        }
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
        let mut lines = body.lines().skip(1);
        let state = lines.next().and_then(|line| line.split_once(' '));
        let Some((state @ ("making" | "made"), identity)) = state else {
            return damaged("it does not say whether the volume is complete");
        };
        let Ok(identity) = u64::from_str_radix(identity, 16) else {
            return damaged("its second line has no number");
        };
        let mut manifest = Self::new(identity, state == "made");
        let mut names = BTreeSet::new();
        for line in lines {
            if manifest.read_line(line, &mut names).is_none() {
                return damaged("a line breaks its rules");
            }
        }
        Ok(manifest)
    }

    fn read_line<'t>(&mut self, line: &'t str, names: &mut BTreeSet<&'t str>) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "file" | "new" => {
                let (number, rest) = rest.split_once(' ')?;
                let (from, name) = rest.split_once(' ')?;
                let file = number.parse().ok().filter(|&number| number > 0).map(FileId)?;
                let records_from = match from {
                    "-" => NO_RECORDS,
                    from => Lsn(from.parse().ok()?),
                };
                let is_new = word == "new";
                let listed = Listed { name: FileName::new(name).ok()?, records_from, is_new };
                if !names.insert(name) || self.files.insert(file, listed).is_some() {
                    return None;
                }
            }
            "gone" => self.gone.push(FileName::new(rest).ok()?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let name = |name: &str| FileName::new(name).unwrap();
        let listed = |text: &str, records_from, is_new| {
            let name = name(text);
            Listed { name, records_from, is_new }
        };
        let files = [
            (FileId(2), listed("customers with spaces", Lsn(4096), false)),
            (FileId(5), listed("checksum 1", NO_RECORDS, true)),
        ];
        Manifest { identity: 7, is_made: true, files: files.into(), gone: vec![name("käse")] }
    }

    /// With the checksum that its maker would give it.
    fn sealed(body: &str) -> Result<Manifest, Unreadable> {
        let sum = crc32c::crc32c(body.as_bytes());
        Manifest::decode(format!("{body}checksum {sum:08x}\n").as_bytes())
    }

    #[test]
    fn what_was_written_is_read_back_and_any_changed_byte_is_found() {
        let text = manifest().encode();
        assert_eq!(Manifest::decode(text.as_bytes()), Ok(manifest()));
        let empty = Manifest::new(u64::MAX, false);
        assert_eq!(Manifest::decode(empty.encode().as_bytes()), Ok(empty));
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(Manifest::decode(&bytes).is_err(), "byte {at}");
            assert!(Manifest::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn other_files_and_versions_are_told_apart() {
        assert_eq!(Manifest::decode(b""), Err(Unreadable::Empty));
        assert_eq!(Manifest::decode(b"SQLite format 3\0"), Err(Unreadable::Foreign));
        let other = Manifest::decode(b"nandu volume 9\nmade 1\n");
        assert_eq!(other, Err(Unreadable::OtherVersion("9".into())));
        assert!(sealed("nandu volume 2\nmade 1\nfile 1 0 a\n").is_ok());
        assert!(sealed("nandu volume 2\nfile 1 0 a\n").is_err(), "it does not say that it is made");
        for bad in ["file 0 0 a", "file 1 a", "file 1 x a", "what 1", "gone", "made 2"] {
            assert!(sealed(&format!("nandu volume 2\nmade 1\n{bad}\n")).is_err(), "{bad}");
        }
        for twice in ["file 1 0 a\nfile 2 0 a", "file 1 0 a\nfile 1 0 b"] {
            assert!(sealed(&format!("nandu volume 2\nmade 1\n{twice}\n")).is_err(), "{twice}");
        }
    }

    #[test]
    fn names_that_lead_out_of_the_directory_are_refused_with_a_right_checksum() {
        for bad in [
            "gone ../victim",
            "gone /abs",
            "gone nandu.lock",
            "gone ..",
            "file 7 0 /abs",
            "file 7 0 a/b",
            "file 7 0 nandu.files",
            "new 8 - ../x",
            "new 8 - .",
        ] {
            let read = sealed(&format!("nandu volume 2\nmade 1\n{bad}\n"));
            assert_eq!(read, Err(Unreadable::Damaged("a line breaks its rules")), "{bad}");
        }
    }
}
