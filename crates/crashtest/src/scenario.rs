//! What one seed means: settings, operations, faults (swarm testing, Groce et al., ISSTA 2012: each
//! seed leaves some features out, so that others come up more often).

use crate::crowd::client::Mix;
use crate::drive::Drive;
use crate::{Bug, ChipLaws, WorldKind, documents};
use nandu_base::{Rng, to_index, to_u32};
use nandu_device::{FaultPlan, UnflushedFate};
use nandu_storage::Settings;
use nandu_storage::engine::TornPages;
use nandu_storage::log::{Durability, LogWritingKind};
use nandu_storage::plant::Planted;
use nandu_storage::pool::ReplacementKind;
use nandu_storage::propagation::{MediumKind, PropagationKind, PropagationSettings};
use nandu_xml::MappingKind;

/// Most bytes between checkpoints in memory, and on a simulated SSD unless pages are large.
const CHECKPOINT_BYTES_MAX: u64 = 8 << 20;
const SSD_CHECKPOINT_BYTES_MAX: u64 = 256 << 10;
/// A checkpoint interval has room for so many pages.
const CHECKPOINT_PAGES_MIN: u64 = 16;

/// Which kinds of fault a life may end with, beside being closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Whether the power may go in the middle of a life.
    pub power_cuts: bool,
    /// Requests that fail, some of them syncs that lose what they were to make durable.
    pub failed_requests: bool,
    /// Whether what cannot be read once may be unreadable for ever.
    pub lasting: bool,
    /// Power cuts while the database is being opened, at most so many in a row.
    pub cuts_at_restart_max: u64,
    /// Bits that flip between two lives. Nothing else goes wrong then, so that what was lost or told is
    /// their doing.
    pub flipped_bits: bool,
}

impl Faults {
    /// Faults that a history may meet, drawn by `one_of`.
    fn any(one_of: &mut impl FnMut(&[u64]) -> u64) -> Self {
        let power_cuts = one_of(&[0, 1, 1, 1, 1]) == 1;
        Self {
            power_cuts,
            failed_requests: one_of(&[0, 1]) == 1,
            lasting: one_of(&[0, 0, 0, 1]) == 1,
            cuts_at_restart_max: one_of(&[0, 1, 3]),
            flipped_bits: false,
        }
    }

    /// Bits flip and nothing else happens.
    const FLIPPED_BITS: Self = Self {
        power_cuts: false,
        failed_requests: false,
        lasting: false,
        cuts_at_restart_max: 0,
        flipped_bits: true,
    };
}

/// Pages of pool and log that many clients have room in.
const CROWD_FRAMES_MIN: u64 = 64;
const CROWD_LOG_PAGES_MIN: u64 = 512;

/// Documents have labels, which such pages have room for.
const DOCUMENT_PAGE_BYTES_MIN: u32 = 2048;

/// Those who use a database at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// In each life there are two clients at least, and so many at most.
    pub(crate) client_count_max: u32,
    /// How many of them compute at once.
    pub(crate) core_count: u32,
    /// Most transactions of one client in one life.
    pub(crate) transaction_count_max: u64,
    /// Whether a snapshot may be told that its pages are not kept.
    pub(crate) may_be_too_old: bool,
    pub(crate) mix: Mix,
}

/// A simulated history: its workload, its device and its faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The seed from which everything else follows.
    pub seed: u64,
    /// The database's settings.
    pub settings: Settings,
    /// Bytes of a sector, the unit in which writes are torn.
    pub sector_bytes: u32,
    /// Capacity of the device.
    pub device_bytes: u64,
    /// The simulated SSD, where the world is one.
    pub drive: Option<Drive>,
    /// The raw flash that the pages lie on, where they do.
    pub chips: Option<ChipLaws>,
    /// Whether files are synced one by one.
    pub files_apart: bool,
    /// Whether the log has a device of its own.
    pub log_apart: bool,
    /// Bytes of a line of that device, where it is a memory written by lines.
    pub line_bytes: Option<u32>,
    /// How often the database is opened.
    pub life_count: u64,
    /// Most transactions of one life.
    pub transaction_count_max: u64,
    /// Most changes of one transaction.
    pub change_count_max: u64,
    /// Most bytes of a value.
    pub value_bytes_max: u64,
    /// Keys are drawn from so many.
    pub key_count: u64,
    /// Whether the table with a key, which is always there, is a raw tree.
    pub keyed_is_raw: bool,
    /// Whether there is a heap with an index.
    pub has_heap: bool,
    /// Whether transactions are rolled back, in part or whole.
    pub rolls_back: bool,
    /// Whether tables come and go.
    pub changes_catalog: bool,
    /// Whether such a table may come with rows, loaded past the log.
    pub loads_tables: bool,
    /// The mapping of the XML document beside the tables, if there is one.
    pub document: Option<MappingKind>,
    /// Warehouses of TPC-C beside these tables; 0 for none.
    pub warehouse_count: u32,
    /// What goes wrong.
    pub faults: Faults,
    /// What goes wrong and is not said.
    pub bug: Bug,
}

impl Scenario {
    /// The history of a seed. In every world it has the same workload, as far as the drive has room.
    #[must_use]
    pub fn of_seed(seed: u64, world: WorldKind, bug: Bug) -> Self {
        let mut scenario = Self::in_memory(seed, bug);
        match world {
            WorldKind::Memory => {}
            WorldKind::Ssd => scenario.move_to(Drive::of_seed(seed)),
            WorldKind::Files => scenario.files_apart = true,
            WorldKind::Chips => scenario.lay_pages_on_chips(),
            WorldKind::Lines => scenario.lay_log_on_lines(),
        }
        scenario
    }

    /// The history of a seed with many clients: the same settings, with room for what they have open at
    /// once, and no bits that flip.
    #[must_use]
    pub fn of_crowd(seed: u64, world: WorldKind, bug: Bug) -> Self {
        let mut scenario = Self::of_seed(seed, world, bug);
        let mut rng = Rng::for_part(seed, "many clients");
        let settings = &mut scenario.settings;
        let page_bytes = u64::from(settings.page_bytes);
        settings.pool_bytes = settings.pool_bytes.max(CROWD_FRAMES_MIN * page_bytes);
        settings.log_bytes = settings.log_bytes.max(CROWD_LOG_PAGES_MIN * page_bytes).max(4 << 20);
        settings.version_bytes = [64 << 20, 64 << 20, 16 * page_bytes][to_index(rng.below(3))];
        settings.lock_timeout_ns = [10_000_000_000, 1_000_000, 0][to_index(rng.below(3))];
        settings.commit_delay_ns = [0, 0, 100_000][to_index(rng.below(3))];
        scenario.device_bytes = scenario.device_bytes.max((64 << 20) + 2 * settings.log_bytes);
        if scenario.faults.flipped_bits {
            let cuts_at_restart_max = 1;
            scenario.faults = Faults {
                power_cuts: true,
                failed_requests: true,
                lasting: false,
                cuts_at_restart_max,
                flipped_bits: false,
            };
        }
        scenario
    }

    /// The history of a seed with an XML document beside the tables, on pages that have room for labels.
    #[must_use]
    pub fn of_document(seed: u64, world: WorldKind, bug: Bug) -> Self {
        let mut scenario = Self::of_seed(seed, world, bug);
        scenario.enlarge_pages();
        scenario.document = Some(documents::mapping(&mut Rng::for_part(seed, "document")));
        scenario
    }

    /// The history of a seed with many clients that all change one document.
    #[must_use]
    pub fn of_document_crowd(seed: u64, world: WorldKind, bug: Bug) -> Self {
        let mut scenario = Self::of_crowd(seed, world, bug);
        scenario.enlarge_pages();
        // What was acknowledged has to be there, and who has a moment is to see it to its end.
        scenario.settings.durability = Durability::EveryCommit;
        scenario.settings.version_bytes = Settings::default().version_bytes;
        scenario
    }

    /// The history of a seed with terminals of TPC-C, on pages that have room for a customer.
    #[must_use]
    pub fn of_tpcc(seed: u64, world: WorldKind, bug: Bug) -> Self {
        let mut scenario = Self::of_document_crowd(seed, world, bug);
        scenario.warehouse_count = to_u32(1 + Rng::for_part(seed, "warehouses").below(3));
        scenario
    }

    /// Pages that have room for labels.
    fn enlarge_pages(&mut self) {
        let seed = self.seed;
        let page_bytes = self.settings.page_bytes.max(DOCUMENT_PAGE_BYTES_MIN);
        let settings = &mut self.settings;
        let factor = u64::from(page_bytes / settings.page_bytes);
        settings.page_bytes = page_bytes;
        for bytes in
            [&mut settings.pool_bytes, &mut settings.checkpoint_bytes, &mut settings.log_bytes]
        {
            *bytes *= factor;
        }
        settings.double_write_bytes = settings.double_write_bytes.map(|bytes| bytes * factor);
        let kind = settings.propagation.kind;
        settings.propagation = PropagationSettings::small(kind, page_bytes, seed);
        self.device_bytes = self.device_bytes.max((16 << 20) + 2 * settings.log_bytes);
    }

    /// Raw flash for the pages, and a propagation that has them there.
    fn lay_pages_on_chips(&mut self) {
        let has_chips = |kind: &PropagationKind| {
            kind.other_media().iter().any(|(_, medium)| *medium == MediumKind::RawFlash)
        };
        let kinds = PropagationKind::ALL.iter().copied().filter(has_chips);
        let kinds: Vec<PropagationKind> = kinds.collect();
        let number = Rng::for_part(self.seed, "pages on chips").below(kinds.len() as u64);
        let (kind, page_bytes) = (kinds[to_index(number)], self.settings.page_bytes);
        self.settings.propagation = PropagationSettings::small(kind, page_bytes, self.seed);
        self.chips = Some(ChipLaws::of_seed(self.seed));
    }

    /// A memory for the log alone, which is written line by line.
    fn lay_log_on_lines(&mut self) {
        let mut rng = Rng::for_part(self.seed, "lines");
        self.log_apart = true;
        self.line_bytes = Some([64, 64, 64, 256][to_index(rng.below(4))]);
        self.settings.log_writing = match rng.below(4) {
            0 => LogWritingKind::Buffered,
            _ => LogWritingKind::Direct,
        };
    }

    /// A small drive, so that its layer has to clean and its recovery is quick.
    fn move_to(&mut self, drive: Drive) {
        let settings = &mut self.settings;
        let log_checkpoints = settings.log_bytes / settings.checkpoint_bytes;
        let least = CHECKPOINT_PAGES_MIN * u64::from(settings.page_bytes);
        let most = SSD_CHECKPOINT_BYTES_MAX.max(least);
        settings.checkpoint_bytes = settings.checkpoint_bytes.min(most);
        settings.log_bytes = (settings.checkpoint_bytes * log_checkpoints.min(6)).max(512 << 10);
        self.sector_bytes = self.sector_bytes.min(drive.unit_bytes);
        self.device_bytes = (16 << 20) + 2 * settings.log_bytes;
        self.value_bytes_max = self.value_bytes_max.min(2000);
        self.drive = Some(drive);
    }

    fn in_memory(seed: u64, bug: Bug) -> Self {
        let mut rng = Rng::for_part(seed, "scenario");
        let mut one_of = |choices: &[u64]| choices[to_index(rng.below(choices.len() as u64))];
        let page_bytes =
            one_of(&[512, 1024, 1024, 2048, 2048, 4096, 4096, 4096, 8192, 16_384, 32_768, 65_536]);
        let frame_count = one_of(&[32, 40, 64, 200]);
        let interval_pages = one_of(&[CHECKPOINT_PAGES_MIN, 32, 128, 1024]);
        let checkpoint_bytes = (page_bytes * interval_pages).min(CHECKPOINT_BYTES_MAX);
        let log_bytes = (checkpoint_bytes * one_of(&[4, 6, 16])).max(512 << 10);
        let sector_bytes = one_of(&[512, 512, 512, 4096]).min(page_bytes);
        let double_write_pages = Some(one_of(&[2, 2, 2, 4, 0])).filter(|&count| count > 0);
        let torn_pages = match one_of(&[0, 1, 1]) {
            _ if bug == Bug::TornPagesTrusted => TornPages::Trust,
            0 => TornPages::LogImages,
            _ => TornPages::DoubleWrite,
        };
        let durability = match one_of(&[0, 0, 0, 1, 2]) {
            0 => Durability::EveryCommit,
            1 => Durability::Grouped { commit_count: 5 },
            _ => Durability::None,
        };
        let replacement = match one_of(&[0, 1, 2]) {
            0 => ReplacementKind::Clock,
            1 => ReplacementKind::TwoQ,
            _ => ReplacementKind::Lru,
        };
        let propagation = any_propagation(&mut one_of, bug);
        let settings = Settings {
            page_bytes: to_u32(page_bytes),
            pool_bytes: frame_count * page_bytes,
            replacement,
            propagation: PropagationSettings::small(propagation, to_u32(page_bytes), seed),
            torn_pages,
            double_write_bytes: double_write_pages.map(|page_count| page_count * page_bytes),
            durability,
            log_bytes,
            checkpoint_bytes,
            ..Settings::default()
        };
        let faults = Faults::any(&mut one_of);
        let flips_bits = one_of(&[1, 0, 0, 0, 0, 0]) == 1 || bug == Bug::ChecksumsForged;
        Self {
            seed,
            settings,
            sector_bytes: to_u32(sector_bytes),
            device_bytes: (64 << 20) + 2 * log_bytes,
            drive: None,
            chips: None,
            files_apart: false,
            log_apart: one_of(&[0, 1]) == 1,
            line_bytes: None,
            life_count: one_of(&[3, 4, 6]),
            transaction_count_max: one_of(&[5, 20, 60]),
            change_count_max: one_of(&[1, 4, 20, 60]),
            value_bytes_max: one_of(&[20, 120, 120, 1000, 20_000]),
            key_count: one_of(&[10, 100, 1000]),
            keyed_is_raw: Rng::for_part(seed, "raw").below(3) == 0,
            has_heap: one_of(&[0, 1]) == 1,
            rolls_back: one_of(&[0, 1]) == 1,
            changes_catalog: one_of(&[0, 0, 1]) == 1,
            faults: if flips_bits { Faults::FLIPPED_BITS } else { faults },
            loads_tables: one_of(&[0, 1]) == 1,
            document: None,
            warehouse_count: 0,
            bug,
        }
    }

    /// Plants the engine's bug, if that is where it is.
    pub(crate) fn plant(&self) -> Result<Option<Planted>, String> {
        let Bug::OfEngine(bug) = self.bug else { return Ok(None) };
        Planted::new(bug).map(Some).map_err(|error| error.to_string())
    }

    /// A plan that cuts the power at request `at`.
    pub(crate) fn cut(&self, rng: &mut Rng, at: u64) -> FaultPlan {
        FaultPlan { power_cut_at_request: Some(at), ..self.fate(rng) }
    }

    /// A plan that says what a cut takes, whenever it comes.
    pub(crate) fn fate(&self, rng: &mut Rng) -> FaultPlan {
        let torn = UnflushedFate::Torn;
        let fates = [UnflushedFate::Dropped, UnflushedFate::Kept, torn, torn];
        let unflushed = match self.bug {
            Bug::TornPagesTrusted => UnflushedFate::Torn,
            _ => fates[to_index(rng.below(4))],
        };
        let torn = rng.below(9);
        FaultPlan {
            torn_sector_count: (torn > 0).then_some(to_u32(torn)),
            unflushed,
            seed: rng.next_u64(),
            ..FaultPlan::default()
        }
    }
}

/// A propagation, the first three times as often as all others together, since most bugs that can be planted are
/// of it. One that needs more than volumes is left out.
fn any_propagation(one_of: &mut impl FnMut(&[u64]) -> u64, bug: Bug) -> PropagationKind {
    let has_volumes = |kind: &PropagationKind| {
        kind.other_media().iter().all(|(_, medium)| *medium == MediumKind::Volume)
    };
    let others = (1..).zip(&PropagationKind::ALL[1..]).filter(|(_, kind)| has_volumes(kind));
    let others: Vec<u64> = others.map(|(it, _)| it).collect();
    let numbers: Vec<u64> = std::iter::repeat_n(0, 3 * others.len()).chain(others).collect();
    let drawn = PropagationKind::ALL[to_index(one_of(&numbers))];
    match bug {
        // What these plant is something about pages in their places.
        Bug::TornPagesTrusted | Bug::ChecksumsForged => PropagationKind::default(),
        _ => drawn,
    }
}
