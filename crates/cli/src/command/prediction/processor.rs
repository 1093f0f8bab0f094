//! What the processor takes for records that are sorted, measured before any is: others in memory, a walk
//! over another list, lookups of other lists of neighbours, and a file without a name where the output will be.

use crate::Context;
use crate::failure::Failure;
use crate::output::folder_of;
use crate::stopwatch::Stopwatch;
use nandu_base::Nanos;
use nandu_external::cost::Processor;
use nandu_external::{ExternalError, Store};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes of the file.
const FILE_BYTES: usize = 16 << 20;
/// How often, each time another one: of either time the shortest is what it takes when nothing disturbs it.
const FILE_COUNT: usize = 3;
/// Bytes that are written and read at a time, as a sort does it.
const WRITE_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 128 << 10;

/// Measures it for records of each of these sizes, which takes a second or two.
pub(super) fn measure(
    record_sizes: &[usize],
    output: Option<&Path>,
    context: &Context,
) -> Result<Vec<(usize, Processor)>, Failure> {
    let watch = Stopwatch::start();
    let clock = || Nanos(watch.nanos());
    // Where no file can be made the work says so itself.
    let file = || tempfile::tempfile_in(folder_of(output?)).ok();
    let [written_byte_ps, read_byte_ps] = shortest_file_ps(file, &clock).unwrap_or_default();
    let interrupt = &context.interrupt;
    let of_size = |&bytes: &usize| -> Result<_, Failure> {
        let measured = Processor::measure(bytes, &clock, &interrupt.flag())?;
        Ok((bytes, Processor { written_byte_ps, read_byte_ps, ..measured }))
    };
    interrupt.at_any_time(|| record_sizes.iter().map(of_size).collect())
}

/// The same with the walk by which the ranking of so many elements in so many bytes ends, measured in a
/// fraction of a second.
pub(super) fn with_walk(
    processor: Processor,
    walk: (&Store, u64, u64),
) -> Result<Processor, ExternalError> {
    let watch = Stopwatch::start();
    processor.with_walk(walk, &|| Nanos(watch.nanos()))
}

/// The same with lists of neighbours that a search looks up, measured in a fraction of a second.
pub(super) fn with_lookups(
    processor: Processor,
    context: &Context,
) -> Result<Processor, ExternalError> {
    let watch = Stopwatch::start();
    processor.with_lookups(&|| Nanos(watch.nanos()), &context.interrupt.flag())
}

/// What a byte takes in the shortest of some times; `None` where a file cannot be made or used.
fn shortest_file_ps(
    file: impl Fn() -> Option<File>,
    clock: &dyn Fn() -> Nanos,
) -> Option<[f64; 2]> {
    let mut shortest = [f64::INFINITY; 2];
    for _ in 0..FILE_COUNT {
        let its = file_ps(file()?, clock).ok()?;
        shortest = [shortest[0].min(its[0]), shortest[1].min(its[1])];
    }
    Some(shortest)
}

/// What a byte takes that is written to a file, and read from it while the system has it in memory.
fn file_ps(mut file: File, clock: &dyn Fn() -> Nanos) -> io::Result<[f64; 2]> {
    let mut bytes = vec![7; WRITE_BYTES];
    let begin = clock();
    for _ in 0..FILE_BYTES / WRITE_BYTES {
        file.write_all(&bytes)?;
    }
    let written = clock();
    file.seek(SeekFrom::Start(0))?;
    for _ in 0..FILE_BYTES / READ_BYTES {
        file.read_exact(&mut bytes[..READ_BYTES])?;
    }
    let read = clock();
    let byte_ps =
        |begin: Nanos, end: Nanos| end.saturating_sub(begin).0 as f64 * 1e3 / FILE_BYTES as f64;
    Ok([byte_ps(begin, written), byte_ps(written, read)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_byte_takes_its_part_of_the_time() {
        let looks = Cell::new(0_u64);
        let clock = || {
            looks.set(looks.get() + 1);
            Nanos(looks.get() * looks.get() * FILE_BYTES as u64)
        };
        let found = file_ps(tempfile::tempfile().unwrap(), &clock).unwrap();
        // Between looks 1, 4 and 9 bytes' nanoseconds.
        assert_eq!(found, [3000.0, 5000.0]);
        // The first of three is the shortest here, the last one if time goes the other way.
        let file = || tempfile::tempfile().ok();
        looks.set(0);
        assert_eq!(shortest_file_ps(file, &clock), Some([3000.0, 5000.0]));
        let slowing = || {
            looks.set(looks.get() + 1);
            Nanos((400 - (20 - looks.get()).pow(2)) * FILE_BYTES as u64)
        };
        looks.set(0);
        // Look n is 41 - 2 n after the one before; the last file has looks 7 to 9.
        assert_eq!(shortest_file_ps(file, &slowing), Some([25_000.0, 23_000.0]));
        assert_eq!(shortest_file_ps(|| None, &clock), None);
    }
}
