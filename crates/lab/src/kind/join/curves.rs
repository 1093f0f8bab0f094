//! What the cost model knows of a drive: the times of requests by size, one at a time, and of streams side by
//! side, measured from outside on a drive like the one that is measured.

use crate::drive_costs::measured_streams;
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_device::{Device, IoBuffer, Request};
use nandu_probe::{Observer, StreamOptions, measure_streams};
use nandu_query::cost::{AccessCurves, Curve, CurvePoint, DeviceCosts};

/// Requests of a point.
const REQUEST_COUNT: u64 = 24;
/// Each size is so many times the one before it.
const SIZE_STEP: u64 = 4;
/// Bytes of the largest request at most.
const BYTES_MAX: u64 = 32 << 20;

/// Measures `device`, over its first `span`, with requests of a page up to `largest`. With `has_arm` what
/// scattered requests take longer is a seek.
///
/// # Errors
/// Where the device refuses, or the observer cancels.
pub(super) fn measure(
    device: &mut dyn Device,
    page_bytes: u64,
    (largest, span): (ByteCount, ByteCount),
    has_arm: bool,
    observer: &mut dyn Observer,
) -> Result<DeviceCosts, String> {
    let mut rng = Rng::new(1);
    let largest = largest.0.min(BYTES_MAX).min(span.0 / REQUEST_COUNT).max(page_bytes);
    let sizes: Vec<u64> = std::iter::successors(Some(page_bytes), |size| Some(size * SIZE_STEP))
        .take_while(|size| *size <= largest)
        .collect();
    let mut curves = Vec::new();
    for is_write in [false, true] {
        let mut of = |is_random: bool| -> Result<Curve, String> {
            let mut points = Vec::new();
            for &at in &sizes {
                let value = request_ns(device, (is_write, is_random), at, span.0, &mut rng)?;
                points.push(CurvePoint { at, value });
            }
            Curve::new(points).map_err(|error| error.to_string())
        };
        curves.push(AccessCurves { sequential: of(false)?, random: of(true)? });
    }
    let mut write = curves.pop().expect("two were made");
    let mut read = curves.pop().expect("two were made");
    let mut seek_ns = 0;
    if has_arm {
        let value = |curve: &Curve| curve.value(page_bytes);
        seek_ns = value(&read.random).saturating_sub(value(&read.sequential));
        read.random = read.sequential.clone();
        write.random = write.sequential.clone();
    }
    let random_read_gain_ppm = Curve::constant(1_000_000);
    let costs = DeviceCosts { seek_ns, read, write, random_read_gain_ppm, streams: None };
    let options = StreamOptions { duration: Nanos::MAX, writes: true, seed: 1 };
    let streams = measure_streams(device, &options, observer).map_err(|error| error.to_string())?;
    let points = measured_streams(&streams.points);
    costs.with_streams(&points, streams.sync_ns.unwrap_or(0)).map_err(|error| error.to_string())
}

/// The mean time of a request.
fn request_ns(
    device: &mut dyn Device,
    (is_write, is_random): (bool, bool),
    bytes: u64,
    span: u64,
    rng: &mut Rng,
) -> Result<u64, String> {
    let info = device.info();
    let sector_bytes = u64::from(info.geometry.sector_bytes);
    let (alignment, needs_buffers) = (info.buffer_alignment as usize, info.needs_buffers);
    let sectors = nandu_base::to_u32(bytes / sector_bytes);
    let places = (span / bytes).max(1);
    let start = rng.below(places.saturating_sub(REQUEST_COUNT).max(1));
    let mut total = 0;
    for index in 0..=REQUEST_COUNT {
        let place = if is_random { rng.below(places) } else { (start + index) % places };
        let buffer = needs_buffers
            .then(|| IoBuffer::with_alignment(nandu_base::to_index(bytes), alignment.max(512)));
        let first = place * u64::from(sectors);
        let request = match is_write {
            true => Request::write(index, first, sectors, buffer),
            false => Request::read(index, first, sectors, buffer),
        };
        let now = device.now();
        device.submit(now, request).map_err(|rejected| rejected.to_string())?;
        let done = device.next_completion(Nanos::MAX).ok_or("a request was lost")?;
        done.result.map_err(|error| error.to_string())?;
        // The first request is not counted: it pays for positioning, the later ones only go on.
        total += if index > 0 { (done.completed_at - now).0 } else { 0 };
    }
    Ok(total / REQUEST_COUNT)
}
