//! List ranking by bridging out independent sets (Chiang, Goodrich, Grove, Tamassia, Vengroff and
//! Vitter, SODA 1995): O(sort(n)) blocks.
//!
//! ```text
//!   p ──w──► x ──v──► s        x has the coin 1 and s the coin 0: x goes, and nobody beside it
//!   p ───── w + v ───► s       rank of x, later: rank of p + w
//!
//!   arcs by element ═╦═ by successor ─► sorter by element ─► arcs of the next round: some 3/4
//!                    ╚════════════════► (x, p, w) of who went
//!   … until the arcs fit into memory: walk; then the rounds backwards: who went, by p, beside the
//!     ranks by element ─► sorter by x ─► both merged: the ranks of the round before
//! ```
//!
//! An arc takes 24 bytes in memory. The list as it was given takes four an element, and is walked
//! at once where these fit.
//!
//! 1. Of two elements in a row at most one goes, the head and the last one never do.
//! 2. The arcs of a round are those of one list with the same ranks.
//! 3. A round costs two sorts and a scan on the way in, two sorts and two scans on the way out; no
//!    list is written but the arcs, who went, and the ranks.

use super::walk::{
    Arc, ELEMENTS_PER_LOOK, VISITED, WORD_END, Words, rehearse_arcs, rehearse_words, walk_arcs,
    word_bytes,
};
use super::{END, check_element, circle, unreached};
use crate::error::Caught;
use crate::store::misfit;
use crate::{
    By, ExternalError, KeptVector, Memory, Natural, RecordStream, Sorter, Store, Vector,
    VectorWriter, sort,
};
use nandu_base::hash::FixedHasher;
use nandu_base::words::counted;
use nandu_base::{Nanos, Rng, to_index, to_u32};
use serde::{Deserialize, Serialize};
use std::hash::Hasher;

/// The successor first.
type ArcBack = (u64, u64, u64);
/// An element that went, the one before it, and how far it was from there.
type Gone = (u64, u64, u64);
/// An element and its rank.
type Ranked = (u64, u64);

/// Bytes of an element that a walk in memory goes past, as progress has them.
const WALKED_BYTES: u64 = 8;
/// A ranking that is kept between two rounds, in a store that is kept ([`Store::keep`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptRanking {
    count: u64,
    head: u64,
    /// Who went in each round that was not expanded yet, the first one first.
    gone: Vec<KeptVector>,
    stage: KeptStage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum KeptStage {
    Arcs(KeptVector),
    Ranks(KeptVector),
}

impl KeptRanking {
    /// The vectors that it is made of.
    #[must_use]
    pub fn vectors(&self) -> Vec<&KeptVector> {
        let (KeptStage::Arcs(stage) | KeptStage::Ranks(stage)) = &self.stage;
        self.gone.iter().chain([stage]).collect()
    }

    /// How many elements the list has.
    #[must_use]
    pub const fn element_count(&self) -> u64 {
        self.count
    }
}

/// Where a ranking stands between two rounds.
enum Stage {
    /// Arcs by element, and by successor where they were just made.
    Arcs(Vector<Arc>, Option<Box<Sorter<ArcBack, Natural>>>),
    Ranks(Vector<Ranked>),
}

/// Who went in each round that was not expanded yet.
type Rounds = Vec<Vector<Gone>>;

/// How memory is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Division {
    /// Memory of a sorter; there are two at a time.
    sort_bytes: u64,
    /// Memory of a walk, beside one stream.
    walk_bytes: u64,
}

/// What a run needs everywhere.
struct Run<'v> {
    store: &'v Store,
    count: u64,
    head: u64,
    division: Division,
}

/// The coins of a round.
#[derive(Clone, Copy)]
struct Coins {
    salt: u64,
    head: u64,
}

impl Coins {
    fn of(self, element: u64) -> bool {
        let mut hasher = FixedHasher::default();
        hasher.write_u64(element ^ self.salt);
        hasher.finish() & 1 == 1
    }

    /// Whether an element goes (invariant 1).
    fn is_gone(self, element: u64, successor: u64) -> bool {
        let has_end = element == self.head || successor == END;
        !has_end && self.of(element) && !self.of(successor)
    }
}

/// The rank of each element, within `bytes` of memory. The coins come from `rng`; the ranks do not
/// depend on them.
///
/// # Errors
/// If it is not a list, there is not so much memory or it is too little for two sorts and two
/// streams, or no room, or the device fails.
pub fn rank(
    successors: &Vector<u64>,
    head: u64,
    bytes: u64,
    rng: &mut Rng,
) -> Result<Vector<u64>, ExternalError> {
    rank_watched(successors, head, bytes, rng, |_| Ok(()))
}

/// The same, which calls `watch` between any two rounds. What it is given and what was given before
/// stay whole where room is held ([`Store::hold`]).
///
/// # Errors
/// As [`rank`], and as `watch`.
pub fn rank_watched<E: From<ExternalError>>(
    successors: &Vector<u64>,
    head: u64,
    bytes: u64,
    rng: &mut Rng,
    mut watch: impl FnMut(&KeptRanking) -> Result<(), E>,
) -> Result<Vector<u64>, E> {
    let mut caught = Caught::default();
    let ranked = rank_all(successors, head, bytes, rng, &mut |kept| caught.note(watch(kept)));
    caught.out(ranked)
}

/// Who is called between two rounds.
type Watch<'w> = dyn FnMut(&KeptRanking) -> Result<(), ExternalError> + 'w;

fn rank_all(
    successors: &Vector<u64>,
    head: u64,
    bytes: u64,
    rng: &mut Rng,
    watch: &mut Watch<'_>,
) -> Result<Vector<u64>, ExternalError> {
    let (store, count) = (successors.store(), successors.len());
    let run = Run { store, count, head, division: Division::new(store, bytes)? };
    if successors.is_empty() {
        return Vector::writer(run.store)?.finish();
    }
    check_element(head, successors.len(), None)?;
    if run.division.walks(run.count) {
        return run.walk_words(successors);
    }
    let (rounds, stage) = run.begin(successors, rng)?;
    run.finish(rounds, stage, rng, watch)
}

/// Goes on with a ranking that was kept, in a store that was resumed with its vectors, as
/// [`rank_watched`] does.
///
/// # Errors
/// As [`rank_watched`], and as [`Vector::resume`].
pub fn resume_ranking<E: From<ExternalError>>(
    store: &Store,
    kept: &KeptRanking,
    bytes: u64,
    rng: &mut Rng,
    mut watch: impl FnMut(&KeptRanking) -> Result<(), E>,
) -> Result<Vector<u64>, E> {
    let mut caught = Caught::default();
    let ranked = go_on(store, kept, bytes, rng, &mut |kept| caught.note(watch(kept)));
    caught.out(ranked)
}

fn go_on(
    store: &Store,
    kept: &KeptRanking,
    bytes: u64,
    rng: &mut Rng,
    watch: &mut Watch<'_>,
) -> Result<Vector<u64>, ExternalError> {
    let (count, head) = (kept.count, kept.head);
    let run = Run { store, count, head, division: Division::new(store, bytes)? };
    let rounds = kept.gone.iter().map(|gone| Vector::resume(store, gone));
    let rounds = rounds.collect::<Result<Rounds, _>>()?;
    if rounds.is_empty() {
        return Err(misfit("a ranking has no round"));
    }
    let stage = match &kept.stage {
        KeptStage::Arcs(arcs) => Stage::Arcs(Vector::resume(store, arcs)?, None),
        KeptStage::Ranks(ranks) => Stage::Ranks(Vector::resume(store, ranks)?),
    };
    // What was kept is read away, and may have to be resumed again.
    store.hold();
    // Coins of a round that was done would choose hardly anybody.
    for _ in &rounds {
        rng.next_u64();
    }
    run.finish(rounds, stage, rng, watch)
}

/// Refuses a list of `count` elements that is to be read from elsewhere and ranked within `bytes` of memory,
/// where the store has no room for it and for what has to lie beside it: its ranks; its arcs; or, of a
/// second round, who went in the first and the others in two orders. Half of them go at most.
///
/// # Errors
/// As [`Store::check_room`]. Too little memory is no error here.
pub fn check_room(store: &Store, count: u64, bytes: u64) -> Result<(), ExternalError> {
    let bytes = room_bytes(store, count, bytes)?;
    store.check_room(bytes, &format!("ranking {}", counted(count, "element")))
}

/// The room that is counted then; none where there is too little memory.
///
/// # Errors
/// If a block holds no record.
pub(crate) fn room_bytes(store: &Store, count: u64, bytes: u64) -> Result<u64, ExternalError> {
    let Ok(division) = Division::new(store, bytes) else { return Ok(0) };
    let list_blocks = count.div_ceil(store.per_block::<u64>()?);
    let list_bytes = list_blocks.saturating_mul(store.block_bytes());
    let mut beside_bytes = list_bytes;
    if !division.walks(count) {
        let sort = sort::Division::new::<ArcBack>(store, division.sort_bytes)?;
        beside_bytes = beside_bytes.max(sort.run_bytes(store, count));
        let half = count / 2;
        if !division.fits(half) {
            let gone_and_others = sort.blocks(count).saturating_mul(store.block_bytes());
            let both_orders = gone_and_others.saturating_add(sort.run_bytes(store, half));
            beside_bytes = beside_bytes.max(both_orders);
        }
    }
    Ok(list_bytes.saturating_add(beside_bytes))
}

impl Division {
    /// Of `bytes` of memory.
    ///
    /// # Errors
    /// If it is too little for two sorts and two streams.
    pub(crate) fn new(store: &Store, bytes: u64) -> Result<Self, ExternalError> {
        let stream_bytes = store.stream_bytes();
        let sort_bytes = bytes.saturating_sub(2 * stream_bytes) / 2;
        if sort_bytes < 4 * store.block_bytes() {
            return Err(ExternalError::TooLittleMemory {
                operator: "list ranking".to_owned(),
                needed_bytes: 2 * (stream_bytes + 4 * store.block_bytes()),
                granted_bytes: bytes,
            });
        }
        Ok(Self { sort_bytes, walk_bytes: bytes - stream_bytes })
    }

    /// Memory of each of the sorts.
    pub(crate) const fn sort_bytes(self) -> u64 {
        self.sort_bytes
    }

    /// Whether so many elements are walked past as they were given.
    pub(crate) fn walks(self, count: u64) -> bool {
        count < u64::from(WORD_END) && word_bytes(count) <= self.walk_bytes
    }

    /// What a step of the walk takes by which the ranking of so many elements ends, in picoseconds by
    /// `clock`: over words, or over as many arcs as fit.
    pub(crate) fn rehearse_walk(
        self,
        store: &Store,
        count: u64,
        clock: &dyn Fn() -> Nanos,
    ) -> Result<f64, ExternalError> {
        let mut look = || store.check_stop();
        match self.walks(count) {
            true => rehearse_words(count, clock, &mut look),
            false => rehearse_arcs(self.sort_bytes / size_of::<Arc>() as u64, clock, &mut look),
        }
    }

    /// Whether so many arcs fit into the memory of one sorter, while the other one gives them.
    pub(crate) const fn fits(self, count: u64) -> bool {
        count <= self.sort_bytes / size_of::<Arc>() as u64
    }
}

impl Run<'_> {
    /// The first round.
    fn begin(
        &self,
        successors: &Vector<u64>,
        rng: &mut Rng,
    ) -> Result<(Rounds, Stage), ExternalError> {
        let mut by_successor = self.sorter()?;
        let mut first = First::new(successors)?;
        while let Some((element, successor, distance)) = first.next_record()? {
            by_successor.push((successor, element, distance))?;
        }
        drop(first);
        let (kept, gone) = self.contract(First::new(successors)?, by_successor, rng.next_u64())?;
        Ok((vec![gone], self.settle(kept)?))
    }

    /// The rounds after the first, and all of them backwards.
    fn finish(
        &self,
        mut rounds: Rounds,
        mut stage: Stage,
        rng: &mut Rng,
        watch: &mut Watch<'_>,
    ) -> Result<Vector<u64>, ExternalError> {
        loop {
            watch(&self.kept(&rounds, &stage))?;
            stage = match stage {
                Stage::Arcs(arcs, by_successor) => {
                    let by_successor = match by_successor {
                        Some(by_successor) => *by_successor,
                        None => self.turned(&arcs)?,
                    };
                    let arcs = arcs.into_stream()?;
                    let (kept, gone) = self.contract(arcs, by_successor, rng.next_u64())?;
                    rounds.push(gone);
                    self.settle(kept)?
                }
                Stage::Ranks(ranks) => {
                    let gone = rounds.pop().expect("there was a round");
                    if rounds.is_empty() {
                        let mut writer = Vector::writer_of(self.store, self.count)?;
                        self.expand(gone, &ranks, |(_, rank)| writer.push(rank))?;
                        return writer.finish();
                    }
                    let count = ranks.len() + gone.len();
                    let mut writer = Vector::writer_of(self.store, count)?;
                    self.expand(gone, &ranks, |ranked| writer.push(ranked))?;
                    Stage::Ranks(writer.finish()?)
                }
            };
        }
    }

    /// The arcs that a round left, on both ways, or ranked where they fit into memory.
    fn settle(&self, kept: Sorter<Arc, Natural>) -> Result<Stage, ExternalError> {
        let count = kept.len();
        if self.division.fits(count) {
            let (ranked, _memory) = self.walk(count, kept.finish()?)?;
            return self.store_walked(&ranked).map(Stage::Ranks);
        }
        // One pass makes the arcs and sorts them the other way.
        let (mut arcs, mut by_successor) = (Vector::writer_of(self.store, count)?, self.sorter()?);
        let mut stream = kept.finish()?;
        while let Some((element, successor, distance)) = stream.next_record()? {
            arcs.push((element, successor, distance))?;
            by_successor.push((successor, element, distance))?;
        }
        drop(stream);
        Ok(Stage::Arcs(arcs.finish()?, Some(Box::new(by_successor))))
    }

    /// Arcs by successor.
    fn turned(&self, arcs: &Vector<Arc>) -> Result<Sorter<ArcBack, Natural>, ExternalError> {
        let mut by_successor = self.sorter()?;
        let mut scanner = arcs.scanner()?;
        while let Some((element, successor, distance)) = scanner.next_record()? {
            by_successor.push((successor, element, distance))?;
        }
        Ok(by_successor)
    }

    fn kept(&self, rounds: &[Vector<Gone>], stage: &Stage) -> KeptRanking {
        let stage = match stage {
            Stage::Arcs(arcs, _) => KeptStage::Arcs(arcs.kept()),
            Stage::Ranks(ranks) => KeptStage::Ranks(ranks.kept()),
        };
        let gone = rounds.iter().map(Vector::kept).collect();
        KeptRanking { count: self.count, head: self.head, gone, stage }
    }

    fn sorter(&self) -> Result<Sorter<Arc, Natural>, ExternalError> {
        Sorter::with_bytes(self.store, Natural, self.division.sort_bytes)
    }

    /// A round: the arcs that stay, and who went. `arcs` come by element.
    fn contract<S: RecordStream<Record = Arc>>(
        &self,
        mut arcs: S,
        by_successor: Sorter<ArcBack, Natural>,
        salt: u64,
    ) -> Result<(Sorter<Arc, Natural>, Vector<Gone>), ExternalError> {
        let coins = Coins { salt, head: self.head };
        let mut back = by_successor.finish()?.ahead();
        let mut kept = self.sorter()?;
        let mut gone: VectorWriter<Gone> = Vector::writer(self.store)?;
        while let Some((element, successor, distance)) = arcs.next_record()? {
            let before = back.peek()?.filter(|&(target, _, _)| target == element);
            let Some((_, previous, gap)) = before else {
                if element == self.head {
                    continue;
                }
                return Err(unreached(element, self.head));
            };
            back.next_record()?;
            if let Some((target, other, _)) = back.peek()?
                && target == element
            {
                return Err(meeting(previous, other, element));
            }
            if element == self.head || element == successor {
                return Err(circle(element));
            }
            if coins.is_gone(element, successor) {
                kept.push((previous, successor, gap + distance))?;
                gone.push((element, previous, gap))?;
            } else if !coins.is_gone(previous, element) {
                kept.push((previous, element, gap))?;
            }
        }
        while let Some((target, element, distance)) = back.next_record()? {
            // Successors that no element is were refused before; the first round refuses two ends.
            assert_eq!(target, END, "arcs lead to elements of the list");
            kept.push((element, END, distance))?;
        }
        Ok((kept, gone.finish()?))
    }

    /// Walks the list as it was given, in memory.
    fn walk_words(&self, successors: &Vector<u64>) -> Result<Vector<u64>, ExternalError> {
        let count = self.count;
        let _memory = self.store.grant().take("list ranking", word_bytes(count))?;
        let mut words = Vec::with_capacity(to_index(count));
        let mut first = First::new(successors)?;
        while let Some((_, successor, _)) = first.next_record()? {
            words.push(if successor == END { WORD_END } else { to_u32(successor) });
        }
        drop(first);
        let mut words = Words::new(words);
        let mut look = || self.store.work(ELEMENTS_PER_LOOK * WALKED_BYTES);
        if words.walk(to_u32(self.head), u64::MAX, &mut look)? < count {
            let left = words.first_left().expect("fewer were passed than there are");
            return Err(unreached(left as u64, self.head));
        }
        let mut writer = Vector::writer_of(self.store, count)?;
        words.words.iter().try_for_each(|&rank| writer.push(rank.into()))?;
        writer.finish()
    }

    /// Walks `count` arcs in memory; gives them back by element, the rank in place of the distance.
    fn walk<S: RecordStream<Record = Arc>>(
        &self,
        count: u64,
        mut stream: S,
    ) -> Result<(Vec<Arc>, Memory), ExternalError> {
        let memory = self.store.grant().take("list ranking", count * size_of::<Arc>() as u64)?;
        let mut arcs = Vec::with_capacity(to_index(count));
        while let Some(arc) = stream.next_record()? {
            arcs.push(arc);
        }
        let mut look = || self.store.work(ELEMENTS_PER_LOOK * WALKED_BYTES);
        walk_arcs(&mut arcs, self.head, u64::MAX, &mut look)?;
        match { arcs.iter() }.find(|&&(_, successor, _)| successor != VISITED) {
            Some(&(element, _, _)) => Err(unreached(element, self.head)),
            None => Ok((arcs, memory)),
        }
    }

    fn store_walked(&self, arcs: &[Arc]) -> Result<Vector<Ranked>, ExternalError> {
        let mut writer = Vector::writer_of(self.store, arcs.len() as u64)?;
        arcs.iter().try_for_each(|&(element, _, rank)| writer.push((element, rank)))?;
        writer.finish()
    }

    /// A round backwards: `ranks` and those of who went, by element, to `emit`.
    fn expand(
        &self,
        gone: Vector<Gone>,
        ranks: &Vector<Ranked>,
        mut emit: impl FnMut(Ranked) -> Result<(), ExternalError>,
    ) -> Result<(), ExternalError> {
        let order = By(|&(_, previous, _): &Gone| previous);
        let mut by_previous = Sorter::with_bytes(self.store, order, self.division.sort_bytes)?;
        by_previous.push_all(gone.into_stream()?)?;
        let mut by_element = Sorter::with_bytes(self.store, Natural, self.division.sort_bytes)?;
        {
            let mut stream = by_previous.finish()?;
            let mut known = ranks.scanner()?.ahead();
            while let Some((element, previous, gap)) = stream.next_record()? {
                let before = known.skip_while(|&(element, _)| element < previous)?;
                let (_, rank) = before.expect("the element before one that went has a rank");
                by_element.push((element, rank + gap))?;
            }
        }
        let mut found = by_element.finish()?.ahead();
        let mut known = ranks.scanner()?;
        while let Some(ranked) = known.next_record()? {
            while let Some(other) = found.peek()?.filter(|other| other.0 < ranked.0) {
                emit(other)?;
                found.next_record()?;
            }
            emit(ranked)?;
        }
        while let Some(other) = found.next_record()? {
            emit(other)?;
        }
        Ok(())
    }
}

/// The arcs of the list as it was given.
struct First<'v> {
    scanner: crate::Scanner<'v, u64>,
    element: u64,
    count: u64,
}

impl<'v> First<'v> {
    fn new(successors: &'v Vector<u64>) -> Result<Self, ExternalError> {
        Ok(Self { scanner: successors.scanner()?, element: 0, count: successors.len() })
    }
}

impl RecordStream for First<'_> {
    type Record = Arc;

    fn next_record(&mut self) -> Result<Option<Arc>, ExternalError> {
        let Some(successor) = self.scanner.next_record()? else { return Ok(None) };
        let element = self.element;
        self.element += 1;
        if successor != END {
            check_element(successor, self.count, Some(element))?;
        }
        Ok(Some((element, successor, 1)))
    }
}

fn meeting(left: u64, right: u64, element: u64) -> ExternalError {
    let what = format!("elements {left} and {right} of the list are both followed by {element}");
    ExternalError::Invalid { what }
}
