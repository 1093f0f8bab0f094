//! What can be planted, to see that a campaign finds it: bugs of the device below, as it may have them
//! or as an engine makes them by what it asks of it, and bugs of the engine itself.

use nandu_storage::plant::EngineBug;

/// What goes wrong, unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bug {
    /// No bug is planted.
    #[default]
    None,
    /// Flushes are acknowledged and not done, as if the engine forgot them.
    FlushesIgnored,
    /// Torn pages are not repaired, as if the engine trusted the device.
    TornPagesTrusted,
    /// Every hundredth write is acknowledged and not done.
    WritesLost,
    /// Every hundredth write goes to the sectors behind its own.
    WritesMisdirected,
    /// Bits flip, and checksums of pages fit even so, as if the engine did not look at them.
    ChecksumsForged,
    /// The engine does something wrong. Only builds with the feature `plant` have these.
    OfEngine(EngineBug),
}

impl Bug {
    /// Those of the device.
    const OF_DEVICE: [Self; 5] = [
        Self::FlushesIgnored,
        Self::TornPagesTrusted,
        Self::WritesLost,
        Self::WritesMisdirected,
        Self::ChecksumsForged,
    ];

    /// All that this build can plant, or that any can.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::OF_DEVICE.into_iter().chain(EngineBug::ALL.map(Self::OfEngine))
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FlushesIgnored => "flushes-ignored",
            Self::TornPagesTrusted => "torn-pages-trusted",
            Self::WritesLost => "writes-lost",
            Self::WritesMisdirected => "writes-misdirected",
            Self::ChecksumsForged => "checksums-forged",
            Self::OfEngine(bug) => bug.label(),
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn of_label(label: &str) -> Option<Self> {
        std::iter::once(Self::None).chain(Self::all()).find(|bug| bug.label() == label)
    }

    /// Whether only many clients at once can meet it.
    #[must_use]
    pub const fn is_of_many(self) -> bool {
        match self {
            Self::OfEngine(bug) => bug.is_of_many(),
            _ => false,
        }
    }

    /// Whether it is looked for with a log on lines alone, where records arrive in any order.
    #[must_use]
    pub const fn is_of_lines(self) -> bool {
        matches!(self, Self::OfEngine(EngineBug::HolesPassedOver))
    }

    /// Whether this build can plant it.
    #[must_use]
    pub const fn is_built_in(self) -> bool {
        !matches!(self, Self::OfEngine(_)) || nandu_storage::plant::IS_BUILT_IN
    }
}
