//! Lists of every kind as they are meant, and as they come.

use super::*;
use crate::graph::{Graph, GraphClass, mr_bfs};
use crate::testing::store;
use flate2::write::GzEncoder;
use proptest::collection::vec;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write;

const GRANT_BYTES: u64 = 1 << 20;

fn open(bytes: &[u8], file: &str, options: &EdgeListOptions) -> Result<EdgeList, ExternalError> {
    EdgeList::open(Cursor::new(bytes.to_vec()), file, options, &Grant::new(GRANT_BYTES))
}

fn all(list: &mut EdgeList) -> Result<Vec<(u64, u64)>, ExternalError> {
    let mut edges = Vec::new();
    while let Some(edge) = list.next_record()? {
        edges.push(edge);
    }
    assert_eq!(list.next_record(), Ok(None), "the end stays the end");
    Ok(edges)
}

fn read(bytes: &[u8], file: &str) -> Result<Vec<(u64, u64)>, ExternalError> {
    all(&mut open(bytes, file, &EdgeListOptions::default())?)
}

/// What is said of bytes that are no list.
fn said(bytes: &[u8], file: &str, options: &EdgeListOptions) -> String {
    let outcome = open(bytes, file, options).and_then(|mut list| {
        let error = all(&mut list).and_then(|_| list.node_count());
        if error.is_err() && !list.is_done {
            assert_eq!(list.next_record().err(), error.clone().err(), "it fails again");
        }
        error
    });
    let error = outcome.expect_err(&format!("{file}: {}", String::from_utf8_lossy(bytes)));
    assert!(matches!(error, ExternalError::Invalid { .. }), "{error:?}");
    error.to_string()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn written(kind: EdgeListKind, node_count: u64, edges: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = edges.len() as u64;
    let mut writer = EdgeListWriter::begin(kind, node_count, count, &mut bytes).unwrap();
    edges.iter().for_each(|&edge| writer.push(edge).unwrap());
    writer.finish().unwrap();
    bytes
}

fn undirected(edges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    edges.iter().map(|&(left, right)| (left.min(right), left.max(right))).collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read_whatever_its_kind_and_packing(
        edges in vec((0_u64..900, 0_u64..900), 1..400),
    ) {
        let edges: Vec<_> = edges.into_iter().filter(|(left, right)| left != right).collect();
        prop_assume!(!edges.is_empty());
        for kind in EdgeListKind::ALL {
            let bytes = written(kind, 900, &edges);
            for packed in [bytes.clone(), gzip(&bytes), zstd(&bytes)] {
                let options = EdgeListOptions { kind: Some(kind), ..EdgeListOptions::default() };
                let mut list = open(&packed, "list", &options).unwrap();
                prop_assert_eq!(undirected(&all(&mut list).unwrap()), undirected(&edges));
                prop_assert_eq!(list.edge_count(), edges.len() as u64);
                prop_assert_eq!(list.read_bytes().load(std::sync::atomic::Ordering::Relaxed),
                    packed.len() as u64);
                let greatest = edges.iter().map(|&(left, right)| left.max(right)).max().unwrap();
                let counted = if kind == EdgeListKind::MatrixMarket { 900 } else { greatest + 1 };
                prop_assert_eq!(list.node_count(), Ok(counted));
            }
        }
    }

    #[test]
    fn any_bytes_are_edges_or_an_error(bytes in vec(any::<u8>(), 0..200), name in 0_usize..5) {
        let name = ["x", "x.u32", "x.u64.gz", "x.mtx", "x.txt"][name];
        for bytes in [bytes.clone(), gzip(&bytes)] {
            if let Err(error) = read(&bytes, name) {
                let text = error.to_string();
                prop_assert!(text.starts_with(name), "{}", text);
            }
        }
    }
}

#[test]
fn a_kind_is_known_by_its_head_then_its_name_then_its_bytes() {
    let kind =
        |bytes: &[u8], file: &str| open(bytes, file, &EdgeListOptions::default()).unwrap().kind();
    let market = b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n";
    assert_eq!(kind(market, "x.txt"), EdgeListKind::MatrixMarket);
    assert_eq!(kind(&gzip(market), "x"), EdgeListKind::MatrixMarket);
    assert_eq!(kind(b"12345678", "x.u32"), EdgeListKind::PairsU32);
    assert_eq!(kind(b"1234567812345678", "x.U64.zst"), EdgeListKind::PairsU64);
    assert_eq!(kind("# größer\n0\t1\r\n".as_bytes(), "x"), EdgeListKind::Text);
    let text = said(&[1, 0, 0, 0, 2, 0, 0, 0], "x.bin", &EdgeListOptions::default());
    assert!(text.starts_with("x.bin: its format is not known") && text.contains("u32"), "{text}");
    for kind in EdgeListKind::ALL {
        assert_eq!(EdgeListKind::named(kind.label()), Some(kind));
    }
}

#[test]
fn text_has_comments_separators_and_line_ends_of_all_sorts() {
    let text = "\u{feff}# SNAP\n% KONECT\n\n0 1\r\n\t1\t2\n2,3\n 3 , 4 # the last\n4 5";
    let expected = vec![(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)];
    assert_eq!(read(text.as_bytes(), "x"), Ok(expected));
}

#[test]
fn text_that_is_no_list_is_told_with_its_line_and_a_remedy() {
    let long = format!("0 1\n{}\n", "7".repeat(70_000));
    for (text, expected) in [
        ("0 1\n7\n", "x:2: the line has one number, and an edge has two; put # before"),
        ("0 1\n\n1 2 3\n", "x:3: the line has more than two numbers; leave the first two"),
        ("source target\n", "x:1: `source` is no number of a node"),
        ("0 -1\n", "x:1: `-1` is no number of a node"),
        ("0 1\n0 18446744073709551616\n", "x:2: `18446744073709551616` is too large"),
        ("0 18446744073709551615\n", "x:1: there is no node 18446744073709551615; they go from 0"),
        ("0 99999999999\n", "x:1: node 99999999999 makes 100000000000 nodes for 1 edges"),
        (long.as_str(), "x:2: the line is longer than 64 KiB"),
        ("# nothing\n", "x: it has no edge; name another file"),
        ("", "x: it has no edge; name another file"),
    ] {
        let text = said(text.as_bytes(), "x", &EdgeListOptions::default());
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn pairs_that_are_cut_are_told_with_their_byte() {
    let bytes = written(EdgeListKind::PairsU64, 9, &[(0, 1), (5, 8)]);
    for length in 17..32 {
        let text = said(&bytes[..length], "x.u64", &EdgeListOptions::default());
        let expected = format!("x.u64, at byte 16: the file ends after {} of the 16", length - 16);
        assert!(text.starts_with(&expected), "{text}");
    }
    let options = EdgeListOptions { node_count: Some(8), ..EdgeListOptions::default() };
    let text = said(&bytes, "x.u64", &options);
    assert_eq!(text, "x.u64, at byte 16: there is no node 8; they go from 0 to 7");
    assert!(EdgeListKind::PairsU32.check((1 << 32) + 1).is_err());
}

#[test]
fn matrices_that_are_no_graph_are_told_with_their_line_and_a_remedy() {
    let head = "%%MatrixMarket matrix coordinate pattern symmetric\n";
    let real = "%%MatrixMarket matrix coordinate real general\n% so it is\n3 3 1\n";
    for (text, expected) in [
        (format!("{head}3 4 1\n1 2\n"), "x.mtx:2: the matrix has 3 rows and 4 columns"),
        (format!("{head}3 3 2\n1 2\n"), "x.mtx:3: the file ends after 1 of 2 entries"),
        (
            format!("{head}3 3 1\n1 2\n2 3\n"),
            "x.mtx:4: the head says 1 entries, and there are more",
        ),
        (format!("{head}3 3 1\n0 2\n"), "x.mtx:3: rows and columns are counted from 1"),
        (format!("{head}3 3 1\n4 2\n"), "x.mtx:3: there is no node 4; they go from 1 to 3"),
        (format!("{head}3 3 1\n1 2 0.5\n"), "x.mtx:3: the entry has `0.5` besides"),
        (format!("{head}3 3\n"), "x.mtx:2: a size is missing"),
        (head.to_owned(), "x.mtx:1: the file ends before the size"),
        (format!("{real}1 2\n"), "x.mtx:4: the entry has no value"),
        (format!("{real}1 2 x\n"), "x.mtx:4: `x` is no value"),
        (
            "%%MatrixMarket matrix array real general\n".to_owned(),
            "x.mtx:1: `matrix array` is no list",
        ),
        ("%%MatrixMarket matrix coordinate\n".to_owned(), "x.mtx:1: the first line has four words"),
        ("1 2\n".to_owned(), "x.mtx:1: a file of Matrix Market begins with"),
        (
            format!("{head}99999999999 99999999999 1\n1 2\n"),
            "x.mtx: its head makes 99999999999 nodes",
        ),
    ] {
        let text = said(text.as_bytes(), "x.mtx", &EdgeListOptions::default());
        assert!(text.starts_with(expected), "{text}");
    }
    assert_eq!(read(format!("{real}1 3 -0.5e3\n").as_bytes(), "x"), Ok(vec![(0, 2)]));
    let options = EdgeListOptions { node_count: Some(4), ..EdgeListOptions::default() };
    let text = said(format!("{real}1 3 1\n").as_bytes(), "x", &options);
    assert!(text.contains("says that there are 3 nodes, and 4 were asked for"), "{text}");
}

#[test]
fn self_loops_are_left_out_and_counted_or_refused_with_their_place() {
    let text = b"0 1\n2 2\n1 3\n";
    let mut list = open(text, "x", &EdgeListOptions::default()).unwrap();
    assert_eq!(all(&mut list), Ok(vec![(0, 1), (1, 3)]));
    assert_eq!((list.self_loop_count(), list.node_count()), (1, Ok(4)));
    let refuse = EdgeListOptions { self_loops: SelfLoops::Refuse, ..EdgeListOptions::default() };
    let text = said(text, "x", &refuse);
    assert!(text.starts_with("x:2: the edge leads from node 2 to itself"), "{text}");
}

#[test]
fn packed_lists_that_end_early_are_told_with_the_line() {
    let text: String = (0..20_000).map(|node| format!("{node} {}\n", node * 7 % 20_011)).collect();
    for (packed, name) in [(gzip(text.as_bytes()), "gzip"), (zstd(text.as_bytes()), "zstd")] {
        for part in [1, 4] {
            let cut = &packed[..packed.len() * part / 5];
            let text = said(cut, "x.gz", &EdgeListOptions::default());
            let expected = format!("the {name} data ends early; the file was cut");
            assert!(text.contains(&expected), "{text}");
            // Where nothing was unpacked yet there is no line: a block of zstd is all there or not at all.
            let byte = format!("x.gz, at byte {}: ", cut.len());
            assert!(text.starts_with("x.gz:") || text.starts_with(&byte), "{text}");
        }
    }
}

#[test]
fn packed_lists_that_end_before_their_first_edge_are_told_with_the_byte() {
    let text: String = (0..200).map(|node| format!("{node} {}\n", node * 7 % 211)).collect();
    for (packed, name) in [(gzip(text.as_bytes()), "gzip"), (zstd(text.as_bytes()), "zstd")] {
        for length in [packed.len() / 2, packed.len() - 1] {
            let text = said(&packed[..length], "x.txt.zst", &EdgeListOptions::default());
            let expected = format!("x.txt.zst, at byte {length}: the {name} data ends early");
            assert!(text.starts_with(&expected), "{text}");
        }
    }
}

/// Gives some bytes, then fails as a disk does.
struct Failing(Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(std::io::Error::other("the disk is gone")),
            count => Ok(count),
        }
    }
}

#[test]
fn a_disk_that_fails_is_no_fault_of_the_list_and_a_wish_to_stop_is_none_at_all() {
    let text = "0 1\n1 2\n".repeat(1000);
    let options = EdgeListOptions::default();
    let grant = Grant::new(GRANT_BYTES);
    let mut list =
        EdgeList::open(Failing(Cursor::new(text.clone().into_bytes())), "x", &options, &grant)
            .unwrap();
    let error = all(&mut list).unwrap_err();
    let message = "the disk is gone".to_owned();
    assert_eq!(error, ExternalError::File { file: "x".to_owned(), message });
    let mut list = open(text.as_bytes(), "x", &options).unwrap();
    assert_eq!(list.next_record(), Ok(Some((0, 1))));
    options.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(all(&mut list), Err(ExternalError::Cancelled));
    let small = Grant::new(READER_BYTES - 1);
    let error =
        EdgeList::open(std::io::empty(), "x", &EdgeListOptions::default(), &small).unwrap_err();
    assert!(matches!(error, ExternalError::TooLittleMemory { .. }), "{error}");
}

#[test]
fn a_search_over_a_list_finds_what_it_finds_over_the_edges() {
    let class = GraphClass::Random { nodes: 700, edges: 1500 };
    let store = store(512, 2, 2);
    let bytes = 60 << 10;
    let levels = |graph: &Graph| {
        let mut levels = Vec::new();
        mr_bfs(graph, 0, bytes, |node, level| {
            levels.push((node, level));
            Ok(())
        })
        .unwrap();
        levels
    };
    let direct = Graph::build(&store, 700, class.edges(3), bytes).unwrap();
    let mut edges = Vec::new();
    let mut stream = class.edges(3);
    while let Some(edge) = stream.next_record().unwrap() {
        edges.push(edge);
    }
    for kind in EdgeListKind::ALL {
        let bytes_of = written(kind, 700, &edges);
        let options = EdgeListOptions {
            kind: Some(kind),
            node_count: Some(700),
            ..EdgeListOptions::default()
        };
        let list = EdgeList::open(Cursor::new(bytes_of), "list", &options, store.grant()).unwrap();
        let graph =
            Graph::build_counted((&store, &store), list, 700, EdgeList::node_count, bytes).unwrap();
        graph.audit();
        assert_eq!(levels(&graph), levels(&direct), "{kind:?}");
    }
}

/// Bytes that all come at once, and a user who wants to stop then.
struct StoppedBehind {
    bytes: Cursor<Vec<u8>>,
    stop: Arc<AtomicBool>,
}

impl Read for StoppedBehind {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        if self.bytes.position() == self.bytes.get_ref().len() as u64 {
            self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(count)
    }
}

#[test]
fn a_stop_is_heard_while_few_bytes_become_many_comments() {
    let text = "# nothing\n".repeat(500_000) + "0 1\n";
    for packed in [gzip(text.as_bytes()), zstd(text.as_bytes())] {
        assert!(packed.len() < 64 << 10, "they come at once: {}", packed.len());
        let stop = Arc::<AtomicBool>::default();
        let stream = StoppedBehind { bytes: Cursor::new(packed), stop: Arc::clone(&stop) };
        let options = EdgeListOptions { stop, ..EdgeListOptions::default() };
        let opened = EdgeList::open(stream, "list", &options, &Grant::new(GRANT_BYTES));
        let outcome = opened.and_then(|mut list| list.next_record());
        assert_eq!(outcome, Err(ExternalError::Cancelled));
    }
}
