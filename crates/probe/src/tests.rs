//! Tests that need more than one module: plans and patterns on a device in memory, whose times have
//! closed forms.

use crate::*;
use nandu_base::{ByteCount, Distribution, FixedHashMap, Nanos, to_u32};
use nandu_device::{
    Device, DeviceError, FaultPlan, FaultyDevice, Geometry, IoBuffer, MemoryConfig, MemoryDevice,
    Operation, Recorder, SectorStore,
};

const SECTOR_BYTES: u32 = 512;

fn device(sector_count: u64, server_count: u32, bytes_per_second: u64) -> MemoryDevice {
    MemoryDevice::new(MemoryConfig {
        geometry: Geometry::new(SECTOR_BYTES, sector_count).unwrap(),
        access_ns: Nanos::from_micros(10),
        bytes_per_second,
        server_count,
        queue_depth_max: 64,
    })
}

fn random_reads(limit: Limit, queue_depth: u32) -> Pattern {
    Pattern { queue_depth, ..Pattern::new(Access::Random, 100, 4096, limit) }
}

#[test]
fn iops_follow_queue_depth_and_servers_exactly() {
    for (queue_depth, server_count) in [(1, 1), (1, 4), (2, 4), (4, 4), (32, 4), (8, 1)] {
        let mut device = device(4096, server_count, 0);
        let pattern = random_reads(Limit::requests(8_000), queue_depth);
        let result = run_pattern(&mut device, &pattern, &mut Silent).unwrap();
        // 10 us per request and server; as many servers work as there are requests for.
        let busy = queue_depth.min(server_count);
        let run = &result.runs[0];
        assert_eq!(run.request_count, 8_000);
        assert_eq!(run.elapsed, Nanos::from_micros(10 * 8_000 / u64::from(busy)));
        let iops = 100_000.0 * f64::from(busy);
        assert!((run.iops - iops).abs() < 1e-6 * iops, "{} is not {iops}", run.iops);
        // Little's law: latency = depth / rate, once the queue has filled.
        let latency = f64::from(queue_depth) / iops * 1e9;
        assert!((run.read.mean / latency - 1.0).abs() < 0.01, "{} {latency}", run.read.mean);
        assert_eq!(run.read.count, 8_000);
        assert_eq!(run.write.count, 0);
    }
}

#[test]
fn a_time_limit_ends_the_run_and_counts_what_was_in_flight() {
    let mut device = device(4096, 1, 0);
    let pattern = random_reads(Limit::time(Nanos::from_micros(105)), 1);
    let run = &run_pattern(&mut device, &pattern, &mut Silent).unwrap().runs[0];
    assert_eq!((run.request_count, run.elapsed), (11, Nanos::from_micros(110)));
}
