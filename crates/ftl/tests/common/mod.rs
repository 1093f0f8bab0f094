//! What tests of layers over small arrays share.

use nandu_base::Nanos;
use nandu_nand::Timing;

/// A chip whose operations take 20, 200 and 1500 ns, over a bus that takes no time to speak of.
pub(crate) fn quick_timing() -> Timing {
    Timing {
        read_ns: Nanos(20),
        program_ns: Nanos(200),
        erase_ns: Nanos(1500),
        command_ns: Nanos(1),
        bus_bytes_per_second: 10_000_000_000,
        cache_register: false,
    }
}
