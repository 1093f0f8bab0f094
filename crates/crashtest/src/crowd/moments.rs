//! Whether what transactions saw allows an order of moments: a checker of histories over lists to which
//! elements are appended (after Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from
//! Experimental Observations", VLDB 2020; dependencies after Adya, Liskov and `O'Neil`, ICDE 2000).
//!
//! ```text
//!   serializable      one moment:   everything it read and wrote
//!   snapshot          two moments:  reads ──► writes
//!
//!   wrote e, read a list that ends in e         writer ──► reader
//!   wrote e, wrote what comes behind e          writer ──► writer (its reads, if a snapshot)
//!   read a list that ends before e, wrote e     reader ──► writer
//!   ended before the other began                ended  ──► began
//! ```
//!
//! Each list tells its own order, since elements are appended and never go; a bag tells which elements
//! are there. If the moments can be put into one order with all arrows forward, no anomaly happened that
//! the levels forbid; a circle is one, and is told. So it is for transactions of both levels side by
//! side: the moments of a snapshot lie apart, which is all that it is allowed.
//!
//! 1. Nobody reads an element of a transaction that did not commit, or of one half way.
//! 2. A transaction reads the same in a list or bag each time, and its own elements behind it.
//! 3. The moments have an order.
//! 4. After a crash a transaction is there whole or not at all; it is there if that was promised, or if
//!    one that came later is.
//!
//! It knows the engine by its answers alone. [`tests`] plant anomalies that it has to find.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How far a transaction is apart from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Apart {
    /// It reads at one moment and writes at a later one.
    Snapshot,
    /// It does all at one moment.
    Serializable,
}

/// What a transaction did and saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// It put an element behind a list.
    Append { list: u32, element: u32 },
    /// It put an element into a bag.
    Add { bag: u32, element: u32 },
    /// It read a list.
    ReadList { list: u32, elements: Vec<u32> },
    /// It read a bag.
    ReadBag { bag: u32, elements: BTreeSet<u32> },
}

/// How a transaction ended, and when, by a count of beginnings and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// Its commit was acknowledged.
    Committed { at: u64 },
    /// It was taken back.
    Refused { at: u64 },
    /// Its commit was under way.
    Unknown,
}

/// A transaction as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deed {
    pub(crate) apart: Apart,
    /// Before it was begun, and when that was done.
    pub(crate) began: u64,
    pub(crate) begun: u64,
    pub(crate) steps: Vec<Step>,
    pub(crate) ending: Ending,
}

impl Deed {
    /// All elements that it wrote.
    pub(crate) fn elements(&self) -> impl Iterator<Item = u32> {
        self.steps.iter().filter_map(|step| match step {
            Step::Append { element, .. } | Step::Add { element, .. } => Some(*element),
            Step::ReadList { .. } | Step::ReadBag { .. } => None,
        })
    }
}

/// What lists and bags hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    pub(crate) lists: BTreeMap<u32, Vec<u32>>,
    pub(crate) bags: BTreeMap<u32, BTreeSet<u32>>,
}

/// What was found at the end.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) contents: Contents,
    /// Commits that were acknowledged before this were promised to be durable.
    pub(crate) durable_before: u64,
}

/// What a history was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Transactions that committed, and of them those that changed something and are not there any more,
    /// which nobody had promised.
    pub(crate) committed_count: u64,
    pub(crate) lost_count: u64,
}

/// Why one moment is before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Wrote(Thing),
    Overwrote(Thing),
    Overlooked(Thing),
    Same,
    Time,
}

/// What transactions have to do with each other by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    List(u32),
    Bag(u32),
}

impl fmt::Display for Thing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(number) => write!(formatter, "list {number}"),
            Self::Bag(number) => write!(formatter, "bag {number}"),
        }
    }
}

/// Who wrote an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Before,
    Deed(usize),
}

/// What a deed read of others, and wrote.
#[derive(Debug, Default)]
struct Work {
    reads: BTreeMap<Thing, Vec<u32>>,
    writes: BTreeMap<Thing, Vec<u32>>,
}

/// Says what a history was, or which promise it breaks.
///
/// # Errors
/// The first rule that does not hold, with who and what.
pub(crate) fn check(before: &Contents, deeds: &[Deed], found: &Found) -> Result<Told, String> {
    Checker::new(before, deeds, found)?.check()
}

struct Checker<'h> {
    deeds: &'h [Deed],
    found: &'h Found,
    works: Vec<Work>,
    writers: BTreeMap<u32, Writer>,
    /// Whether somebody saw something of a deed, or it is said to have committed.
    is_committed: Vec<bool>,
    /// Each list in its longest known form.
    orders: BTreeMap<u32, Vec<u32>>,
    /// What was there before.
    before: &'h Contents,
}

impl<'h> Checker<'h> {
    fn new(before: &'h Contents, deeds: &'h [Deed], found: &'h Found) -> Result<Self, String> {
        let mut writers = BTreeMap::new();
        for element in before.lists.values().flatten().chain(before.bags.values().flatten()) {
            writers.insert(*element, Writer::Before);
        }
        let mut works = Vec::new();
        for (number, deed) in deeds.iter().enumerate() {
            let work = work_of(&deed.steps).map_err(|what| format!("{}: {what}", name(number)))?;
            for element in work.writes.values().flatten() {
                writers.insert(*element, Writer::Deed(number));
            }
            works.push(work);
        }
        let is_committed: Vec<bool> =
            deeds.iter().map(|deed| matches!(deed.ending, Ending::Committed { .. })).collect();
        let orders = before.lists.clone();
        Ok(Self { deeds, found, works, writers, is_committed, orders, before })
    }

    fn check(mut self) -> Result<Told, String> {
        self.note_who_was_seen()?;
        self.note_orders()?;
        self.check_halves()?;
        let lost = self.lost()?;
        let graph = self.graph();
        if let Some(circle) = graph.circle() {
            return Err(format!("there is no order of these: {circle}"));
        }
        self.check_what_came_later(&graph, &lost)?;
        let committed_count = self.is_committed.iter().filter(|&&is| is).count() as u64;
        Ok(Told { committed_count, lost_count: lost.len() as u64 })
    }

    /// All that was read, by whom.
    fn all_reads(&self) -> impl Iterator<Item = (String, Thing, Vec<u32>)> {
        let of_deed = |(number, work): (usize, &Work)| {
            let told = |(thing, read): (&Thing, &Vec<u32>)| (name(number), *thing, read.clone());
            work.reads.iter().map(told).collect::<Vec<_>>()
        };
        let at_the_end = || "the last look".to_owned();
        let Contents { lists, bags } = &self.found.contents;
        let lists =
            lists.iter().map(move |(list, read)| (at_the_end(), Thing::List(*list), read.clone()));
        let bags = bags.iter().map(move |(bag, read)| {
            (at_the_end(), Thing::Bag(*bag), read.iter().copied().collect())
        });
        self.works.iter().enumerate().flat_map(of_deed).chain(lists).chain(bags)
    }

    /// Rule 1, but for halves: who is read did commit.
    fn note_who_was_seen(&mut self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for (reader, thing, read) in self.all_reads() {
            for element in read {
                match self.writers.get(&element) {
                    None => {
                        return Err(format!("{reader} read {element} of {thing}: nobody wrote it"));
                    }
                    Some(Writer::Before) => {}
                    Some(Writer::Deed(writer)) => {
                        if matches!(self.deeds[*writer].ending, Ending::Refused { .. }) {
                            return Err(format!(
                                "{reader} read {element} of {thing}, which {} wrote and took back",
                                name(*writer)
                            ));
                        }
                        seen.insert(*writer);
                    }
                }
            }
        }
        seen.into_iter().for_each(|writer| self.is_committed[writer] = true);
        Ok(())
    }

    /// All that was read of a list is one list, cut somewhere.
    fn note_orders(&mut self) -> Result<(), String> {
        let mut orders = std::mem::take(&mut self.orders);
        // What a writer read of a list, and then wrote, is one more reading of it.
        let own = |work: &Work| {
            let with_own = |(thing, read): (&Thing, &Vec<u32>)| {
                let Thing::List(_) = thing else { return None };
                let written = work.writes.get(thing)?;
                Some((*thing, read.iter().chain(written).copied().collect::<Vec<_>>()))
            };
            work.reads.iter().filter_map(with_own).collect::<Vec<_>>()
        };
        let of_writers = (self.works.iter().enumerate())
            .filter(|(number, _)| self.is_committed[*number])
            .flat_map(|(number, work)| {
                own(work).into_iter().map(move |(t, r)| (name(number), t, r))
            });
        for (reader, thing, read) in self.all_reads().chain(of_writers) {
            let Thing::List(list) = thing else { continue };
            let order = orders.entry(list).or_default();
            let common = order.len().min(read.len());
            if order[..common] != read[..common] {
                return Err(format!("{reader} read {thing} as {read:?}, others as {order:?}"));
            }
            if read.len() > order.len() {
                *order = read;
            }
        }
        self.orders = orders;
        Ok(())
    }

    /// Rule 1: nobody reads half of what a transaction did to a list or bag, or of what was there before.
    fn check_halves(&self) -> Result<(), String> {
        for (reader, thing, read) in self.all_reads() {
            let read: BTreeSet<u32> = read.into_iter().collect();
            let is_read = |element: &u32| read.contains(element);
            let has_all_before = match thing {
                Thing::List(list) => {
                    self.before.lists.get(&list).is_none_or(|b| b.iter().all(is_read))
                }
                Thing::Bag(bag) => self.before.bags.get(&bag).is_none_or(|b| b.iter().all(is_read)),
            };
            if !has_all_before {
                return Err(format!("{reader} read {thing} without all that was there before"));
            }
            for writer in self.writers_of(&read) {
                let Some(written) = self.works[writer].writes.get(&thing) else { continue };
                if !written.iter().all(|element| read.contains(element)) {
                    return Err(format!(
                        "{reader} read half of what {} wrote to {thing}",
                        name(writer)
                    ));
                }
            }
        }
        Ok(())
    }

    fn writers_of(&self, elements: &BTreeSet<u32>) -> BTreeSet<usize> {
        let writer = |element: &u32| match self.writers.get(element) {
            Some(Writer::Deed(number)) => Some(*number),
            _ => None,
        };
        elements.iter().filter_map(writer).collect()
    }

    /// Rule 4, but for what came later: the committed transactions that are not there any more.
    fn lost(&self) -> Result<BTreeSet<usize>, String> {
        let Contents { lists, bags } = &self.found.contents;
        let there: BTreeSet<u32> =
            lists.values().flatten().chain(bags.values().flatten()).copied().collect();
        let before = self.writers.iter().filter(|(_, writer)| **writer == Writer::Before);
        for (element, _) in before {
            if !there.contains(element) {
                return Err(format!("{element} was there before and is gone"));
            }
        }
        let mut lost = BTreeSet::new();
        for (number, deed) in self.deeds.iter().enumerate() {
            let mut written = self.works[number].writes.values().flatten();
            let Some(first) = written.next() else { continue };
            let is_there = there.contains(first);
            if written.any(|element| there.contains(element) != is_there) {
                return Err(format!("half of what {} wrote is there", name(number)));
            }
            if is_there || !self.is_committed[number] {
                continue;
            }
            if let Ending::Committed { at } = deed.ending
                && at < self.found.durable_before
            {
                return Err(format!("{} was promised to be durable and is gone", name(number)));
            }
            lost.insert(number);
        }
        Ok(lost)
    }

    /// Rule 4: nothing is there that came behind what is lost.
    fn check_what_came_later(&self, graph: &Graph, lost: &BTreeSet<usize>) -> Result<(), String> {
        let mut is_behind = vec![false; graph.arrows.len()];
        let mut next: Vec<usize> = lost.iter().map(|&number| write_moment(number)).collect();
        while let Some(moment) = next.pop() {
            for &(to, _) in &graph.arrows[moment] {
                if !std::mem::replace(&mut is_behind[to], true) {
                    next.push(to);
                }
            }
        }
        for (number, work) in self.works.iter().enumerate() {
            let is_there = self.is_committed[number] && !lost.contains(&number);
            if is_there && !work.writes.is_empty() && is_behind[write_moment(number)] {
                return Err(format!("{} is there, and what came before it is not", name(number)));
            }
        }
        Ok(())
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new(self.deeds.len(), self.times());
        for (number, deed) in self.deeds.iter().enumerate() {
            let (reads, writes) = (self.read_moment(number), write_moment(number));
            if reads != writes {
                graph.add(reads, writes, Why::Same);
            }
            graph.add(graph.at(deed.began), reads, Why::Time);
            if deed.apart == Apart::Snapshot {
                graph.add(reads, graph.at(deed.begun), Why::Time);
            }
            if let Ending::Committed { at } | Ending::Refused { at } = deed.ending {
                graph.add(writes, graph.at(at), Why::Time);
            }
        }
        self.add_lists(&mut graph);
        self.add_bags(&mut graph);
        graph
    }

    fn times(&self) -> Vec<u64> {
        let mut times: Vec<u64> = Vec::new();
        for deed in self.deeds {
            times.extend([deed.began, deed.begun]);
            if let Ending::Committed { at } | Ending::Refused { at } = deed.ending {
                times.push(at);
            }
        }
        times.sort_unstable();
        times.dedup();
        times
    }

    /// When a deed reads.
    fn read_moment(&self, number: usize) -> usize {
        match self.deeds[number].apart {
            Apart::Snapshot => 2 * number,
            Apart::Serializable => write_moment(number),
        }
    }

    fn add_lists(&self, graph: &mut Graph) {
        for (&list, order) in &self.orders {
            let thing = Thing::List(list);
            for pair in order.windows(2) {
                let (Some(first), Some(second)) = (self.deed_of(pair[0]), self.deed_of(pair[1]))
                else {
                    continue;
                };
                if first != second {
                    // Who overwrites has seen what was there.
                    let (from, to) = (write_moment(first), self.read_moment(second));
                    graph.add(from, to, Why::Overwrote(thing));
                }
            }
        }
        for (number, work) in self.works.iter().enumerate() {
            for (&thing, read) in &work.reads {
                let Thing::List(list) = thing else { continue };
                let moment = self.read_moment(number);
                if let Some(writer) = read.last().and_then(|&last| self.deed_of(last)) {
                    graph.add(write_moment(writer), moment, Why::Wrote(thing));
                }
                let next = self.orders.get(&list).and_then(|order| order.get(read.len()));
                if let Some(writer) = next.and_then(|&next| self.deed_of(next))
                    && writer != number
                {
                    graph.add(moment, write_moment(writer), Why::Overlooked(thing));
                }
            }
        }
    }

    fn add_bags(&self, graph: &mut Graph) {
        let mut adders: BTreeMap<Thing, Vec<usize>> = BTreeMap::new();
        for (number, work) in self.works.iter().enumerate() {
            let bags = work.writes.keys().filter(|thing| matches!(thing, Thing::Bag(_)));
            // One that is lost and that nobody saw may have been anywhere.
            bags.filter(|_| self.is_committed[number])
                .for_each(|bag| adders.entry(*bag).or_default().push(number));
        }
        for (number, work) in self.works.iter().enumerate() {
            for (&thing, read) in &work.reads {
                let Thing::Bag(_) = thing else { continue };
                let moment = self.read_moment(number);
                let seen = self.writers_of(&read.iter().copied().collect());
                for &writer in &seen {
                    graph.add(write_moment(writer), moment, Why::Wrote(thing));
                }
                for &writer in adders.get(&thing).into_iter().flatten() {
                    if writer != number && !seen.contains(&writer) {
                        graph.add(moment, write_moment(writer), Why::Overlooked(thing));
                    }
                }
            }
        }
    }

    fn deed_of(&self, element: u32) -> Option<usize> {
        match self.writers.get(&element) {
            Some(Writer::Deed(number)) => Some(*number),
            _ => None,
        }
    }
}

fn name(number: usize) -> String {
    format!("T{number}")
}

/// When a deed writes.
const fn write_moment(number: usize) -> usize {
    2 * number + 1
}

/// What a transaction read of others and what it wrote; rule 2.
fn work_of(steps: &[Step]) -> Result<Work, String> {
    let mut work = Work::default();
    for step in steps {
        let (thing, read) = match step {
            Step::Append { list, element } => {
                work.writes.entry(Thing::List(*list)).or_default().push(*element);
                continue;
            }
            Step::Add { bag, element } => {
                work.writes.entry(Thing::Bag(*bag)).or_default().push(*element);
                continue;
            }
            Step::ReadList { list, elements } => (Thing::List(*list), elements.clone()),
            Step::ReadBag { bag, elements } => {
                (Thing::Bag(*bag), elements.iter().copied().collect())
            }
        };
        let own = work.writes.get(&thing).map_or(&[][..], Vec::as_slice);
        let of_others = without(thing, &read, own)
            .ok_or_else(|| format!("it read {thing} as {read:?}, where it had written {own:?}"))?;
        if let Some(earlier) = work.reads.get(&thing)
            && *earlier != of_others
        {
            return Err(format!("it read {thing} as {earlier:?} and then as {of_others:?}"));
        }
        work.reads.insert(thing, of_others);
    }
    Ok(work)
}

/// What was read without the reader's own elements, which a list has at its end; `None` if they are not
/// there.
fn without(thing: Thing, read: &[u32], own: &[u32]) -> Option<Vec<u32>> {
    match thing {
        Thing::List(_) => read.strip_suffix(own).map(<[u32]>::to_vec),
        Thing::Bag(_) => {
            let is_own = |element: &u32| own.contains(element);
            let others: Vec<u32> =
                read.iter().copied().filter(|element| !is_own(element)).collect();
            (others.len() + own.len() == read.len()).then_some(others)
        }
    }
}

/// Moments, and which comes before which.
struct Graph {
    arrows: Vec<Vec<(usize, Why)>>,
    /// The times at which something began or ended, each a moment behind those of the deeds.
    times: Vec<u64>,
    deed_count: usize,
}

impl Graph {
    fn new(deed_count: usize, times: Vec<u64>) -> Self {
        let arrows = vec![Vec::new(); 2 * deed_count + times.len()];
        let mut graph = Self { arrows, times, deed_count };
        for later in 1..graph.times.len() {
            let moment = 2 * deed_count + later;
            graph.add(moment - 1, moment, Why::Time);
        }
        graph
    }

    fn add(&mut self, from: usize, to: usize, why: Why) {
        self.arrows[from].push((to, why));
    }

    fn at(&self, time: u64) -> usize {
        2 * self.deed_count + self.times.binary_search(&time).expect("all times are known")
    }

    /// Moments that come each before the next and the last before the first, if there are any; few.
    fn circle(&self) -> Option<String> {
        let left = self.without_ends();
        let start = left.iter().position(|&is_left| is_left)?;
        // Whoever is left has an arrow from one that is left; so going back leads into a circle.
        let mut before = vec![usize::MAX; self.arrows.len()];
        for (from, arrows) in self.arrows.iter().enumerate().filter(|&(from, _)| left[from]) {
            for &(to, _) in arrows.iter().filter(|&&(to, _)| left[to]) {
                before[to] = from;
            }
        }
        let mut moment = start;
        for _ in 0..self.arrows.len() {
            moment = before[moment];
        }
        Some(self.told(&self.shortest_circle(moment)))
    }

    /// Which moments have arrows in a circle to them, or behind one.
    fn without_ends(&self) -> Vec<bool> {
        let mut arriving = vec![0_usize; self.arrows.len()];
        for &(to, _) in self.arrows.iter().flatten() {
            arriving[to] += 1;
        }
        let mut free: Vec<usize> =
            (0..self.arrows.len()).filter(|&moment| arriving[moment] == 0).collect();
        let mut left = vec![true; self.arrows.len()];
        while let Some(moment) = free.pop() {
            left[moment] = false;
            for &(to, _) in &self.arrows[moment] {
                arriving[to] -= 1;
                if arriving[to] == 0 {
                    free.push(to);
                }
            }
        }
        left
    }

    /// The way back to `start` with the fewest arrows.
    fn shortest_circle(&self, start: usize) -> Vec<(usize, Why)> {
        let mut came: Vec<Option<(usize, Why)>> = vec![None; self.arrows.len()];
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(from) = queue.pop_front() {
            for &(to, why) in &self.arrows[from] {
                if came[to].is_none() {
                    came[to] = Some((from, why));
                    queue.push_back(to);
                }
            }
            if came[start].is_some() {
                break;
            }
        }
        let mut way = Vec::new();
        let mut at = start;
        while let Some((from, why)) = came[at] {
            way.push((from, why));
            at = from;
            if at == start {
                break;
            }
        }
        way.reverse();
        way
    }

    fn told(&self, way: &[(usize, Why)]) -> String {
        let mut told = String::new();
        for &(moment, why) in way {
            if moment >= 2 * self.deed_count {
                if !told.ends_with("(time) ") {
                    told.push_str("(time) ");
                }
                continue;
            }
            let kind = if moment % 2 == 0 { " reads" } else { "" };
            let why = match why {
                Why::Wrote(thing) => format!("wrote {thing}, read by"),
                Why::Overwrote(thing) => format!("wrote {thing}, overwritten by"),
                Why::Overlooked(thing) => format!("did not see {thing} by"),
                Why::Same => "before its writes,".to_owned(),
                Why::Time => "before".to_owned(),
            };
            told.push_str(&format!("{}{kind} {why} ", name(moment / 2)));
        }
        match way.first() {
            Some(&(moment, _)) if moment < 2 * self.deed_count => told + &name(moment / 2),
            _ => told,
        }
    }
}
