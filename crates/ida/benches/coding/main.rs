//! Encoding and decoding, GB of data a second on one core, side by side with reed-solomon-erasure,
//! reed-solomon-simd and Intel's ISA-L: the system's (Debian: libisal2), or each that `--isal` names.
//!
//! ```text
//! cargo bench -p nandu-ida --bench coding -- --rounds 15 --isal libisal.so.2 --out results/MACHINE/ida
//! ```
//!
//! Seconds are those of CPU time of the thread, so that other programs on the machine take none away;
//! they still share its caches and memory.
//!
//! 1. In each round every coder does the same work for as long, in an order that turns from round to
//!    round; figures are medians of the rounds, ratios medians of the ratios within a round.
//! 2. All coders read the same fragments, at addresses that are multiples of 4096.
//! 3. Decoding computes as many lost data fragments as the code can spare, its matrix being ready.
//! 4. A coder whose answer is wrong ends the run.
//! 5. A library that has several functions for the same work is measured with each; the table has the
//!    one with the greater median in that cell, and says which.
//!
//! Run by `cargo test --benches` it only checks that everything runs.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its result")]

mod clock;
mod coders;
mod isal;
mod report;

use coders::{Coder, Erasure, Isal, IsalRaid, Leopard, Own};
use nandu_ida::{Kernel, checksum};
use report::{Contender, KernelFigure, Measurement, Report};
use std::time::Duration;

/// The codes of the comparison, n and m.
const CODES: [(usize, usize); 4] = [(4, 3), (4, 2), (10, 8), (20, 16)];
/// Bytes of a fragment.
const FRAGMENT_BYTES: [usize; 2] = [4 << 10, 1 << 20];

/// How long to measure, and where to.
struct Options {
    rounds: usize,
    slice: Duration,
    out: Option<String>,
    /// Paths or names of ISA-L's library, one for each version to compare with.
    isal: Vec<String>,
    instructions: Instructions,
}

/// Which instructions ours and ISA-L may use; the crates find their best in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instructions {
    /// All that this processor has.
    Best,
    /// As on a processor with AVX2 and nothing newer.
    Avx2,
}

impl Instructions {
    fn kernel(self) -> Kernel {
        match self {
            Self::Best => Kernel::best(),
            Self::Avx2 => Kernel::Avx2,
        }
    }
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Encode,
    Decode,
}

/// Fragments of one length in one allocation, each at a multiple of 4096.
struct Buffers {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffers {
    fn new(count: usize, length: usize) -> Self {
        assert!(length.is_multiple_of(4096), "fragments are whole pages");
        let mut bytes = vec![0; count * length + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        bytes.truncate(start + count * length);
        Self { bytes, start, length }
    }

    /// A place holder while the fragments are lent elsewhere.
    const fn none() -> Self {
        Self { bytes: Vec::new(), start: 0, length: 1 }
    }

    fn count(&self) -> usize {
        (self.bytes.len() - self.start) / self.length
    }

    fn fragments(&self) -> Vec<&[u8]> {
        self.bytes[self.start..].chunks_exact(self.length).collect()
    }

    fn fragments_mut(&mut self) -> Vec<&mut [u8]> {
        self.bytes[self.start..].chunks_exact_mut(self.length).collect()
    }

    fn fill(&mut self) {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for byte in &mut self.bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state.to_le_bytes()[3];
        }
    }
}

fn main() {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(2);
        }
    };
    let libraries = match libraries(&options) {
        Ok(libraries) => libraries,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    };
    let mut report = Report::new(options.rounds, &options.isal, options.instructions);
    for (n, m) in CODES {
        for length in FRAGMENT_BYTES {
            for work in [Work::Encode, Work::Decode] {
                let measurement = compare(n, m, length, work, &libraries, &options);
                println!("{}", measurement.line());
                report.measurements.push(measurement);
            }
        }
    }
    report.kernels = kernels(&options);
    report.checksum_gb_per_s = checksum_rate(&options);
    print!("{}", report.table());
    if let Some(directory) = &options.out
        && let Err(error) = report.write(directory)
    {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

/// One cell of the comparison.
fn compare(
    n: usize,
    m: usize,
    length: usize,
    work: Work,
    libraries: &[isal::Library],
    options: &Options,
) -> Measurement {
    let mut data = Buffers::new(m, length);
    data.fill();
    let data = data.fragments();
    let mut coders: Vec<Box<dyn Coder + '_>> =
        vec![Box::new(Own::new(n, m, &data, options.instructions.kernel()))];
    for library in libraries {
        coders.push(Box::new(Isal::new(library, n, m, &data)));
        let raid = IsalRaid::new(library, n, m, &data);
        coders.extend(raid.map(|raid| Box::new(raid) as Box<_>));
    }
    coders.push(Box::new(Erasure::new(n, m, &data)));
    coders.push(Box::new(Leopard::new(n, m, &data)));
    for coder in &mut coders {
        coder.check(work, &data);
    }
    let mut rates = vec![vec![]; coders.len()];
    for round in 0..options.rounds {
        for position in 0..coders.len() {
            let index = (position + round) % coders.len();
            let rate = rate(m * length, options.slice, || coders[index].run(work, &data));
            rates[index].push(rate);
        }
    }
    let contenders = coders.iter().zip(rates).map(|(coder, rates)| Contender {
        name: coder.name().to_owned(),
        function: coder.function(work),
        rates,
    });
    Measurement { n, m, length, work, contenders: contenders.collect() }
}

/// ISA-L in each version that was asked for; that of the system only where it is.
fn libraries(options: &Options) -> Result<Vec<isal::Library>, String> {
    if !options.isal.is_empty() {
        return options
            .isal
            .iter()
            .map(|path| isal::Library::open(path, options.instructions))
            .collect();
    }
    match isal::Library::open(isal::SYSTEM_NAME, options.instructions) {
        Ok(library) => Ok(vec![library]),
        Err(error) => {
            eprintln!("ISA-L is left out: {error}; install libisal2");
            Ok(Vec::new())
        }
    }
}

/// How fast each kernel of this processor encodes.
fn kernels(options: &Options) -> Vec<KernelFigure> {
    let mut figures = Vec::new();
    for (n, m) in CODES {
        let mut data = Buffers::new(m, FRAGMENT_BYTES[0]);
        data.fill();
        let data = data.fragments();
        for kernel in Kernel::available() {
            let mut coder = Own::new(n, m, &data, kernel);
            let rates = (0..options.rounds.min(5))
                .map(|_| {
                    rate(m * FRAGMENT_BYTES[0], options.slice, || coder.run(Work::Encode, &data))
                })
                .collect();
            figures.push(KernelFigure { n, m, kernel, gb_per_s: report::median(rates) });
        }
    }
    figures
}

fn checksum_rate(options: &Options) -> f64 {
    let mut buffer = Buffers::new(1, FRAGMENT_BYTES[0]);
    buffer.fill();
    let fragment = buffer.fragments()[0];
    let run = || {
        std::hint::black_box(checksum(std::hint::black_box(fragment)));
    };
    let rates = (0..options.rounds.min(5)).map(|_| rate(fragment.len(), options.slice, run));
    report::median(rates.collect())
}

/// GB a second of something that works on `bytes`, done again and again for as long as `slice`.
fn rate(bytes: usize, slice: Duration, mut run: impl FnMut()) -> f64 {
    let repetitions = (200_000 / bytes).max(1);
    let (start, mut count) = (clock::thread_cpu_time(), 0);
    loop {
        (0..repetitions).for_each(|_| run());
        count += repetitions;
        let elapsed = clock::thread_cpu_time().saturating_sub(start);
        if elapsed >= slice && !elapsed.is_zero() {
            return (bytes * count) as f64 / elapsed.as_secs_f64() / 1e9;
        }
    }
}

fn options() -> Result<Options, String> {
    let slice = Duration::from_millis(20);
    let instructions = Instructions::Best;
    let mut options = Options { rounds: 15, slice, out: None, isal: Vec::new(), instructions };
    let mut arguments = std::env::args().skip(1);
    let mut measured = false;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--bench" => measured = true,
            "--rounds" => {
                let text = value()?;
                options.rounds = text.parse().map_err(|_| format!("--rounds {text}: no count"))?;
            }
            "--out" => options.out = Some(value()?),
            "--isal" => options.isal.push(value()?),
            "--instructions" => {
                options.instructions = match value()?.as_str() {
                    "best" => Instructions::Best,
                    "avx2" if Kernel::available().any(|kernel| kernel == Kernel::Avx2) => {
                        Instructions::Avx2
                    }
                    other => {
                        return Err(format!("--instructions {other}: best, or avx2 if it has it"));
                    }
                }
            }
            _ => {
                let known = "--rounds, --isal, --instructions and --out";
                return Err(format!("{argument}: unknown; there are {known}"));
            }
        }
    }
    if options.rounds == 0 {
        return Err("--rounds 0 measures nothing; take 1 or more".into());
    }
    if !measured {
        options = Options { rounds: 1, slice: Duration::ZERO, out: None, ..options };
    }
    Ok(options)
}
