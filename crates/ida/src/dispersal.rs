//! Objects of any length as n self-describing fragments: what Rabin's paper calls splitting and
//! reconstruction of a file, with the checksum that the scheme itself lacks. Information dispersal
//! repairs what is lost, but cannot see that a fragment is wrong.
//!
//! ```text
//!   byte 0          8  9  10   11     12      16         24            32       36
//!   ┌───────────────┬──┬──┬──────┬────────┬───────┬──────────┬─────────────┬────────┬─────────┐
//!   │ "nandIDA1"    │m │n │matrix│fragment│ zero  │object_id │object_bytes │ CRC32C │ payload │
//!   └───────────────┴──┴──┴──────┴────────┴───────┴──────────┴─────────────┴────────┴─────────┘
//! ```
//!
//! Numbers are little-endian. The checksum covers bytes 0 to 32 and the payload, whose length is
//! `object_bytes` / m, rounded up; the last ones of the object's data are padded with zeros.
//!
//! 1. A fragment that is too short, of another format, or whose checksum fails counts as lost.
//! 2. Intact fragments of another code or another object are an error: the caller has mixed them up.

use crate::{Code, FragmentSet, IdaError, Matrix};

const MAGIC: &[u8; 8] = b"nandIDA1";
/// Bytes that stand before the payload of each fragment.
pub const HEADER_BYTES: usize = 36;
/// Bytes of the header that the checksum covers, and where it stands.
const CHECKED_BYTES: usize = 32;

/// The checksum of a fragment: CRC32C, which finds every burst of errors of up to 32 bits.
#[must_use]
pub fn checksum(fragment: &[u8]) -> u32 {
    crc32c::crc32c(fragment)
}

/// Splits objects into fragments with headers and collects them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispersal {
    code: Code,
}

/// An object that was collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected {
    /// The name under which it was dispersed.
    pub object_id: u64,
    /// The object's bytes, without headers or padding.
    pub object: Vec<u8>,
    /// Numbers of the fragments that were not given, or not intact.
    pub lost: FragmentSet,
    /// Positions in the list given of those that were not intact.
    pub damaged: FragmentSet,
}

/// What the header of an intact fragment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    m: u8,
    n: u8,
    matrix: u8,
    fragment: u8,
    object_id: u64,
    object_bytes: u64,
}

impl Dispersal {
    /// A dispersal of files into the fragments of `code`.
    #[must_use]
    pub fn new(code: Code) -> Self {
        Self { code }
    }

    /// The code that makes its fragments.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The n fragments of `object`, in order. `object_id` tells objects, or versions of one, apart:
    /// fragments of different ones are never put together.
    #[must_use]
    pub fn disperse(&self, object_id: u64, object: &[u8]) -> Vec<Vec<u8>> {
        let code = &self.code;
        let length = code.fragment_length(object.len());
        let mut sealed: Vec<Vec<u8>> =
            (0..code.n()).map(|_| vec![0; HEADER_BYTES + length]).collect();
        let mut data = vec![vec![]; code.m()];
        for (number, fragment) in data.iter_mut().enumerate() {
            let start = object.len().min(number * length);
            let end = object.len().min(start + length);
            fragment.extend_from_slice(&object[start..end]);
            fragment.resize(length, 0);
        }
        let (plain, coded) = sealed.split_at_mut(code.coded_fragments().start);
        for (fragment, data) in plain.iter_mut().zip(&data) {
            fragment[HEADER_BYTES..].copy_from_slice(data);
        }
        let mut payloads: Vec<&mut [u8]> =
            coded.iter_mut().map(|fragment| &mut fragment[HEADER_BYTES..]).collect();
        code.encode(&data, &mut payloads).expect("the lists are made for this code");
        for (bytes, fragment) in sealed.iter_mut().zip(0..=u8::MAX) {
            self.header(fragment, object_id, object.len() as u64).seal(bytes);
        }
        sealed
    }

    /// The object whose fragments these are, in any order; the same fragment may be given twice. One
    /// whose checksum fails is treated as lost.
    ///
    /// # Errors
    /// [`IdaError::TooFewFragments`] names the lost ones if fewer than m are intact;
    /// [`IdaError::ForeignCode`] and [`IdaError::Mixed`] if intact ones do not belong together;
    /// [`IdaError::FragmentCount`] if more than 256 are given.
    pub fn collect<D: AsRef<[u8]>>(&self, fragments: &[D]) -> Result<Collected, IdaError> {
        if fragments.len() > 256 {
            let (list, expected, found) = ("fragments", self.code.n(), fragments.len());
            return Err(IdaError::FragmentCount { list, expected, found });
        }
        let mut damaged = FragmentSet::EMPTY;
        let mut payloads: Vec<Option<&[u8]>> = vec![None; self.code.n()];
        let mut first: Option<(usize, Header)> = None;
        for (position, bytes) in (0..=u8::MAX).zip(fragments) {
            let Some((header, payload)) = self.open(usize::from(position), bytes.as_ref())? else {
                damaged.insert(position);
                continue;
            };
            let &mut (first, expected) = first.get_or_insert((usize::from(position), header));
            let mixed = |field| IdaError::Mixed { first, other: usize::from(position), field };
            if header.object_id != expected.object_id {
                return Err(mixed("object_id"));
            }
            if header.object_bytes != expected.object_bytes {
                return Err(mixed("object_bytes"));
            }
            payloads[usize::from(header.fragment)] = Some(payload);
        }
        let given = (0..=u8::MAX).zip(&payloads).filter(|(_, payload)| payload.is_some());
        let left: FragmentSet = given.map(|(number, _)| number).collect();
        let lost = FragmentSet::first(self.code.n()).without(&left);
        let (Some((_, header)), true) = (first, left.count() >= self.code.m()) else {
            return Err(IdaError::TooFewFragments { m: self.code.m(), lost, damaged, left });
        };
        let object = self.decode(&header, &payloads, left)?;
        Ok(Collected { object_id: header.object_id, object, lost, damaged })
    }

    /// The object behind `payloads`, of which `left` are there.
    fn decode(
        &self,
        header: &Header,
        payloads: &[Option<&[u8]>],
        left: FragmentSet,
    ) -> Result<Vec<u8>, IdaError> {
        let all = FragmentSet::first(self.code.m());
        let plain = match self.code.matrix() {
            Matrix::Cauchy => all.and(&left),
            Matrix::Vandermonde => FragmentSet::EMPTY,
        };
        let decoder = self.code.decoder(left, all.without(&plain))?;
        let payload = |number: u8| payloads[usize::from(number)].expect("it is left");
        let sources: Vec<&[u8]> = decoder.sources().iter().map(|&number| payload(number)).collect();
        let length = sources[0].len();
        let mut object = vec![0; length * self.code.m()];
        // Fragments of length 0 belong to the empty object, which nothing has to be computed for.
        let mut computed = Vec::with_capacity(decoder.outputs().len());
        for (number, part) in (0..=u8::MAX).zip(object.chunks_exact_mut(length.max(1))) {
            if plain.contains(number) {
                part.copy_from_slice(payload(number));
            } else {
                computed.push(part);
            }
        }
        if length > 0 {
            decoder.decode(&sources, &mut computed)?;
        }
        let object_bytes = usize::try_from(header.object_bytes);
        object.truncate(object_bytes.expect("a payload of its m-th part is in memory"));
        Ok(object)
    }

    /// Header and payload of an intact fragment of this code, `None` if it is not intact.
    fn open<'a>(
        &self,
        position: usize,
        bytes: &'a [u8],
    ) -> Result<Option<(Header, &'a [u8])>, IdaError> {
        let Some(header) = Header::of_intact(bytes) else {
            return Ok(None);
        };
        let own = self.header(header.fragment, header.object_id, header.object_bytes);
        let Header { m, n, .. } = header;
        if header != own || header.fragment >= n {
            return Err(IdaError::ForeignCode { position, m, n });
        }
        let payload = &bytes[HEADER_BYTES..];
        let expected = header.object_bytes.div_ceil(u64::from(m));
        Ok((payload.len() as u64 == expected).then_some((header, payload)))
    }

    fn header(&self, fragment: u8, object_id: u64, object_bytes: u64) -> Header {
        let to_byte = |count: usize| u8::try_from(count).expect("n is at most 255");
        let matrix = match self.code.matrix() {
            Matrix::Cauchy => 0,
            Matrix::Vandermonde => 1,
        };
        let (m, n) = (to_byte(self.code.m()), to_byte(self.code.n()));
        Header { m, n, matrix, fragment, object_id, object_bytes }
    }
}

impl Header {
    /// Writes this header and the checksum into a fragment that has its payload.
    fn seal(&self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&[self.m, self.n, self.matrix, self.fragment]);
        bytes[12..16].fill(0);
        bytes[16..24].copy_from_slice(&self.object_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.object_bytes.to_le_bytes());
        let checksum = checksum_of_sealed(bytes);
        bytes[CHECKED_BYTES..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    /// What a fragment says about itself, `None` if it is none or its checksum fails.
    fn of_intact(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(MAGIC) {
            return None;
        }
        let checksum = bytes[CHECKED_BYTES..HEADER_BYTES].try_into().ok()?;
        if checksum_of_sealed(bytes) != u32::from_le_bytes(checksum) {
            return None;
        }
        Some(Self {
            m: bytes[8],
            n: bytes[9],
            matrix: bytes[10],
            fragment: bytes[11],
            object_id: u64::from_le_bytes(bytes[16..24].try_into().ok()?),
            object_bytes: u64::from_le_bytes(bytes[24..32].try_into().ok()?),
        })
    }
}

fn checksum_of_sealed(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(checksum(&bytes[..CHECKED_BYTES]), &bytes[HEADER_BYTES..])
}
