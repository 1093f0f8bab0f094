//! Edge lists as people have them on their disks: text, numbers in binary, Matrix Market; each may
//! be packed by gzip or zstd.
//!
//! ```text
//!   bytes ──► counted, stoppable ──► unpacked ──► reader of its kind ──► checked ──► (u64, u64)
//!                                                   line or byte          self loops, numbers of nodes
//! ```
//!
//! 1. Memory is bounded, whatever comes: [`READER_BYTES`] of the grant, and what unpacking takes.
//! 2. An edge that comes out lies between two different nodes of the graph.
//! 3. What is no edge is an error that says where and what would do; then the stream fails again.

mod binary;
mod fields;
mod kind;
mod matrix_market;
mod text;
mod watched;
mod writer;

pub use kind::EdgeListKind;
pub use writer::EdgeListWriter;

use crate::error::Failure;
use crate::{ExternalError, Grant, Memory, RecordStream};
use nandu_trace::compression::Compression;
use std::fmt;
use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use watched::{Stoppable, Watch, Watched};

/// Bytes of memory that a reader takes of its grant. Unpacking takes its window besides: 32 KiB of
/// gzip, and what the packer chose of zstd, some MiB, 128 MiB at most.
pub const READER_BYTES: u64 = 512 << 10;
/// By so many of its first bytes the format of a file is known.
const SAMPLE_BYTES: u64 = 4 << 10;
/// A graph that says itself how many nodes it has, by its greatest number or in a head, has at most
/// so many for each edge, and [`NODE_COUNT_FREE`] in any case: each takes room, whether or not it
/// has edges.
const NODES_PER_EDGE_MAX: u64 = 64;
/// So many nodes are taken without a look at how many edges there are.
const NODE_COUNT_FREE: u64 = 1 << 20;

/// What becomes of edges from a node to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelfLoops {
    /// They are left out and counted: they change no distance, and lists that people have are full
    /// of them.
    #[default]
    Drop,
    /// The first one is an error with its place.
    Refuse,
}

/// How a list is read.
#[derive(Clone, Debug, Default)]
pub struct EdgeListOptions {
    /// What it is; `None` goes by its bytes and its name.
    pub kind: Option<EdgeListKind>,
    /// What becomes of edges from a node to itself.
    pub self_loops: SelfLoops,
    /// How many nodes there are; `None` goes by its head or by the greatest number of a node.
    pub node_count: Option<u64>,
    /// Once it is set, reading ends with [`ExternalError::Cancelled`].
    pub stop: Arc<AtomicBool>,
}

/// Edges of a list, one after the other.
pub struct EdgeList {
    file: String,
    kind: EdgeListKind,
    is_packed: bool,
    reader: Box<dyn EdgeReader>,
    watch: Arc<Watch>,
    self_loops: SelfLoops,
    /// How many nodes the user says that there are, and how many the file does.
    asked_node_count: Option<u64>,
    stated_node_count: Option<u64>,
    /// Nodes are numbers below this.
    node_limit: u64,
    edge_count: u64,
    self_loop_count: u64,
    /// The greatest node, and where it came first.
    greatest: Option<(u64, Place)>,
    is_done: bool,
    failure: Failure,
    _memory: Memory,
}

/// Where a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0, of what was unpacked.
    Byte(u64),
}

/// Reads edges of one kind.
trait EdgeReader: Send {
    /// Reads what comes before the first edge.
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// The next edge, `None` at the end, or what is wrong at [`Self::place`].
    fn next_edge(&mut self) -> Result<Option<(u64, u64)>, String>;

    /// Where the last edge was read.
    fn place(&self) -> Place;

    /// How many nodes the file says that there are, once it was begun.
    fn node_count(&self) -> Option<u64> {
        None
    }

    /// The number that the file gives to the node 0.
    fn first_node(&self) -> u64 {
        0
    }
}

impl EdgeList {
    /// Reads edges from `stream`, called `file` in messages, which also decides what bytes cannot.
    ///
    /// # Errors
    /// If the grant has not [`READER_BYTES`], or the stream does not begin as its kind does.
    pub fn open(
        stream: impl Read + Send + 'static,
        file: &str,
        options: &EdgeListOptions,
        grant: &Grant,
    ) -> Result<Self, ExternalError> {
        let memory = grant.take("a list of edges", READER_BYTES)?;
        let watch = Arc::new(Watch::new(Arc::clone(&options.stop)));
        let failed = |what: String| watch.error(file, &format!("{file}: {what}"), &what);
        let watched = Watched::new(stream, Arc::clone(&watch));
        let unpacked = nandu_trace::compression::decompress(watched);
        // Where no line was read yet, nor a byte of what is packed, it is a byte of the file.
        let cut = |what: String| {
            let read_bytes = watch.read_bytes().load(Ordering::Relaxed);
            watch.error(file, &format!("{file}, at byte {read_bytes}: {what}"), &what)
        };
        let (stream, packed) = unpacked.map_err(|error| cut(error.to_string()))?;
        // Few bytes may be very many when they are unpacked.
        let mut stream = Stoppable::new(stream, Arc::clone(&watch));
        let is_packed = packed != Compression::None;
        let mut sample = Vec::new();
        let sampled = stream.by_ref().take(SAMPLE_BYTES).read_to_end(&mut sample);
        sampled.map_err(|error| cut(error.to_string()))?;
        let kind = match options.kind {
            Some(kind) => kind,
            None => EdgeListKind::of(&sample, file).map_err(failed)?,
        };
        let reader = kind.reader(Box::new(Cursor::new(sample).chain(stream)));
        let mut list = Self {
            file: file.to_owned(),
            kind,
            is_packed,
            reader,
            watch,
            self_loops: options.self_loops,
            asked_node_count: options.node_count,
            stated_node_count: None,
            node_limit: options.node_count.unwrap_or(u64::MAX),
            edge_count: 0,
            self_loop_count: 0,
            greatest: None,
            is_done: false,
            failure: Failure::default(),
            _memory: memory,
        };
        let begun = list.reader.begin();
        begun.map_err(|what| list.wrong(&what))?;
        list.stated_node_count = list.reader.node_count();
        list.agree()?;
        Ok(list)
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> EdgeListKind {
        self.kind
    }

    /// Bytes that were read so far, packed as they are.
    #[must_use]
    pub fn read_bytes(&self) -> Arc<AtomicU64> {
        self.watch.read_bytes()
    }

    /// How many nodes there are, where the user or the head says it.
    #[must_use]
    pub fn known_node_count(&self) -> Option<u64> {
        self.asked_node_count.or(self.stated_node_count)
    }

    /// How many edges a list of `byte_count` bytes has, where each has as many, those from a node to itself
    /// among them.
    #[must_use]
    pub fn known_edge_count(&self, byte_count: Option<u64>) -> Option<u64> {
        let edge_bytes = self.kind.edge_bytes().filter(|_| !self.is_packed)?;
        Some(byte_count? / edge_bytes)
    }

    /// How many nodes and edges a list of `byte_count` bytes has, where that is known before it is read:
    /// nodes by the user or the head, edges by the bytes, where each has as many.
    #[must_use]
    pub fn known_counts(&self, byte_count: Option<u64>) -> Option<(u64, u64)> {
        let nodes = self.known_node_count()?;
        Some((nodes, self.known_edge_count(byte_count)?))
    }

    /// Edges that were given so far, each as often as it came.
    #[must_use]
    pub const fn edge_count(&self) -> u64 {
        self.edge_count
    }

    /// Edges from a node to itself that were left out.
    #[must_use]
    pub const fn self_loop_count(&self) -> u64 {
        self.self_loop_count
    }

    /// How many nodes there are, once all was read: as the user says, as the file does, or one more
    /// than the greatest.
    ///
    /// # Errors
    /// If the file's numbers make far more nodes than it has edges.
    pub fn node_count(&self) -> Result<u64, ExternalError> {
        if let Some(count) = self.asked_node_count {
            return Ok(count);
        }
        let by_greatest = self.greatest.map_or(0, |(node, _)| node + 1);
        let count = self.stated_node_count.unwrap_or(by_greatest);
        let most = self.edge_count.saturating_mul(NODES_PER_EDGE_MAX).max(NODE_COUNT_FREE);
        if count <= most {
            return Ok(count);
        }
        let (place, why) = match (self.stated_node_count, self.greatest) {
            (None, Some((node, place))) => (self.at(place), format!("node {node}")),
            _ => (self.file.clone(), "its head".to_owned()),
        };
        let what = format!(
            "{place}: {why} makes {count} nodes for {} edges, and each takes room; give nodes numbers \
             without gaps, or say how many nodes there are if they are meant",
            self.edge_count
        );
        Err(ExternalError::Invalid { what })
    }

    /// Refuses a file that says another number of nodes than the user.
    fn agree(&mut self) -> Result<(), ExternalError> {
        let Some(stated) = self.stated_node_count else { return Ok(()) };
        match self.asked_node_count.filter(|&asked| asked != stated) {
            Some(asked) => Err(self.wrong(&format!(
                "it says that there are {stated} nodes, and {asked} were asked for; leave that out"
            ))),
            None => {
                self.node_limit = stated;
                Ok(())
            }
        }
    }

    fn at(&self, place: Place) -> String {
        match place {
            Place::Line(line) => format!("{}:{line}", self.file),
            Place::Byte(byte) => format!("{}, at byte {byte}", self.file),
        }
    }

    /// The error that something is wrong where the reader is.
    fn wrong(&self, what: &str) -> ExternalError {
        let text = format!("{}: {what}", self.at(self.reader.place()));
        self.watch.error(&self.file, &text, what)
    }

    /// The next edge that counts.
    fn next_checked(&mut self) -> Result<Option<(u64, u64)>, ExternalError> {
        loop {
            let Some((left, right)) = self.reader.next_edge().map_err(|what| self.wrong(&what))?
            else {
                return self.end().map(|()| None);
            };
            let greater = left.max(right);
            if self.greatest.is_none_or(|(greatest, _)| greater > greatest) {
                self.check_node(greater)?;
                self.greatest = Some((greater, self.reader.place()));
            }
            if left != right {
                self.edge_count += 1;
                return Ok(Some((left, right)));
            }
            self.self_loop_count += 1;
            if self.self_loops == SelfLoops::Refuse {
                let node = left + self.reader.first_node();
                let what =
                    format!("the edge leads from node {node} to itself; remove it, or drop such");
                return Err(self.wrong(&what));
            }
            // Nobody else looks at it while none comes out.
            self.watch.check_stop()?;
        }
    }

    fn check_node(&self, node: u64) -> Result<(), ExternalError> {
        if node < self.node_limit {
            return Ok(());
        }
        let first = self.reader.first_node();
        let (node, last) = (u128::from(node) + u128::from(first), self.node_limit);
        Err(self.wrong(&match last {
            0 => format!("node {node} of a graph without nodes"),
            _ => format!(
                "there is no node {node}; they go from {first} to {}",
                u128::from(last) - 1 + u128::from(first)
            ),
        }))
    }

    /// All was read.
    fn end(&mut self) -> Result<(), ExternalError> {
        self.is_done = true;
        let is_empty = self.edge_count + self.self_loop_count == 0;
        if is_empty && self.asked_node_count.or(self.stated_node_count).is_none() {
            let what = format!(
                "{}: it has no edge; name another file, or say how many nodes there are",
                self.file
            );
            return Err(ExternalError::Invalid { what });
        }
        Ok(())
    }
}

impl fmt::Debug for EdgeList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "EdgeList({} of {}, {:?})", self.edge_count, self.file, self.kind)
    }
}

impl RecordStream for EdgeList {
    type Record = (u64, u64);

    fn next_record(&mut self) -> Result<Option<(u64, u64)>, ExternalError> {
        self.failure.check()?;
        if self.is_done {
            return Ok(None);
        }
        if self.edge_count.is_multiple_of(STOP_EDGES) {
            self.watch.check_stop()?;
        }
        let next = self.next_checked();
        self.failure.note(next)
    }
}

/// After so many edges somebody looks at whether to stop.
const STOP_EDGES: u64 = 4096;

#[cfg(test)]
mod tests;
