//! The name of a file of a volume, checked.
//!
//! 1. Whatever directory it is looked up in, it names an entry of that directory: no slash, not `..`,
//!    nothing hidden. Names come from users and from bytes of unknown origin; both are made here.
//! 2. It is none of [`RESERVED_NAMES`], by which a volume in a directory keeps what it knows of itself.

use crate::StorageError;
use std::fmt::{Display, Formatter};

/// The longest name of a file, in bytes.
pub const FILE_NAME_BYTES_MAX: usize = 200;

/// The list of a directory's files, what it is called until it is durable, and the directory's lock.
pub const RESERVED_NAMES: [&str; 3] = ["nandu.files", "nandu.files.new", "nandu.lock"];

/// A name that a file of a volume may have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(String);

impl FileName {
    /// Checks a name.
    ///
    /// # Errors
    /// If it is empty or longer than [`FILE_NAME_BYTES_MAX`], begins with a full stop, has a slash or a
    /// control character, or is reserved.
    pub fn new(name: &str) -> Result<Self, StorageError> {
        if name.len() > FILE_NAME_BYTES_MAX {
            return Err(StorageError::TooLarge {
                what: "the name of a file".to_owned(),
                found_bytes: name.len() as u64,
                limit_bytes: FILE_NAME_BYTES_MAX as u64,
            });
        }
        let invalid = |what: String| Err(StorageError::InvalidSetting { what });
        if name.is_empty()
            || name.starts_with('.')
            || name.contains(['/', '\\'])
            || name.contains(char::is_control)
        {
            return invalid(format!(
                "{name:?} is no name for a file: it needs letters, no slash and no full stop in front"
            ));
        }
        if RESERVED_NAMES.contains(&name) {
            return invalid(format!("{name} is a name that only the volume itself uses"));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for FileName {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_inside_a_directory_are_names() {
        for good in ["a", "customers.sqlite", "käse 2", "nandu.sqlite", "a..b"] {
            assert_eq!(FileName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "../x", "/abs", "a/b", "a\\b", ".hidden", "a\nb", "a\0"] {
            let refused = FileName::new(bad);
            assert!(matches!(refused, Err(StorageError::InvalidSetting { .. })), "{bad:?}");
        }
        assert!(RESERVED_NAMES.iter().all(|name| FileName::new(name).is_err()));
        let longest = "n".repeat(FILE_NAME_BYTES_MAX);
        assert!(FileName::new(&longest).is_ok());
        let refused = FileName::new(&format!("{longest}n"));
        assert!(matches!(refused, Err(StorageError::TooLarge { .. })));
    }
}
