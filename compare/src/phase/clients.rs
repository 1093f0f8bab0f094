//! Phases in which threads change single records, each call a transaction of its own: half lookups, half
//! updates, as in workload A of YCSB (Cooper et al. 2010), and durable commits of single new records.
//!
//! ```text
//!   thread 0   warm ──┐ get 17 │ put 3 │ put 17 │ get 4 ...  ──┐
//!   thread 1   warm ──┤ put 17 │ get 3 │ get 99 │ put 8 ...  ──┤► read all that was put again
//!                  barrier          timed                      └
//! ```
//!
//! 1. A new value tells its key and its number, so that each lookup is checked whoever wrote it.
//! 2. After the time each record that was changed is the last one that some thread put there: a change
//!    that was lost or came twice ends the run.
//! 3. The time is that from the barrier to the end of the thread that ends last.

use super::{Answer, Job, close, joined, micros, percentile};
use crate::Failure;
use crate::engine::{Client, Purpose};
use crate::measure::{Traffic, as_float, fsync_probe, mean};
use crate::workload::{Record, check_current, updated_value, value_of};
use nandu_base::to_index;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What a thread does next with the record of a key: gives it the value of that number, or looks it up. A
/// value is made when it is put, since all of them together would take memory from the engine.
#[derive(Clone, Copy)]
struct Operation {
    key: u64,
    put: Option<u64>,
}

impl Operation {
    fn record(self) -> Option<Record> {
        let value = |version| match version {
            BUILD_VERSION => value_of(self.key),
            version => updated_value(self.key, version),
        };
        self.put.map(|version| Record { key: self.key, value: value(version) })
    }
}

/// The value that the build would have given a record.
const BUILD_VERSION: u64 = 0;

/// What a thread tells at its end.
#[derive(Default)]
struct Told {
    time: Duration,
    get_us: Vec<f64>,
    put_us: Vec<f64>,
}

/// Half lookups, half updates of records of a skewed choice, nothing durable when it is done.
pub(super) fn mixed(job: &Job, thread_count: u32) -> Result<Answer, Failure> {
    let each = to_index(job.operation_count / u64::from(thread_count));
    let all: Vec<Vec<Operation>> = (0..thread_count)
        .map(|thread| {
            let choices = job.workload.skewed(each as u64, job.round, thread);
            let version = |index: usize| (u64::from(thread) << 32) + index as u64 + 1;
            let choose = |(index, (key, changes)): (usize, (u64, bool))| Operation {
                key,
                put: changes.then(|| version(index)),
            };
            choices.into_iter().enumerate().map(choose).collect()
        })
        .collect();
    let (mut told, mut answer) = run(job, Purpose::Serve, &all)?;
    let [mut gets, mut puts] = [Vec::new(), Vec::new()];
    for told in &mut told {
        gets.append(&mut told.get_us);
        puts.append(&mut told.put_us);
    }
    for (name, times) in [("get", &mut gets), ("put", &mut puts)] {
        answer.set(&format!("{name}_mean_us"), mean(times));
        answer.set(&format!("{name}_p50_us"), percentile(times, 50));
        answer.set(&format!("{name}_p99_us"), percentile(times, 99));
    }
    Ok(answer)
}

/// Durable commits of a single new record each.
pub(super) fn commit(job: &Job, thread_count: u32) -> Result<Answer, Failure> {
    let place = job.directory.parent().unwrap_or(&job.directory);
    let mut probe = fsync_probe(place)?;
    let each = job.operation_count / u64::from(thread_count);
    let mut keys = job.workload.keys_after_build();
    let mut operation = || Operation { key: keys.draw(), put: Some(BUILD_VERSION) };
    let all: Vec<Vec<Operation>> =
        (0..thread_count).map(|_| (0..each).map(|_| operation()).collect()).collect();
    let (told, mut answer) = run(job, Purpose::ServeDurably, &all)?;
    let mut times: Vec<f64> = told.into_iter().flat_map(|told| told.put_us).collect();
    answer.set("commit_p50_us", percentile(&mut times, 50));
    answer.set("commit_p99_us", percentile(&mut times, 99));
    probe.extend(fsync_probe(place)?);
    answer.set("fsync_mean_us", mean(&probe));
    Ok(answer)
}

/// One thread for each list does the first half of it untimed, then all do the rest together.
fn run(
    job: &Job,
    purpose: Purpose,
    all: &[Vec<Operation>],
) -> Result<(Vec<Told>, Answer), Failure> {
    let before = Traffic::so_far()?;
    let thread_count = u32::try_from(all.len()).expect("few threads");
    let mut store = job.open(purpose, thread_count)?;
    store.settle()?;
    let barrier = Barrier::new(all.len());
    let one = |operations| one_thread(store.client(), operations, &barrier);
    let one = &one;
    let told = std::thread::scope(|scope| {
        joined(all.iter().map(|operations| scope.spawn(move || one(operations))).collect())
    })?;
    let flushing = Instant::now();
    close(store, job)?;
    let flush = flushing.elapsed();
    let mut answer = Answer::default();
    let time = told.iter().map(|told| told.time).max().unwrap_or_default();
    let timed_count: usize = told.iter().map(|told| told.get_us.len() + told.put_us.len()).sum();
    answer.set("us", micros(time) / as_float(timed_count as u64));
    answer.set("flushed_us", micros(time + flush) / as_float(timed_count as u64));
    let put_count = all.iter().flatten().filter(|it| it.put.is_some()).count();
    answer.set_traffic(before, put_count as u64)?;
    check_all(job, all)?;
    Ok((told, answer))
}

fn one_thread(
    client: Result<Box<dyn Client + '_>, Failure>,
    operations: &[Operation],
    barrier: &Barrier,
) -> Result<Told, Failure> {
    let (first, second) = operations.split_at(operations.len() / 2);
    let mut told = Told {
        get_us: Vec::with_capacity(second.len()),
        put_us: Vec::with_capacity(second.len()),
        ..Told::default()
    };
    let warm = client.and_then(|mut client| {
        first.iter().try_for_each(|operation| perform(client.as_mut(), *operation))?;
        Ok(client)
    });
    // A thread that failed still meets the others, who would wait for ever.
    barrier.wait();
    let mut client = warm?;
    let started = Instant::now();
    let mut last = started;
    for operation in second {
        perform(client.as_mut(), *operation)?;
        let now = Instant::now();
        let us = micros(now - last);
        last = now;
        let times = if operation.put.is_some() { &mut told.put_us } else { &mut told.get_us };
        times.push(us);
    }
    told.time = started.elapsed();
    Ok(told)
}

fn perform(client: &mut dyn Client, operation: Operation) -> Result<(), Failure> {
    if let Some(record) = operation.record() {
        return client.put(&record);
    }
    let key = operation.key;
    if client.get(key, &mut |key, value| check_current(key, value))? {
        return Ok(());
    }
    Err(Failure::Wrong(format!("key {key:#018x} is not found")))
}

/// Reads all that was put again, after everything was measured.
fn check_all(job: &Job, all: &[Vec<Operation>]) -> Result<(), Failure> {
    // Of each key the last value that each thread put.
    let mut last: BTreeMap<u64, Vec<Operation>> = BTreeMap::new();
    for operations in all {
        let mut own = BTreeMap::new();
        for operation in operations.iter().filter(|it| it.put.is_some()) {
            own.insert(operation.key, *operation);
        }
        for (key, operation) in own {
            last.entry(key).or_default().push(operation);
        }
    }
    let store = job.open_to_check()?;
    let mut reader = store.reader()?;
    for (key, operations) in last {
        let mut is_last = false;
        reader.get(key, &mut |_, value| {
            let mut records = operations.iter().filter_map(|it| it.record());
            is_last = records.any(|record| record.value == value);
            Ok(())
        })?;
        if !is_last {
            let text = format!("key {key:#018x} has none of the values that were put there last");
            return Err(Failure::Wrong(text));
        }
    }
    drop(reader);
    store.close()
}
