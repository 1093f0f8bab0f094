//! What tests of layers over small arrays share.

#![allow(dead_code, reason = "no test uses all of it")]

use nandu_base::{Lpn, Nanos};
use nandu_ftl::{Ftl, FtlError};
use nandu_nand::{Content, NandArray, Ticket, Timing};

/// A chip whose operations take 20, 200 and 1500 ns, over a bus that takes no time to speak of.
pub(crate) fn quick_timing() -> Timing {
    Timing {
        read_ns: Nanos(20),
        program_ns: Nanos(200),
        program_type_ns: nandu_nand::PageTypes::ALIKE,
        erase_ns: Nanos(1500),
        command_ns: Nanos(1),
        bus_bytes_per_second: 10_000_000_000,
        cache_register: false,
    }
}

/// Requests that are issued at a time and waited for, each one alone.
pub(crate) trait Timed {
    /// Writes a unit; answers when that is done. One that waits in an open row is done at once.
    fn write_at(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        lpn: Lpn,
        content: Content,
    ) -> Result<Nanos, FtlError> {
        self.write_to_stream_at(nand, now, (lpn, 0), content)
    }

    /// Writes a unit of a stream.
    fn write_to_stream_at(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        place: (Lpn, u8),
        content: Content,
    ) -> Result<Nanos, FtlError>;

    /// Reads `bytes` of a unit.
    fn read_at(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        lpn: Lpn,
        bytes: u32,
    ) -> Result<Nanos, FtlError>;

    /// Trims `count` units from `first` on.
    fn trim_at(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        first: Lpn,
        count: u64,
    ) -> Result<Nanos, FtlError>;

    /// Programs what waits in memory.
    fn flush_at(&mut self, nand: &mut NandArray, now: Nanos) -> Result<Nanos, FtlError>;

    /// Rebuilds the map.
    fn recover_at(&mut self, nand: &mut NandArray, now: Nanos) -> Result<Nanos, FtlError>;

    /// Work in the background for `length`, once what is in flight has ended; answers when that was.
    fn rest(&mut self, nand: &mut NandArray, now: Nanos, length: Nanos) -> Nanos;
}

impl<T: Ftl + ?Sized> Timed for T {
    fn write_to_stream_at(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        (lpn, stream): (Lpn, u8),
        content: Content,
    ) -> Result<Nanos, FtlError> {
        let after = nand.at(now);
        let done = self.write_to_stream(nand, after, lpn, content, stream)?;
        Ok(nand.finish(done))
    }

    fn read_at(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        lpn: Lpn,
        bytes: u32,
    ) -> Result<Nanos, FtlError> {
        let after = nand.at(now);
        let outcome = self.read(nand, after, lpn, bytes)?;
        Ok(ended(nand, outcome.done))
    }

    fn trim_at(
        &mut self,
        nand: &mut NandArray,
        now: Nanos,
        first: Lpn,
        count: u64,
    ) -> Result<Nanos, FtlError> {
        let after = nand.at(now);
        let done = self.trim(nand, after, first, count)?;
        Ok(ended(nand, done))
    }

    fn flush_at(&mut self, nand: &mut NandArray, now: Nanos) -> Result<Nanos, FtlError> {
        let after = nand.at(now);
        let done = self.flush(nand, after)?;
        Ok(ended(nand, done))
    }

    fn recover_at(&mut self, nand: &mut NandArray, now: Nanos) -> Result<Nanos, FtlError> {
        let after = nand.at(now);
        let done = self.recover(nand, after)?;
        Ok(ended(nand, done))
    }

    fn rest(&mut self, nand: &mut NandArray, now: Nanos, length: Nanos) -> Nanos {
        let start = now.max(nand.idle_at());
        self.idle(nand, start, start + length);
        start
    }
}

/// When a ticket ends, which is not that of a row that waits to be filled.
fn ended(nand: &mut NandArray, ticket: Ticket) -> Nanos {
    let end = nand.finish(ticket);
    let is_done = nand.is_single_server() || nand.is_done(ticket);
    assert!(is_done, "commands wait for each other");
    end
}
