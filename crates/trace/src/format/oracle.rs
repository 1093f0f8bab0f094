//! libCacheSim's traces of caches, `oracleGeneral`: which object was read, and when it will be again.
//!
//! ```text
//!   binary   clock_time u32 │ obj_id u64 │ obj_size u32 │ next_access_vtime i64     24 bytes
//!   text     time,object,size,next_access_vtime     as `tracePrint` and `traceConv` print it
//! ```
//!
//! Little-endian and packed; seconds and bytes. `next_access_vtime` is the number of the request, from
//! 1, that reads the object again, -1 or the largest number where none does, -2 where nobody knows.
//! Source: libCacheSim, `oracleGeneralBin.h`, `traceConvOracleGeneral.cpp` and `tracePrintMain.cpp`.
//! As there, a request of 0 bytes is none.
//!
//! Neither form names itself, so it is known by what must hold of its columns: times rise, and the
//! next access comes later (text: and is one of the same object).

use super::{LineParser, Origin, RawRequest, RecordParser, SECOND_NS, is_header};
use crate::field::{decimal, integer, shown};
use nandu_device::Operation;

const RECORD_BYTES: usize = 24;
/// Records that tell the binary form.
const RECORD_COUNT_MIN: usize = 2;
/// Requests of a trace at most, so that text taken for records is noticed.
const REQUEST_COUNT_MAX: i64 = 1 << 48;
const NEVER: i64 = -1;
const UNKNOWN: i64 = -2;
/// What `tracePrint` writes above the columns.
const TEXT_HEAD: &[u8] = b"# time,object,size";

/// Reads the binary form of libCacheSim's oracleGeneral.
#[derive(Debug)]
pub(super) struct OracleGeneral;

/// Reads the text form of libCacheSim's oracleGeneral.
#[derive(Debug)]
pub(super) struct OracleText;

/// A request as either form has it.
struct Access {
    time: u64,
    id: u64,
    size: u64,
    next: i64,
}

impl Access {
    fn of_record(record: &[u8]) -> Self {
        let number = |at: usize, bytes: usize| {
            let digits = record[at..at + bytes].iter().rev();
            digits.fold(0_u64, |value, &byte| value << 8 | u64::from(byte))
        };
        Self {
            time: number(0, 4),
            id: number(4, 8),
            size: number(12, 4),
            next: number(16, 8).cast_signed(),
        }
    }

    /// Its time counts nanoseconds.
    fn of_line(line: &[u8]) -> Result<Self, String> {
        let mut fields = fields(line);
        let mut next = |what: &str| {
            fields.next().ok_or_else(|| format!("{what} is missing, of time, object, size"))
        };
        let (time, id, size) = (next("time")?, next("object")?, next("size")?);
        let next = fields.next().map_or(Ok(UNKNOWN), |next| match next {
            b"-1" => Ok(NEVER),
            b"-2" => Ok(UNKNOWN),
            _ => i64::try_from(integer(next, "next_access_vtime")?)
                .map_err(|_| format!("next_access_vtime `{}` is past 2^63", shown(next))),
        })?;
        if let Some(field) = fields.next() {
            let found = shown(field);
            return Err(format!("expected time,object,size,next_access_vtime, then `{found}`"));
        }
        Ok(Self {
            time: decimal(time, SECOND_NS, "time")?,
            id: integer(id, "object")?,
            size: integer(size, "size")?,
            next,
        })
    }

    /// Whether the next access may be that of the request `number`, counted from 1.
    fn is_later_than(&self, number: usize) -> bool {
        match self.next {
            NEVER | UNKNOWN | i64::MAX => true,
            next => next > i64::try_from(number).unwrap_or(i64::MAX) && next <= REQUEST_COUNT_MAX,
        }
    }

    fn request(&self, at_ns: u64) -> Option<RawRequest<'static>> {
        (self.size > 0).then_some(RawRequest {
            at_ns,
            operation: Operation::Read,
            offset_bytes: 0,
            length_bytes: self.size,
            origin: Origin::Object(self.id),
        })
    }
}

/// What becomes of ids is said in every description, since nothing in the trace tells it.
const REMARK: &str = "reads of objects by id, placed by first touch";

impl OracleGeneral {
    /// A parser, if the records of `sample` can be nothing else, or the user says that they are.
    pub(super) fn recognise(sample: &[u8], is_named: bool) -> Option<Self> {
        if is_named {
            return (!sample.is_empty()).then_some(Self);
        }
        let (records, _) = sample.as_chunks::<RECORD_BYTES>();
        let mut last = 0;
        let mut has_size = false;
        for (number, record) in (1..).zip(records) {
            let access = Access::of_record(record);
            if access.time < last || access.next == UNKNOWN || !access.is_later_than(number) {
                return None;
            }
            last = access.time;
            has_size |= access.size > 0;
        }
        (has_size && records.len() >= RECORD_COUNT_MIN).then_some(Self)
    }
}

impl RecordParser for OracleGeneral {
    fn head_bytes(&self) -> usize {
        RECORD_BYTES
    }

    fn body_bytes(&self, _head: &[u8]) -> Result<usize, String> {
        Ok(0)
    }

    fn parse(&mut self, head: &[u8]) -> Result<Option<RawRequest<'_>>, String> {
        let access = Access::of_record(head);
        if !access.is_later_than(0) {
            return Err(format!(
                "next_access_vtime {} is neither -1 nor the number of a request; the file is \
                 damaged, or of another format",
                access.next
            ));
        }
        // 2^32 seconds are less than 2^64 nanoseconds.
        Ok(access.request(access.time * SECOND_NS))
    }

    fn remark(&self) -> String {
        REMARK.into()
    }
}

impl OracleText {
    /// Whether `lines` can be nothing else: there is the head, or next accesses that are those of
    /// the same object.
    pub(super) fn is_telling<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
        let mut accesses = Vec::new();
        for (number, line) in (1..).zip(lines) {
            if line.starts_with(TEXT_HEAD) {
                return true;
            }
            if line.is_empty() || line[0] == b'#' || is_header(number, line) {
                continue;
            }
            if fields(line).count() != 4 {
                return false;
            }
            let Ok(access) = Access::of_line(line) else { return false };
            accesses.push(access);
        }
        let mut is_told = false;
        for (number, access) in (1..).zip(&accesses) {
            let next = usize::try_from(access.next).unwrap_or(usize::MAX);
            let same = accesses.get(next.wrapping_sub(1)).map(|next| next.id == access.id);
            if !access.is_later_than(number) || same == Some(false) {
                return false;
            }
            is_told |= same == Some(true) || matches!(access.next, NEVER | i64::MAX);
        }
        is_told
    }
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| b", \t\r".contains(byte)).filter(|field| !field.is_empty())
}

impl LineParser for OracleText {
    fn parse<'a>(&mut self, number: u64, line: &'a [u8]) -> Result<Option<RawRequest<'a>>, String> {
        if is_header(number, line) {
            return Ok(None);
        }
        let access = Access::of_line(line)?;
        Ok(access.request(access.time))
    }

    fn remark(&self) -> Option<String> {
        Some(REMARK.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_table_of_four_numbers_is_not_taken_for_accesses() {
        let tells = |text: &str| OracleText::is_telling(text.lines().map(str::as_bytes));
        assert!(tells("10 7 512 3\n11 8 512 -1\n12 7 512 -1\n"));
        assert!(tells("10,7,512,3\n11,8,512,9223372036854775807\n12,7,512,400\n"));
        assert!(tells("# time,object,size\n10,7,512\n"));
        for other in [
            // A column that is a type, one that is a device, and one that only grows.
            "10 8 512 1\n11 9 512 0\n12 8 512 1\n",
            "10 8 512 5\n11 9 512 5\n12 8 512 5\n13 8 512 5\n14 8 512 5\n",
            "10 8 512 500\n11 9 512 600\n12 8 512 700\n",
            // The third line reads another object than the first.
            "10 7 512 3\n11 8 512 -1\n12 9 512 -1\n",
            "10 7 512\n11 8 512\n",
            "",
        ] {
            assert!(!tells(other), "{other}");
        }
    }

    /// The bytes of a trace of `ids` in which every next access is right.
    fn records(ids: &[u64]) -> Vec<u8> {
        let later = |at: usize| ids[at + 1..].iter().position(|&id| id == ids[at]);
        let record = |(at, &id): (usize, &u64)| {
            let next = later(at).map_or(NEVER, |after| i64::try_from(at + after + 2).unwrap());
            let time = u32::try_from(at / 3).unwrap().to_le_bytes();
            let size = (4096_u32 + u32::try_from(id % 7).unwrap()).to_le_bytes();
            [&time[..], &id.to_le_bytes(), &size, &next.to_le_bytes()].concat()
        };
        ids.iter().enumerate().flat_map(record).collect()
    }

    proptest! {
        #[test]
        fn records_are_recognised_whatever_their_ids(
            ids in proptest::collection::vec(prop_oneof![0_u64..5, any::<u64>()], 2..50),
            cut in 0_usize..24,
        ) {
            let bytes = records(&ids);
            prop_assert!(OracleGeneral::recognise(&bytes, false).is_some());
            // A file that was cut is told by its end, not refused as unknown.
            if ids.len() > RECORD_COUNT_MIN {
                let cut = &bytes[..bytes.len() - cut];
                prop_assert!(OracleGeneral::recognise(cut, false).is_some());
            }
        }

        #[test]
        fn text_is_never_taken_for_records(text in "[ -~\n]{48,200}") {
            prop_assert!(OracleGeneral::recognise(text.as_bytes(), false).is_none());
        }

        #[test]
        fn the_text_of_any_accesses_is_recognised(
            ids in proptest::collection::vec(prop_oneof![0_u64..5, any::<u64>()], 1..50),
        ) {
            let lines: Vec<String> = records(&ids)
                .chunks(RECORD_BYTES)
                .map(Access::of_record)
                .map(|it| format!("{} {} {} {}", it.time, it.id, it.size, it.next))
                .collect();
            prop_assert!(OracleText::is_telling(lines.iter().map(String::as_bytes)));
        }
    }
}
