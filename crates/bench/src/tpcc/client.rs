//! Terminals at work, and the queue of deliveries behind them.
//!
//! 1. A delivery is answered once it is in the queue (clause 2.7.2.1); a server does it when its turn comes.
//! 2. The queue has a bound: a client that finds it full does the delivery itself.

use super::input::TransactionKind;
use super::{DEFERRED, DeliveryInput, Input, KINDS, Terminal, TpccCounts, execute};
use crate::clients::{Client, Load, Server};
use crate::error::BenchError;
use nandu_base::Nanos;
use nandu_load::Tpcc;
use nandu_load::tpcc::LOAD_MOMENT_US;
use nandu_storage::Database;
use nandu_storage::database::Isolation;
use nandu_workers::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// Deliveries that may wait.
const QUEUE_LENGTH_MAX: usize = 1000;

/// A run of the mix.
#[derive(Clone, Copy, Debug)]
pub struct TpccRun {
    /// Which rows there are.
    pub tpcc: Tpcc,
    /// How far transactions that change something are apart.
    pub isolation: Isolation,
    /// Whether users type and think as long as the specification says.
    pub has_pauses: bool,
    /// How many servers do deliveries; with none clients do theirs themselves.
    pub server_count: u32,
    /// The seed of what is drawn beside the rows.
    pub seed: u64,
}

/// The mix at work, for all clients and servers.
#[derive(Debug)]
pub struct TpccLoad {
    run: TpccRun,
    queue: Mutex<Queue>,
    /// Something was put into the queue, or it was closed.
    changed: Condvar,
    counts: std::sync::Mutex<TpccCounts>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Deliveries, and since when each is due.
    waiting: VecDeque<(DeliveryInput, Nanos)>,
    is_closed: bool,
}

struct TpccClient {
    load: Arc<TpccLoad>,
    terminal: Terminal,
    /// What it did last.
    done: TransactionKind,
    counts: TpccCounts,
}

struct TpccServer {
    load: Arc<TpccLoad>,
    counts: TpccCounts,
}

impl TpccRun {
    /// The mix for clients over tables that [`Tpcc::store`] made.
    #[must_use]
    pub fn start(&self) -> Arc<TpccLoad> {
        Arc::new(TpccLoad {
            run: *self,
            queue: Mutex::default(),
            changed: Condvar::new(),
            counts: std::sync::Mutex::default(),
        })
    }
}

impl TpccLoad {
    /// What the clients and servers that have ended did and met.
    #[must_use]
    pub fn counts(&self) -> TpccCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, counts: &TpccCounts) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).add(counts);
    }

    /// Puts a delivery into the queue, if there is somebody to do it, and room.
    fn defer(&self, input: DeliveryInput, due: Nanos) -> bool {
        if self.run.server_count == 0 {
            return false;
        }
        let mut queue = self.queue.lock();
        if queue.waiting.len() >= QUEUE_LENGTH_MAX {
            return false;
        }
        queue.waiting.push_back((input, due));
        drop(queue);
        self.changed.notify_all();
        true
    }

    /// Waits for the next delivery; `None` if none will come.
    fn next_delivery(&self) -> Option<(DeliveryInput, Nanos)> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(next) = queue.waiting.pop_front() {
                return Some(next);
            }
            if queue.is_closed {
                return None;
            }
            queue = self.changed.wait(queue);
        }
    }
}

impl Load for Arc<TpccLoad> {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn client(&self, number: u32) -> Box<dyn Client> {
        let terminal = Terminal::new(&self.run.tpcc, number, self.run.seed);
        let (done, counts) = (TransactionKind::NewOrder, TpccCounts::default());
        Box::new(TpccClient { load: Self::clone(self), terminal, done, counts })
    }

    fn server_count(&self) -> u32 {
        self.run.server_count
    }

    fn server(&self, _number: u32) -> Box<dyn Server> {
        Box::new(TpccServer { load: Self::clone(self), counts: TpccCounts::default() })
    }

    fn close(&self) {
        self.queue.lock().is_closed = true;
        self.changed.notify_all();
    }
}

impl Client for TpccClient {
    fn operate(&mut self, database: &Database, due: Nanos) -> Result<usize, BenchError> {
        let moment_us = LOAD_MOMENT_US + (due.0 / 1000).cast_signed();
        let input = self.terminal.next_input(moment_us);
        self.done = input.kind();
        if let Input::Delivery(delivery) = &input {
            if self.load.defer(*delivery, due) {
                return Ok(self.done as usize);
            }
            self.counts.undeferred_count += 1;
        }
        execute(database, self.load.run.isolation, &input, &mut self.counts)?;
        Ok(self.done as usize)
    }

    fn pause(&mut self) -> Nanos {
        match self.load.run.has_pauses {
            true => self.terminal.pause(self.done),
            false => Nanos::ZERO,
        }
    }
}

impl Drop for TpccClient {
    fn drop(&mut self) {
        self.load.add(&self.counts);
    }
}

impl Server for TpccServer {
    fn serve(&mut self, database: &Database) -> Result<Option<(usize, Nanos)>, BenchError> {
        let Some((input, due)) = self.load.next_delivery() else { return Ok(None) };
        let input = Input::Delivery(input);
        execute(database, self.load.run.isolation, &input, &mut self.counts)?;
        Ok(Some((DEFERRED, due)))
    }
}

impl Drop for TpccServer {
    fn drop(&mut self) {
        self.load.add(&self.counts);
    }
}
