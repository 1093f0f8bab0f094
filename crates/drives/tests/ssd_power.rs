//! Power cuts of whole simulated drives: what a completed flush covered survives on every translation
//! layer that rebuilds its map, with and without a write buffer; what it did not cover is old or new,
//! sector by sector.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Nanos, Rng, to_index};
use nandu_device::testing::run;
use nandu_device::{Completion, Device, DeviceError, Geometry, IoBuffer, Operation, Request};
use nandu_drives::ssd::{Ssd, SsdConfig};
use nandu_ftl::FtlKind;
use std::collections::BTreeMap;

const SECTORS: u64 = 1024;
/// Bytes of an erase block of `myers_slc`.
const ERASE_BLOCK_BYTES: u64 = 64 * 2048;
const PLAIN: (&str, &str) = ("myers_slc", "{ kind = \"page\" }");
/// What page mapping can do besides, over a chip. The pages of `pdl_mlc` share cells.
const PAGE_MAPS: [(&str, &str); 3] = [
    ("myers_slc", "{ kind = \"page\", unit_bytes = 512 }"),
    ("pdl_mlc", "{ kind = \"page\", unit_bytes = 1024 }"),
    (
        "pdl_mlc",
        "{ kind = \"page\", checkpoint_interval_rows = 50, trim_durability = \"journaled\" }",
    ),
];

/// Drives of every layer; each has to recover.
fn drives() -> Vec<SsdConfig> {
    let of_kind =
        |kind: &FtlKind| SsdConfig { ftl: kind.small(ERASE_BLOCK_BYTES), ..config(PLAIN) };
    FtlKind::ALL.iter().map(of_kind).chain(PAGE_MAPS.map(config)).collect()
}

fn config((chip, ftl): (&str, &str)) -> SsdConfig {
    let text = format!(
        "chip = \"{chip}\"\nchannel_count = 2\ndies_per_channel = 1\n\
         over_provisioning_ppm = 250000\nnative_queue_depth = 8\nread_command_ns = 10000\n\
         write_command_ns = 20000\nlink_bytes_per_second = 100000000\nopen_unit_count = 2\n\
         power_cut_journal = true\nftl = {ftl}"
    );
    toml::from_str(&text).unwrap()
}

fn drive(config: &SsdConfig) -> Ssd {
    Ssd::new("test", Geometry::new(512, SECTORS).unwrap(), config, true, 1).unwrap()
}

/// `sector_count` sectors that hold nothing but `value`.
fn filled(value: u32, sector_count: u32) -> Option<IoBuffer> {
    Some(IoBuffer::copy_of(&value.to_le_bytes().repeat(128 * sector_count as usize)))
}

fn sector_values(ssd: &mut Ssd, first: u64, count: u32) -> Vec<u32> {
    let done = run(ssd, Request::read(0, first, count, filled(0, count)));
    done.result.unwrap();
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let bytes = done.buffer.unwrap();
    let values = bytes.chunks(512).map(|sector| {
        let value = word(&sector[..4]);
        assert!(sector.chunks(4).all(|part| word(part) == value), "a sector is never torn inside");
        value
    });
    values.collect()
}

#[derive(Clone, Copy, Debug)]
struct Event {
    value: u32,
    is_trim: bool,
    acknowledged_at: Nanos,
    durable_at: Nanos,
}

const NOTHING: Event =
    Event { value: 0, is_trim: false, acknowledged_at: Nanos::ZERO, durable_at: Nanos::ZERO };

/// The host: what it wrote where, in the order of submission.
struct Host {
    ssd: Ssd,
    sectors: Vec<Vec<Event>>,
    /// First sector, sectors and position in the history of each, by request.
    in_flight: BTreeMap<u64, (u64, Vec<usize>)>,
    next_id: u64,
    rng: Rng,
    /// Whether a flushed trim is durable.
    journaled: bool,
}

impl Host {
    fn new(config: &SsdConfig, seed: u64) -> Self {
        let sectors = vec![vec![NOTHING]; to_index(SECTORS)];
        let rng = Rng::new(seed);
        let journaled = format!("{:?}", config.ftl).contains("Journaled");
        let in_flight = BTreeMap::new();
        Self { ssd: drive(config), sectors, in_flight, next_id: 1, rng, journaled }
    }

    /// One request, with up to six others in flight.
    fn step(&mut self) {
        self.next_id += 1;
        let id = self.next_id;
        let count = nandu_base::to_u32(1 + self.rng.below(12));
        // A part of the drive, so that sectors are written again and again.
        let first = self.rng.below(SECTORS / 4 - 12) * (1 + 2 * self.rng.below(2));
        let value = u32::try_from(id).unwrap();
        let request = match self.rng.below(20) {
            0 => Request::flush(id),
            1 => Request::trim(id, first, count),
            _ => Request::write(id, first, count, filled(value, count)),
        };
        if request.operation != Operation::Flush {
            let is_trim = request.operation == Operation::Trim;
            let value = if is_trim { 0 } else { value };
            let (acknowledged_at, durable_at) = (Nanos::MAX, Nanos::MAX);
            let event = Event { value, is_trim, acknowledged_at, durable_at };
            let range = to_index(first)..to_index(first) + count as usize;
            let push = |history: &mut Vec<Event>| {
                history.push(event);
                history.len() - 1
            };
            let positions = self.sectors[range].iter_mut().map(push).collect();
            self.in_flight.insert(id, (first, positions));
        }
        self.ssd.submit(self.ssd.now(), request).unwrap();
        while u64::from(self.ssd.in_flight()) > self.rng.below(7) {
            let completion = self.ssd.next_completion(Nanos::MAX).unwrap();
            completion.result.as_ref().unwrap();
            self.learn(&completion);
        }
    }

    fn learn(&mut self, completion: &Completion) {
        if completion.result.is_err() {
            assert_eq!(completion.result, Err(DeviceError::PowerLost));
            return;
        }
        if completion.operation == Operation::Flush {
            for event in self.sectors.iter_mut().flatten() {
                if event.acknowledged_at <= completion.issued_at {
                    event.durable_at = event.durable_at.min(completion.completed_at);
                }
            }
            return;
        }
        let (first, positions) = self.in_flight.remove(&completion.id).unwrap();
        for (history, position) in self.sectors[to_index(first)..].iter_mut().zip(positions) {
            history[position].acknowledged_at = completion.completed_at;
        }
    }

    /// Cuts the power within the next milliseconds and checks every sector.
    fn cut(&mut self, acknowledged_is_durable: bool) {
        let at = self.ssd.now() + Nanos(self.rng.below(3_000_000));
        self.ssd.power_cut(at).unwrap();
        self.ssd.audit();
        while let Some(completion) = self.ssd.next_completion(Nanos::MAX) {
            assert!(completion.completed_at <= at, "nothing is told after the cut");
            self.learn(&completion);
        }
        self.in_flight.clear();
        assert_eq!(run(&mut self.ssd, Request::flush(1)).result, Err(DeviceError::PowerLost));
        let ready_at = self.ssd.power_on(at + Nanos(1000)).unwrap();
        assert!(ready_at >= at);
        self.ssd.audit();
        for (sector, history) in (0..SECTORS).zip(&mut self.sectors) {
            let value = sector_values(&mut self.ssd, sector, 1)[0];
            let keeps = |event: &Event| match acknowledged_is_durable {
                true => event.acknowledged_at <= at,
                false => event.durable_at <= at && (self.journaled || !event.is_trim),
            };
            let durable = history.iter().rposition(keeps).unwrap_or(0);
            let later = &history[durable..];
            // What a volatile trim covered may return.
            let revives = !acknowledged_is_durable && !self.journaled;
            let allowed = later.iter().any(|event| event.value == value)
                || (revives && later.iter().any(|event| event.is_trim));
            assert!(allowed, "sector {sector} holds {value} after {history:?}");
            *history = vec![Event { value, ..NOTHING }];
        }
        assert!(self.ssd.now() >= ready_at, "requests wait for the recovery");
    }
}

#[test]
fn flushed_sectors_survive_on_every_layer_that_recovers() {
    for drive in drives() {
        for write_buffer_bytes in [0, 32_768] {
            for seed in 0..12 {
                let config = SsdConfig { write_buffer_bytes, ..drive.clone() };
                let mut host = Host::new(&config, seed);
                for _ in 0..4 {
                    for _ in 0..host.rng.below(120) {
                        host.step();
                    }
                    host.cut(false);
                }
            }
        }
    }
}

#[test]
fn acknowledged_sectors_survive_behind_a_capacitor() {
    for drive in drives() {
        for seed in 0..6 {
            let config = SsdConfig {
                write_buffer_bytes: 32_768,
                power_loss_protected: true,
                ..drive.clone()
            };
            let mut host = Host::new(&config, seed);
            assert!(!host.ssd.info().volatile_cache);
            for _ in 0..4 {
                for _ in 0..host.rng.below(80) {
                    host.step();
                }
                host.cut(true);
            }
        }
    }
}

#[test]
fn a_request_is_torn_between_mapping_units_only() {
    let mut torn_count = 0;
    for delay_ns in (0..700_000).step_by(10_000) {
        let mut ssd = drive(&config(PLAIN));
        run(&mut ssd, Request::write(1, 0, 16, filled(1, 16))).result.unwrap();
        run(&mut ssd, Request::flush(2)).result.unwrap();
        ssd.submit(ssd.now(), Request::write(3, 0, 16, filled(2, 16))).unwrap();
        ssd.power_cut(ssd.now() + Nanos(delay_ns)).unwrap();
        let completion = ssd.next_completion(Nanos::MAX).unwrap();
        ssd.power_on(ssd.now()).unwrap();
        let values = sector_values(&mut ssd, 0, 16);
        for unit in values.chunks(4) {
            assert!(unit.iter().all(|&value| value == unit[0]), "{values:?}");
        }
        if completion.result.is_ok() {
            assert_eq!(values, [2; 16]);
        }
        torn_count += u32::from(values.contains(&1) && values.contains(&2));
    }
    assert!(torn_count > 0, "some cut falls between two units");
}

#[test]
fn a_drive_without_the_journal_refuses_a_cut() {
    let config = SsdConfig { power_cut_journal: false, ..config(PLAIN) };
    let refused = drive(&config).power_cut(Nanos(1));
    assert!(matches!(refused, Err(DeviceError::Unsupported { .. })), "{refused:?}");
}
