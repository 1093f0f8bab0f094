//! The mix of TPoX that S004 ran (section 6.1): five queries and three changes of three documents, each
//! a transaction.
//!
//! ```text
//!   rq1  account summary   a customer's accounts, balances, positions     reads: rq1, rq2, rq3, rq5 one
//!   rq2  customer          name, addresses and the like                   time in six, rq4 two in six
//!   rq3  price             of a security                                  writes: a third each, in so
//!   rq4  order             all of it                                      many percent of transactions
//!   rq5  security          all of it
//!   wq1  a new account     is put behind a customer's others
//!   wq2  a new order       reads a price, goes behind all orders
//!   wq3  a new price       in the place of the old one, one text
//!
//!   id ─► index ─► label ─► the containers of that subtree ─► an expression of XPath ─► text
//! ```
//!
//! 1. What clients ask for follows from seed, client and mix, whatever the mapping and the drive.
//! 2. Targets are drawn among what was loaded, each alike; what is new is not asked for.
//! 3. A writer locks the customer or security that it changes before it reads it, so of two who change
//!    the same none is done again for that. A reader has a snapshot.

mod client;

use crate::clients::{Client, Load};
use crate::error::BenchError;
use client::{Queries, TpoxClient};
use nandu_base::fnv1a;
use nandu_load::{Tpox, TpoxIndexes, TpoxObserver};
use nandu_storage::Database;
use nandu_storage::database::Isolation;
use nandu_xml::{ImportReport, LockSettings, MappingKind, XmlError};
use serde::{Serialize, Serializer};
use std::sync::{Arc, Mutex, PoisonError};

pub use client::KINDS;

/// What finds a part of a document by its id.
pub const LOOKUP: &str = "index of values";

/// A run of the mix.
#[derive(Clone, Copy, Debug)]
pub struct TpoxRun {
    /// Which documents, how many of them.
    pub tpox: Tpox,
    /// How they are stored.
    pub mapping: MappingKind,
    /// How many of a hundred transactions change something; the rest reads.
    pub write_percent: u8,
    /// How far transactions that change something are apart.
    pub isolation: Isolation,
    /// How finely these lock what they read and change of a document.
    pub locks: LockSettings,
    /// The seed of what is drawn beside the documents.
    pub seed: u64,
    /// The number of the first new account and order of each client: above all that earlier runs
    /// over these documents made.
    pub new_from: u64,
}

/// The mix at work, for all clients.
#[derive(Debug)]
pub struct TpoxLoad {
    run: TpoxRun,
    queries: Arc<Queries>,
    counts: Mutex<TpoxCounts>,
}

/// What clients met and moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TpoxCounts {
    /// Transactions that were done again.
    #[serde(flatten)]
    pub retries: crate::Retries,
    /// Transactions that changed something.
    pub write_transaction_count: u64,
    /// Bytes of XML that queries gave.
    pub answer_bytes: u64,
    /// Bytes of XML that changes put in, each attempt.
    pub change_bytes: u64,
    /// A hash of all answers: with readers alone, or one client, the same in every mapping and on
    /// every drive.
    #[serde(serialize_with = "as_digits")]
    pub answers: u64,
}

fn as_digits<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{hash:016x}"))
}

impl TpoxCounts {
    fn add(&mut self, other: &Self) {
        self.retries.add(&other.retries);
        self.write_transaction_count += other.write_transaction_count;
        self.answer_bytes += other.answer_bytes;
        self.change_bytes += other.change_bytes;
        // Clients end in any order.
        self.answers = self.answers.wrapping_add(other.answers);
    }

    fn answered(&mut self, answer: &[u8]) {
        self.answer_bytes += answer.len() as u64;
        self.answers = self.answers.rotate_left(7) ^ fnv1a(answer);
    }
}

impl TpoxRun {
    /// Stores the documents with indexes that find their parts by ids, past the log. `None` if the
    /// observer wanted to stop; then there is nothing of them.
    ///
    /// # Errors
    /// If the database has such documents, or no room, or the device fails.
    pub fn load(
        &self,
        database: &Database,
        observer: &mut dyn TpoxObserver,
    ) -> Result<Option<[ImportReport; 3]>, BenchError> {
        let mut write = database.write()?;
        let reports = match self.tpox.store(&mut write, (self.mapping, TpoxIndexes::Keys), observer)
        {
            Err(XmlError::Cancelled) => {
                write.rollback()?;
                return Ok(None);
            }
            stored => stored?,
        };
        write.commit()?;
        database.checkpoint()?;
        Ok(Some(reports))
    }

    /// The mix for clients over documents that [`Self::load`] stored.
    #[must_use]
    pub fn start(&self) -> Arc<TpoxLoad> {
        let queries = Arc::new(Queries::new(self.locks));
        Arc::new(TpoxLoad { run: *self, queries, counts: Mutex::default() })
    }
}

impl TpoxLoad {
    /// What the clients that have ended met and moved.
    #[must_use]
    pub fn counts(&self) -> TpoxCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, counts: &TpoxCounts) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).add(counts);
    }
}

impl Load for Arc<TpoxLoad> {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn client(&self, number: u32) -> Box<dyn Client> {
        Box::new(TpoxClient::new(Self::clone(self), number))
    }
}
