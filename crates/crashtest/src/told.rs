//! A scenario in words, as `nandu crash --seed` prints it before it runs the seed.

use crate::{Bug, ChipLaws, Drive, Faults, Scenario};
use nandu_base::ByteCount;
use nandu_storage::Settings;
use nandu_storage::engine::TornPages;
use nandu_storage::log::{Durability, LogWritingKind};
use nandu_storage::pool::ReplacementKind;

/// What of a scenario, and how it is.
type Line = (&'static str, String);

impl Scenario {
    /// Everything that the seed chose, each with what it is about.
    #[must_use]
    pub fn told(&self) -> Vec<(&'static str, String)> {
        let ground = match (self.files_apart, &self.drive, &self.chips) {
            (true, _, _) => "files in memory, each synced by itself",
            (false, None, None) => "sectors in memory",
            (false, None, Some(_)) => "sectors in memory, its pages on raw flash",
            (false, Some(_), _) => "a simulated SSD",
        };
        let mut lines =
            vec![("seed", self.seed.to_string()), ("database lies on", ground.to_owned())];
        lines.extend(told_settings(&self.settings));
        lines.extend([
            ("sector of the device", bytes(self.sector_bytes)),
            ("capacity of the device", bytes(self.device_bytes)),
            ("log lies on", either(self.log_apart, "a device of its own", "the tables' device")),
        ]);
        lines.extend(self.line_bytes.map(|line| ("line of the log's device", bytes(line))));
        lines.extend(self.drive.iter().flat_map(told_drive));
        lines.extend(self.chips.iter().flat_map(told_chips));
        let tables = match (self.has_heap, self.changes_catalog, self.loads_tables) {
            (false, false, _) => "one with a key",
            (true, false, _) => "one with a key, a heap with an index",
            (false, true, false) => "one with a key, others that come and go",
            (false, true, true) => "one with a key, others that come and go, some of them loaded",
            (true, true, false) => "one with a key, a heap with an index, others that come and go",
            (true, true, true) => {
                "one with a key, a heap with an index, others that come and go, some of them loaded"
            }
        };
        let document =
            self.document.map(|mapping| ("document", format!("mapped {}", mapping.label())));
        lines.extend(document);
        if self.warehouse_count > 0 {
            lines.push(("warehouses of TPC-C", self.warehouse_count.to_string()));
        }
        lines.extend([
            ("tables", tables.to_owned()),
            ("that with a key is", either(self.keyed_is_raw, "a raw tree", "clustered")),
            ("keys", format!("of {}", self.key_count)),
            ("values", format!("at most {}", bytes(self.value_bytes_max))),
            ("database is opened", format!("{} times", self.life_count)),
            ("transactions of a life", format!("at most {}", self.transaction_count_max)),
            ("changes of a transaction", format!("at most {}", self.change_count_max)),
            (
                "rollbacks",
                either(self.rolls_back, "of some transactions, in part or whole", "none"),
            ),
            ("what goes wrong", told_faults(self.faults)),
        ]);
        if self.bug != Bug::None {
            lines.push(("planted bug", self.bug.label().to_owned()));
        }
        lines
    }
}

fn told_settings(settings: &Settings) -> [Line; 9] {
    let replacement = match settings.replacement {
        ReplacementKind::Clock => "clock",
        ReplacementKind::TwoQ => "two queues",
        ReplacementKind::Lru => "least recently used",
    };
    let torn_pages = match (settings.torn_pages, settings.double_write_bytes) {
        (TornPages::LogImages, _) => "mended from images in the log".to_owned(),
        (TornPages::DoubleWrite, None) => "mended from a double write".to_owned(),
        (TornPages::DoubleWrite, Some(lap)) => {
            format!("mended from a double write with laps of {}", bytes(lap))
        }
        (TornPages::Trust, _) => "not mended, the device is trusted".to_owned(),
    };
    let durability = match settings.durability {
        Durability::EveryCommit => "each by itself".to_owned(),
        Durability::Grouped { commit_count } => format!("{commit_count} at a time"),
        Durability::None => "some time later".to_owned(),
    };
    [
        ("page", bytes(settings.page_bytes)),
        ("buffer pool", bytes(settings.pool_bytes)),
        ("page that leaves the pool", replacement.to_owned()),
        ("changed pages are written", settings.propagation.kind.told().to_owned()),
        ("torn pages", torn_pages),
        ("commits become durable", durability),
        ("log", bytes(settings.log_bytes)),
        (
            "records of the log",
            match settings.log_writing {
                LogWritingKind::Buffered => "collected and written together".to_owned(),
                LogWritingKind::Direct => "written one by one as they come".to_owned(),
            },
        ),
        ("checkpoint after a log of", bytes(settings.checkpoint_bytes)),
    ]
}

fn told_drive(drive: &Drive) -> Vec<Line> {
    let config = &drive.config;
    let chips = format!(
        "{} channels, {} dies each, {} planes each",
        config.channel_count,
        config.dies_per_channel,
        config.planes_per_die.unwrap_or(1)
    );
    let layer = toml::to_string(&config.ftl).expect("a layer's parameters are a table of TOML");
    let layer: Vec<&str> = layer.lines().collect();
    let spare = f64::from(config.over_provisioning_ppm) / 10_000.0;
    let bad = f64::from(config.chip_overrides.factory_bad_ppm.unwrap_or(0)) / 10_000.0;
    let recovery = match drive.recovery_cuts_max {
        0 => "gets to its end".to_owned(),
        most => format!("is cut at most {most} times before one gets to its end"),
    };
    vec![
        ("chips of the SSD", format!("{} ({chips})", config.chip)),
        ("translation layer", layer.join(", ")),
        ("mapping unit", bytes(drive.unit_bytes)),
        ("spare room", format!("{spare} %")),
        ("bad erase blocks when new", format!("{bad} %")),
        ("commands at once", config.native_queue_depth.to_string()),
        ("read-ahead", bytes(config.read_ahead_bytes)),
        ("write buffer", bytes(config.write_buffer_bytes)),
        ("open mapping units", config.open_unit_count.to_string()),
        ("memory of the SSD", either(config.power_loss_protected, "survives a cut", "is lost")),
        ("SSD at the start", either(drive.is_full, "written once over", "empty")),
        ("recovery of the SSD", recovery),
    ]
}

fn told_faults(faults: Faults) -> String {
    let Faults { power_cuts, failed_requests, lasting, cuts_at_restart_max, flipped_bits } = faults;
    if flipped_bits {
        return "bits flip between two lives".to_owned();
    }
    let mut told = Vec::new();
    if power_cuts {
        told.push("power cuts".to_owned());
    }
    if failed_requests {
        let ever = if lasting { ", some sectors for ever" } else { "" };
        told.push(format!("requests that fail{ever}"));
    }
    if cuts_at_restart_max > 0 {
        told.push(format!("at most {cuts_at_restart_max} cuts in a row while it is opened"));
    }
    if told.is_empty() { "nothing but that processes end".to_owned() } else { told.join("; ") }
}

fn bytes(count: impl Into<u64>) -> String {
    ByteCount(count.into()).to_string()
}

fn told_chips(laws: &ChipLaws) -> Vec<Line> {
    let pages = laws.erase_block_pages;
    vec![
        ("flash page of the raw flash", bytes(laws.flash_page_bytes)),
        ("its erase blocks have", format!("{pages} flash pages")),
        (
            "an interrupted program",
            either(
                laws.has_paired_pages,
                "also destroys the flash page before it, if that is its pair",
                "destroys its flash page alone",
            ),
        ),
        ("bad erase blocks", either(laws.has_bad_erase_blocks, "some from the factory", "none")),
    ]
}

fn either(is_first: bool, first: &str, second: &str) -> String {
    if is_first { first.to_owned() } else { second.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorldKind;

    #[test]
    fn a_scenario_is_told_in_words_in_every_world() {
        for world in WorldKind::ALL {
            for seed in 0..200 {
                let told = Scenario::of_seed(seed, world, Bug::None).told();
                assert_eq!(told[0], ("seed", seed.to_string()));
                for (what, how) in told {
                    let word = how.split(' ').next().unwrap();
                    assert!(
                        !how.is_empty() && !word.starts_with(char::is_uppercase),
                        "{what}: {how}"
                    );
                    for sign in ["Some(", "None", "true", "false", "::", "{", "\n"] {
                        // A layer's parameters are those of a profile, in its notation.
                        let is_layer = what == "translation layer" && sign != "\n";
                        assert!(is_layer || !how.contains(sign), "{what}: {how}");
                    }
                }
            }
        }
        let told = Scenario::of_seed(2, WorldKind::Ssd, Bug::WritesLost).told();
        assert!(told.contains(&("page that leaves the pool", "least recently used".to_owned())));
        assert!(told.contains(&("planted bug", "writes-lost".to_owned())), "{told:?}");
        let layer = told.iter().find(|(what, _)| *what == "translation layer").unwrap();
        assert_eq!(layer.1, "kind = \"bast\", log_block_count = 4, victim = \"lru\"");
    }
}
