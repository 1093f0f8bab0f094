//! The coders that are compared, each with its buffers, behind one trait.

use crate::isal::Library;
use crate::{Buffers, Work};
use nandu_ida::{Code, Decoder, FragmentSet, Kernel, Matrix};
use reed_solomon_erasure::galois_8::ReedSolomon;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

/// Something that encodes and decodes.
pub(crate) trait Coder {
    /// Its name in the table; coders of one name are ways of one library.
    fn name(&self) -> &str;

    /// By which of its functions the library does `work`, if it has several that can.
    fn function(&self, _work: Work) -> &'static str {
        ""
    }

    /// Does `work` once for `data`. Decoding computes the first data fragments.
    fn run(&mut self, work: Work, data: &[&[u8]]);

    /// Does `work` once and asserts that what was decoded is the data.
    fn check(&mut self, work: Work, data: &[&[u8]]);
}

/// Asserts that the first fragments of `buffers` are those of `data`.
fn assert_decoded(name: &str, decoded: &[&[u8]], data: &[&[u8]]) {
    assert!(decoded.iter().zip(data).all(|(decoded, data)| decoded == data), "{name} is wrong");
}

/// The codes of this crate.
pub(crate) struct Own {
    code: Code,
    decoder: Decoder,
    coded: Buffers,
    decoded: Buffers,
}

impl Own {
    pub(crate) fn new(n: usize, m: usize, data: &[&[u8]], kernel: Kernel) -> Self {
        let code = Code::new(m, n, Matrix::Cauchy).and_then(|code| code.with_kernel(kernel));
        let code = code.expect("a valid shape and an available kernel");
        let lost = FragmentSet::first((n - m).min(m));
        let decoder = code.decoder(FragmentSet::first(n).without(&lost), lost);
        let mut coded = Buffers::new(n - m, data[0].len());
        code.encode(data, &mut coded.fragments_mut()).expect("lists that fit");
        Self {
            decoder: decoder.expect("enough fragments"),
            code,
            coded,
            decoded: Buffers::new(lost.count(), data[0].len()),
        }
    }
}

impl Coder for Own {
    fn name(&self) -> &str {
        "nandu-ida"
    }

    fn run(&mut self, work: Work, data: &[&[u8]]) {
        let outcome = match work {
            Work::Encode => self.code.encode(data, &mut self.coded.fragments_mut()),
            Work::Decode => {
                let mut sources = data[self.decoder.outputs().len()..].to_vec();
                sources.extend(self.coded.fragments());
                sources.truncate(data.len());
                self.decoder.decode(&sources, &mut self.decoded.fragments_mut())
            }
        };
        outcome.expect("lists that fit");
    }

    fn check(&mut self, work: Work, data: &[&[u8]]) {
        self.run(work, data);
        self.run(Work::Decode, data);
        assert_decoded(self.name(), &self.decoded.fragments(), data);
    }
}

/// Intel's library, by the functions that take any matrix.
pub(crate) struct Isal<'a> {
    library: &'a Library,
    encode_tables: Vec<u8>,
    decode_tables: Vec<u8>,
    coded: Buffers,
    decoded: Buffers,
}

impl<'a> Isal<'a> {
    pub(crate) fn new(library: &'a Library, n: usize, m: usize, data: &[&[u8]]) -> Self {
        let matrix = library.matrix(n, m);
        Self::with_matrix(library, &matrix, n, m, data)
    }

    fn with_matrix(
        library: &'a Library,
        matrix: &[u8],
        n: usize,
        m: usize,
        data: &[&[u8]],
    ) -> Self {
        let lost = (n - m).min(m);
        let inverse = library.invert(matrix[lost * m..][..m * m].to_vec(), m);
        let mut coder = Self {
            library,
            encode_tables: library.tables(matrix[m * m..].to_vec(), m),
            decode_tables: library.tables(inverse[..lost * m].to_vec(), m),
            coded: Buffers::new(n - m, data[0].len()),
            decoded: Buffers::new(lost, data[0].len()),
        };
        coder.run(Work::Encode, data);
        coder
    }

    /// What is left to decode from: the data that are not lost, then coded fragments.
    fn sources<'s>(&'s self, data: &[&'s [u8]], lost: usize) -> Vec<&'s [u8]> {
        let mut sources = data[lost..].to_vec();
        sources.extend(self.coded.fragments());
        sources.truncate(data.len());
        sources
    }
}

impl Coder for Isal<'_> {
    fn name(&self) -> &str {
        &self.library.name
    }

    fn function(&self, _: Work) -> &'static str {
        "ec_encode_data"
    }

    fn run(&mut self, work: Work, data: &[&[u8]]) {
        match work {
            Work::Encode => {
                self.library.code(&self.encode_tables, data, &mut self.coded.fragments_mut());
            }
            Work::Decode => {
                let mut decoded = std::mem::replace(&mut self.decoded, Buffers::none());
                let mut targets = decoded.fragments_mut();
                let sources = self.sources(data, targets.len());
                self.library.code(&self.decode_tables, &sources, &mut targets);
                self.decoded = decoded;
            }
        }
    }

    fn check(&mut self, work: Work, data: &[&[u8]]) {
        self.run(work, data);
        self.run(Work::Decode, data);
        assert_decoded(self.name(), &self.decoded.fragments(), data);
    }
}

/// Intel's library, by its functions for RAID with one or two spare fragments. It has none that decodes
/// two; these are computed with the same constants by the function for any matrix.
pub(crate) struct IsalRaid<'a>(Isal<'a>);

impl<'a> IsalRaid<'a> {
    /// `None` where n - m is neither 1 nor 2.
    pub(crate) fn new(library: &'a Library, n: usize, m: usize, data: &[&[u8]]) -> Option<Self> {
        if !(1..=2).contains(&(n - m)) {
            return None;
        }
        // P is the sum, Q the sum with powers of 2, as raid.h has them.
        let mut matrix = vec![0; n * m];
        let mut power = 1_u8;
        for column in 0..m {
            matrix[column * m + column] = 1;
            matrix[m * m + column] = 1;
            if n - m == 2 {
                matrix[(m + 1) * m + column] = power;
            }
            power = (power << 1) ^ if power & 0x80 == 0 { 0 } else { 0x1D };
        }
        let mut coder = Self(Isal::with_matrix(library, &matrix, n, m, data));
        // The function for any matrix has computed the same from the matrix as those for RAID do.
        let by_matrix: Vec<Vec<u8>> =
            coder.0.coded.fragments().iter().map(|part| part.to_vec()).collect();
        coder.run(Work::Encode, data);
        assert!(coder.0.coded.fragments() == by_matrix, "the constants are those of raid.h");
        Some(coder)
    }
}

impl Coder for IsalRaid<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn function(&self, work: Work) -> &'static str {
        match (work, self.0.coded.count()) {
            (_, 1) => "xor_gen",
            (Work::Encode, _) => "pq_gen",
            (Work::Decode, _) => "ec_encode_data, P and Q",
        }
    }

    fn run(&mut self, work: Work, data: &[&[u8]]) {
        let library = self.0.library;
        match work {
            Work::Encode => library.parity(data, &mut self.0.coded.fragments_mut()),
            Work::Decode if self.0.coded.count() == 1 => {
                let mut decoded = std::mem::replace(&mut self.0.decoded, Buffers::none());
                library.parity(&self.0.sources(data, 1), &mut decoded.fragments_mut());
                self.0.decoded = decoded;
            }
            Work::Decode => self.0.run(work, data),
        }
    }

    fn check(&mut self, work: Work, data: &[&[u8]]) {
        self.run(work, data);
        self.run(Work::Decode, data);
        assert_decoded(self.name(), &self.0.decoded.fragments(), data);
    }
}

/// The crate reed-solomon-erasure, with its kernels in C.
pub(crate) struct Erasure {
    codec: ReedSolomon,
    /// All n fragments: it decodes in place.
    fragments: Buffers,
    lost: usize,
    m: usize,
}

impl Erasure {
    pub(crate) fn new(n: usize, m: usize, data: &[&[u8]]) -> Self {
        let codec = ReedSolomon::new(m, n - m).expect("a valid shape");
        let mut fragments = Buffers::new(n, data[0].len());
        for (fragment, data) in fragments.fragments_mut().into_iter().zip(data) {
            fragment.copy_from_slice(data);
        }
        let mut coder = Self { codec, fragments, lost: (n - m).min(m), m };
        coder.run(Work::Encode, data);
        coder
    }
}

impl Coder for Erasure {
    fn name(&self) -> &str {
        "reed-solomon-erasure"
    }

    fn run(&mut self, work: Work, data: &[&[u8]]) {
        let mut fragments = self.fragments.fragments_mut();
        let outcome = match work {
            Work::Encode => self.codec.encode_sep(data, &mut fragments[self.m..]),
            Work::Decode => {
                let lost = self.lost;
                let mut fragments: Vec<(&mut [u8], bool)> = fragments
                    .into_iter()
                    .enumerate()
                    .map(|(number, fragment)| (fragment, number >= lost))
                    .collect();
                self.codec.reconstruct_data(&mut fragments)
            }
        };
        outcome.expect("lists that fit");
    }

    fn check(&mut self, work: Work, data: &[&[u8]]) {
        self.run(work, data);
        self.fragments.fragments_mut()[..self.lost].iter_mut().for_each(|part| part.fill(0));
        self.run(Work::Decode, data);
        assert_decoded(self.name(), &self.fragments.fragments(), data);
    }
}

/// The crate reed-solomon-simd: a fast transform over GF(2^16), made for many fragments.
pub(crate) struct Leopard {
    encoder: ReedSolomonEncoder,
    decoder: ReedSolomonDecoder,
    coded: Buffers,
    decoded: Buffers,
}

impl Leopard {
    pub(crate) fn new(n: usize, m: usize, data: &[&[u8]]) -> Self {
        let length = data[0].len();
        let lost = (n - m).min(m);
        let mut coder = Self {
            encoder: ReedSolomonEncoder::new(m, n - m, length).expect("a valid shape"),
            decoder: ReedSolomonDecoder::new(m, n - m, length).expect("a valid shape"),
            coded: Buffers::new(n - m, length),
            decoded: Buffers::new(lost, length),
        };
        coder.run(Work::Encode, data);
        coder
    }
}

impl Coder for Leopard {
    fn name(&self) -> &str {
        "reed-solomon-simd"
    }

    fn run(&mut self, work: Work, data: &[&[u8]]) {
        match work {
            Work::Encode => {
                for fragment in data {
                    self.encoder.add_original_shard(fragment).expect("room for m fragments");
                }
                let result = self.encoder.encode().expect("m fragments");
                for (target, coded) in
                    self.coded.fragments_mut().iter_mut().zip(result.recovery_iter())
                {
                    target.copy_from_slice(coded);
                }
            }
            Work::Decode => {
                let mut targets = self.decoded.fragments_mut();
                for (number, fragment) in data.iter().enumerate().skip(targets.len()) {
                    self.decoder.add_original_shard(number, fragment).expect("a number below m");
                }
                for (number, fragment) in self.coded.fragments().iter().enumerate() {
                    self.decoder
                        .add_recovery_shard(number, fragment)
                        .expect("a number below n - m");
                }
                let result = self.decoder.decode().expect("m fragments");
                for (number, target) in targets.iter_mut().enumerate() {
                    let restored = result.restored_original(number).expect("it was lost");
                    target.copy_from_slice(restored);
                }
            }
        }
    }

    fn check(&mut self, work: Work, data: &[&[u8]]) {
        self.run(work, data);
        self.run(Work::Decode, data);
        assert_decoded(self.name(), &self.decoded.fragments(), data);
    }
}
