//! What kind of text a document is made from, and comes out as.

use serde::{Deserialize, Serialize};

/// The language of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentFormat {
    /// XML 1.0.
    #[default]
    Xml,
    /// JSON, RFC 8259.
    Json,
}

impl DocumentFormat {
    /// All formats, by their codes.
    pub const ALL: [Self; 2] = [Self::Xml, Self::Json];

    /// The name that users write.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Xml => "xml",
            Self::Json => "json",
        }
    }

    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}
