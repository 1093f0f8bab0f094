//! Draws the requests of a [`WorkloadSpec`].
//!
//! ```text
//!   start + slot · align
//!   │◄── size ──►│
//!   ├─ slot 0 ─┼─ slot 1 ─┼─ … ─┤   the last slot is the last at which the largest size fits
//! ```
//!
//! 1. Slots, operations, sizes and arrivals have random streams of their own: a workload with more
//!    reads, or at another rate, visits the same slots in the same order.
//! 2. A batch costs no allocation but that of the caller's vector.

use super::addresses::{Permuted, Sequential, Slots, Spread, Uniform, Zipf, Zones};
use super::arrivals::Arrivals;
use super::{Arrival, SizeShare, WHOLE_PPB, WorkloadKind, WorkloadSpec};
use crate::{Pacing, RequestSource, SourceStatistics, TraceError, TraceRequest};
use nandu_base::{Nanos, Permutation, Rng, to_index};
use nandu_device::Operation;
use std::ops::Range;

/// A seeded stream of requests.
#[derive(Clone, Debug)]
pub struct Generator {
    description: String,
    think_ns: Option<Nanos>,
    request_count: u64,
    remaining: u64,
    slot_count: u64,
    addresses: Addresses,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Addresses {
    Uniform(Uniform),
    Permuted(Permuted),
    Sequential(Sequential),
    Zipf(Zipf),
    SpreadZipf(Spread<Zipf>),
    Zones(Zones),
    SpreadZones(Spread<Zones>),
}

/// All of a request but its slot.
#[derive(Clone, Debug)]
struct Shape {
    start_bytes: u64,
    align_bytes: u64,
    operations: Rng,
    read_below: u64,
    trim_below: u64,
    sizes: Sizes,
    arrivals: Arrivals,
    flush_every: u64,
    writes_to_flush: u64,
}

#[derive(Clone, Copy, Debug)]
struct Size {
    length_bytes: u64,
    slot_span: u64,
}

#[derive(Clone, Debug)]
struct Sizes {
    rng: Rng,
    largest_bytes: u64,
    /// One size, or one for each percent.
    by_percent: Vec<Size>,
}

impl Generator {
    pub(super) fn new(
        spec: &WorkloadSpec,
        capacity_bytes: u64,
        unit_bytes: u64,
        seed: u64,
    ) -> Result<Self, String> {
        if unit_bytes == 0 {
            return Err("the unit of the drive is 0 bytes, must be at least 1".into());
        }
        let align_bytes = spec.align_bytes.unwrap_or(match spec.sizes[..] {
            [only] => only.size_bytes,
            _ => unit_bytes,
        });
        let sizes = Sizes::new(&spec.sizes, unit_bytes, align_bytes, seed);
        let rest = capacity_bytes.saturating_sub(spec.start_bytes);
        let area_bytes = spec.area_bytes.unwrap_or(rest);
        if area_bytes > rest || area_bytes < sizes.largest_bytes {
            return Err(format!(
                "{area_bytes} bytes from byte {} on, for requests of up to {} bytes, do not fit a \
                 drive of {capacity_bytes} bytes; lessen `start`, `area` or `size`",
                spec.start_bytes, sizes.largest_bytes
            ));
        }
        let slot_count = (area_bytes - sizes.largest_bytes) / align_bytes + 1;
        let read_below = bound_of(spec.read_ppb);
        let request_count = spec.request_count.unwrap_or(u64::MAX);
        Ok(Self {
            description: format!("workload {spec}, seed {seed}"),
            think_ns: match spec.arrival {
                Arrival::Closed { think_ns } => Some(think_ns),
                Arrival::Fixed { .. } | Arrival::Exponential { .. } => None,
            },
            request_count,
            remaining: request_count,
            slot_count,
            addresses: Addresses::new(spec, slot_count, seed)?,
            shape: Shape {
                start_bytes: spec.start_bytes,
                align_bytes,
                operations: Rng::for_part(seed, "workload operations"),
                read_below,
                trim_below: read_below.saturating_add(bound_of(spec.trim_ppb)),
                sizes,
                arrivals: Arrivals::new(spec.arrival, Rng::for_part(seed, "workload arrivals")),
                flush_every: spec.flush_every,
                writes_to_flush: spec.flush_every,
            },
        })
    }
}

impl Generator {
    /// Shows the bytes of every slot, up to the next one, with its stream; the last one ends with the
    /// largest request that fits it. Nothing where there is one stream, 0.
    pub(super) fn each_slot(&self, see: &mut dyn FnMut(Range<u64>, u8)) {
        let shape = &self.shape;
        let mut show = |slot: u64, stream: u8| {
            let start = shape.start_bytes + slot * shape.align_bytes;
            let length_bytes = match slot + 1 == self.slot_count {
                true => shape.sizes.largest_bytes,
                false => shape.align_bytes,
            };
            see(start..start + length_bytes, stream);
        };
        match &self.addresses {
            Addresses::Zones(zones) => zones.slots().for_each(|(slot, of)| show(slot, of)),
            Addresses::SpreadZones(Spread { ranks, permutation }) => {
                ranks.slots().for_each(|(rank, of)| show(permutation.apply(rank), of));
            }
            Addresses::Uniform(_)
            | Addresses::Permuted(_)
            | Addresses::Sequential(_)
            | Addresses::Zipf(_)
            | Addresses::SpreadZipf(_) => {}
        }
    }
}

/// A draw below this has the chance `ppb`.
fn bound_of(ppb: u32) -> u64 {
    let bound = (u128::from(ppb) << 64) / u128::from(WHOLE_PPB);
    u64::try_from(bound).unwrap_or(u64::MAX)
}

impl Addresses {
    fn new(spec: &WorkloadSpec, slot_count: u64, seed: u64) -> Result<Self, String> {
        let rng = Rng::for_part(seed, "workload slots");
        let permutation = || Permutation::new(slot_count, seed);
        if slot_count > 1 << 62 {
            return Err(format!("{slot_count} slots are past 2^62; use a larger `align`"));
        }
        Ok(match &spec.kind {
            WorkloadKind::Uniform => Self::Uniform(Uniform::new(slot_count, rng)),
            WorkloadKind::Permuted => Self::Permuted(Permuted::new(slot_count, rng)),
            WorkloadKind::Sequential => Self::Sequential(Sequential::new(slot_count)),
            WorkloadKind::Zipf { theta_ppm } => {
                let ranks = Zipf::new(slot_count, *theta_ppm, rng);
                if spec.clustered {
                    Self::Zipf(ranks)
                } else {
                    Self::SpreadZipf(Spread { ranks, permutation: permutation() })
                }
            }
            WorkloadKind::Zones { classes } => {
                let ranks = Zones::new(classes, slot_count, rng)?;
                if spec.clustered {
                    Self::Zones(ranks)
                } else {
                    Self::SpreadZones(Spread { ranks, permutation: permutation() })
                }
            }
        })
    }
}

impl Sizes {
    fn new(shares: &[SizeShare], unit_bytes: u64, align_bytes: u64, seed: u64) -> Self {
        let size = |length_bytes: u64| Size {
            length_bytes,
            slot_span: length_bytes.div_ceil(align_bytes),
        };
        let by_percent = match shares {
            [] => vec![size(unit_bytes)],
            [only] => vec![size(only.size_bytes)],
            shares => shares
                .iter()
                .flat_map(|share| {
                    std::iter::repeat_n(size(share.size_bytes), usize::from(share.percent))
                })
                .collect(),
        };
        let largest_bytes =
            by_percent.iter().map(|size| size.length_bytes).max().unwrap_or(unit_bytes);
        Self { rng: Rng::for_part(seed, "workload sizes"), largest_bytes, by_percent }
    }

    #[inline]
    fn next(&mut self) -> Size {
        match self.by_percent[..] {
            [only] => only,
            _ => self.by_percent[to_index(self.rng.below(self.by_percent.len() as u64))],
        }
    }
}

impl Shape {
    /// Appends `count` requests, and the flushes between them.
    #[inline]
    fn fill(&mut self, slots: &mut impl Slots, batch: &mut Vec<TraceRequest>, count: usize) {
        batch.reserve(count);
        if self.is_plain() {
            let size = self.sizes.by_percent[0];
            batch.extend((0..count).map(|_| {
                let (slot, stream) = slots.next(size.slot_span);
                self.request(slot, stream, size.length_bytes, Operation::Write, Nanos::ZERO)
            }));
            return;
        }
        for _ in 0..count {
            let size = self.sizes.next();
            let (slot, stream) = slots.next(size.slot_span);
            let operation = self.operation();
            let at = self.arrivals.next();
            batch.push(self.request(slot, stream, size.length_bytes, operation, at));
            if self.flush_every > 0 && operation == Operation::Write {
                self.writes_to_flush -= 1;
                if self.writes_to_flush == 0 {
                    self.writes_to_flush = self.flush_every;
                    batch.push(TraceRequest {
                        at,
                        operation: Operation::Flush,
                        offset_bytes: 0,
                        length_bytes: 0,
                        stream,
                    });
                }
            }
        }
    }

    /// Writes of one size that all arrive at zero.
    fn is_plain(&self) -> bool {
        self.trim_below == 0
            && self.flush_every == 0
            && self.sizes.by_percent.len() == 1
            && matches!(self.arrivals, Arrivals::Closed)
    }

    #[inline]
    fn operation(&mut self) -> Operation {
        if self.trim_below == 0 {
            return Operation::Write;
        }
        // Nobody can predict the operation, so it is looked up rather than branched to.
        let draw = self.operations.next_u64();
        let index = usize::from(draw >= self.read_below) + usize::from(draw >= self.trim_below);
        [Operation::Read, Operation::Trim, Operation::Write][index]
    }

    #[inline]
    fn request(
        &self,
        slot: u64,
        stream: u8,
        length_bytes: u64,
        operation: Operation,
        at: Nanos,
    ) -> TraceRequest {
        let offset_bytes = self.start_bytes + slot * self.align_bytes;
        TraceRequest { at, operation, offset_bytes, length_bytes, stream }
    }
}

impl RequestSource for Generator {
    fn next_batch(
        &mut self,
        batch: &mut Vec<TraceRequest>,
        limit: usize,
    ) -> Result<(), TraceError> {
        let count = usize::try_from(self.remaining).unwrap_or(limit).min(limit);
        self.remaining -= count as u64;
        let shape = &mut self.shape;
        match &mut self.addresses {
            Addresses::Uniform(slots) => shape.fill(slots, batch, count),
            Addresses::Permuted(slots) => shape.fill(slots, batch, count),
            Addresses::Sequential(slots) => shape.fill(slots, batch, count),
            Addresses::Zipf(slots) => shape.fill(slots, batch, count),
            Addresses::SpreadZipf(slots) => shape.fill(slots, batch, count),
            Addresses::Zones(slots) => shape.fill(slots, batch, count),
            Addresses::SpreadZones(slots) => shape.fill(slots, batch, count),
        }
        Ok(())
    }

    fn pacing(&self) -> Pacing {
        self.think_ns.map_or(Pacing::Open, |think_ns| Pacing::Closed { think_ns })
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn audit(&self) {
        assert!(self.remaining <= self.request_count, "requests are taken, not given");
        assert!(
            self.shape.writes_to_flush <= self.shape.flush_every,
            "a flush is never further away than its distance"
        );
        assert!(
            self.shape.read_below <= self.shape.trim_below,
            "reads and trims have shares of one whole"
        );
    }

    fn statistics(&self) -> SourceStatistics {
        let request_count = self.request_count - self.remaining;
        SourceStatistics { request_count, ..SourceStatistics::default() }
    }
}
