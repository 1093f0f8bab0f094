//! The coders that are compared, each with its buffers, behind one trait.

use crate::isal::Library;
use crate::{Buffers, Work};
use nandu_ida::{Code, Decoder, FragmentSet, Kernel, Matrix};
use reed_solomon_erasure::galois_8::ReedSolomon;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

/// Something that encodes and decodes.
pub(crate) trait Coder {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Does `work` once for `data`. Decoding computes the first data fragments.
    fn run(&mut self, work: Work, data: &[&[u8]]);

    /// Does `work` once and asserts that what was decoded is the data.
    fn check(&mut self, work: Work, data: &[&[u8]]);
}

/// Asserts that the first fragments of `buffers` are those of `data`.
fn assert_decoded(name: &str, decoded: &[&[u8]], data: &[&[u8]]) {
    assert!(decoded.iter().zip(data).all(|(decoded, data)| decoded == data), "{name} is wrong");
}

/// This crate.
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
    fn name(&self) -> &'static str {
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

/// Intel's library.
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
}

impl Coder for Isal<'_> {
    fn name(&self) -> &'static str {
        "isa-l"
    }

    fn run(&mut self, work: Work, data: &[&[u8]]) {
        match work {
            Work::Encode => {
                self.library.code(&self.encode_tables, data, &mut self.coded.fragments_mut());
            }
            Work::Decode => {
                let targets = &mut self.decoded.fragments_mut();
                let mut sources = data[targets.len()..].to_vec();
                sources.extend(self.coded.fragments());
                sources.truncate(data.len());
                self.library.code(&self.decode_tables, &sources, targets);
            }
        }
    }

    fn check(&mut self, work: Work, data: &[&[u8]]) {
        self.run(work, data);
        self.run(Work::Decode, data);
        assert_decoded(self.name(), &self.decoded.fragments(), data);
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
    fn name(&self) -> &'static str {
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
    fn name(&self) -> &'static str {
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
