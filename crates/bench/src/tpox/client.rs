//! One client of the mix.

use super::{TpoxCounts, TpoxLoad, TpoxRun};
use crate::clients::Client;
use crate::error::BenchError;
use nandu_base::{Nanos, Rng};
use nandu_load::TpoxCollection::{Custacc, Order, Security};
use nandu_load::{Tpox, TpoxCollection};
use nandu_storage::Database;
use nandu_storage::database::{Tables, WriteTransaction};
use nandu_xml::xpath::{Expression, Namespaces, Node, Value, evaluate, parse, write_node};
use nandu_xml::{
    Editor, IndexDefinition, Label, LockSettings, Sought, Spot, Subtree, SubtreeReader, XmlError,
    find,
};
use std::sync::Arc;

/// The kinds of transaction, by number.
pub const KINDS: [&str; 8] = [
    "rq1_account_summary",
    "rq2_customer",
    "rq3_price",
    "rq4_order",
    "rq5_security",
    "wq1_new_account",
    "wq2_new_order",
    "wq3_new_price",
];
const ACCOUNT_SUMMARY: usize = 0;
const CUSTOMER: usize = 1;
const PRICE: usize = 2;
const ORDER: usize = 3;
const SECURITY: usize = 4;
const NEW_ACCOUNT: usize = 5;
const NEW_ORDER: usize = 6;
const NEW_PRICE: usize = 7;

/// The kind of a read, by a draw from 0 to 5: each document is read as often as the others.
const READS: [usize; 6] = [ACCOUNT_SUMMARY, CUSTOMER, PRICE, ORDER, ORDER, SECURITY];
const WRITES: [usize; 3] = [NEW_ACCOUNT, NEW_ORDER, NEW_PRICE];

/// The level of the subtrees below the outermost element.
const SUBTREE_LEVEL: usize = 2;

/// What is asked of a subtree, and what finds one.
#[derive(Debug)]
pub(super) struct Queries {
    keys: [IndexDefinition; 3],
    account_summary: Expression,
    customer: Expression,
    price: Expression,
    all: Expression,
    accounts: Expression,
    last_trade: Expression,
    namespaces: Namespaces,
    /// How finely documents are locked.
    locks: LockSettings,
}

impl Queries {
    pub(super) fn new(locks: LockSettings) -> Self {
        let parsed = |text: &str| parse(text).expect("a constant expression is sound");
        let namespaces = [
            ("c", "http://tpox-benchmark.com/custacc"),
            ("s", "http://tpox-benchmark.com/security"),
        ];
        let owned = |(prefix, uri): (&str, &str)| (prefix.to_owned(), uri.to_owned());
        Self {
            keys: TpoxCollection::ALL.map(TpoxCollection::key_index),
            account_summary: parsed(
                "@id | c:Name | c:Accounts/c:Account/@id | c:Accounts/c:Account/c:Balance | \
                 c:Accounts/c:Account/c:Holdings/c:Position/c:Name",
            ),
            customer: parsed(
                "c:Name | c:DateOfBirth | c:Gender | c:CountryOfResidence | c:Languages | c:Addresses | \
                 c:EmailAddresses",
            ),
            price: parsed("s:Name | s:Price/s:PriceToday/s:Open | s:Price/s:LastTrade"),
            all: parsed("."),
            accounts: parsed("c:Accounts"),
            last_trade: parsed("s:Price/s:LastTrade/text()"),
            namespaces: namespaces.map(owned).into_iter().collect(),
            locks,
        }
    }

    /// The nodes of a subtree that an expression gives.
    fn nodes(
        &self,
        expression: &Expression,
        subtree: Subtree<'_>,
    ) -> Result<Vec<Node>, BenchError> {
        let answer = evaluate(expression, subtree.fragment(), 1, &self.namespaces, &|| false);
        match answer {
            Ok(Value::Nodes(nodes)) => Ok(nodes),
            _ => Err(strange("an expression gives no nodes")),
        }
    }

    /// The label of the one node that an expression gives.
    fn label(&self, expression: &Expression, subtree: Subtree<'_>) -> Result<Label, BenchError> {
        match self.nodes(expression, subtree)?[..] {
            [node] => Ok(subtree.label(node)),
            _ => Err(strange("a part of a document that has to be there once is not")),
        }
    }
}

fn strange(what: &str) -> BenchError {
    XmlError::Invalid { what: format!("{what}; was it this program that stored the documents?") }
        .into()
}

/// Reads parts of the documents, one reader for each; opened when it is needed first.
#[derive(Default)]
struct Readers([Option<SubtreeReader>; 3]);

impl Readers {
    /// The reader of a document, as `tables` have it.
    fn of(
        &mut self,
        tables: &Tables,
        queries: &Queries,
        collection: TpoxCollection,
    ) -> Result<&mut SubtreeReader, BenchError> {
        let place = &mut self.0[collection as usize];
        Ok(match place {
            Some(reader) => {
                reader.renew(tables)?;
                reader
            }
            None => {
                let reader = SubtreeReader::open(tables, collection.name())?;
                place.insert(reader.with_locks(queries.locks))
            }
        })
    }

    /// The label of the subtree with an id.
    fn find(
        &mut self,
        tables: &Tables,
        queries: &Queries,
        (collection, id): (TpoxCollection, &str),
    ) -> Result<Label, BenchError> {
        let reader = self.of(tables, queries, collection)?;
        let key = &queries.keys[collection as usize];
        let found = find(tables, reader.document(), key, Some(Sought::Text(id)), 2)?;
        let label = match &found.labels[..] {
            [label] => label.ancestor(SUBTREE_LEVEL),
            _ => None,
        };
        label.ok_or_else(|| strange("an id does not lead to one subtree"))
    }

    /// The subtree with an id.
    fn read(
        &mut self,
        tables: &Tables,
        queries: &Queries,
        (collection, id): (TpoxCollection, &str),
    ) -> Result<Subtree<'_>, BenchError> {
        let label = self.find(tables, queries, (collection, id))?;
        self.read_at(tables, (collection, &label))
    }

    /// The subtree with an id, which the editor's transaction is going to change.
    fn claim(
        &mut self,
        editor: &mut Editor<'_, '_>,
        queries: &Queries,
        (collection, id): (TpoxCollection, &str),
    ) -> Result<Subtree<'_>, BenchError> {
        let label = self.find(editor.tables(), queries, (collection, id))?;
        editor.claim(&label)?;
        self.read_at(editor.tables(), (collection, &label))
    }

    fn read_at(
        &mut self,
        tables: &Tables,
        (collection, label): (TpoxCollection, &Label),
    ) -> Result<Subtree<'_>, BenchError> {
        let reader = self.0[collection as usize].as_mut();
        let reader = reader.ok_or_else(|| strange("what found a subtree is gone"))?;
        reader.read(tables, label)?.ok_or_else(|| strange("there is no subtree of an id"))
    }
}

pub(super) struct TpoxClient {
    load: Arc<TpoxLoad>,
    number: u64,
    rng: Rng,
    readers: Readers,
    answer: Vec<u8>,
    /// How many accounts and orders it has made.
    made_count: u64,
    counts: TpoxCounts,
}

impl TpoxClient {
    pub(super) fn new(load: Arc<TpoxLoad>, number: u32) -> Self {
        let rng = Rng::for_part(load.run.seed, &format!("client {number}"));
        Self {
            load,
            number: u64::from(number),
            rng,
            readers: Readers::default(),
            answer: Vec::new(),
            made_count: 0,
            counts: TpoxCounts::default(),
        }
    }

    /// A number of what is new, which no other client has.
    fn next_number(&mut self) -> u64 {
        self.made_count += 1;
        (self.load.run.new_from + self.made_count - 1) << 16 | self.number
    }

    fn query(&mut self, database: &Database, kind: usize, id: &str) -> Result<(), BenchError> {
        let Self { load, readers, answer, counts, .. } = self;
        let queries = &load.queries;
        let (collection, expression) = match kind {
            ACCOUNT_SUMMARY => (Custacc, &queries.account_summary),
            CUSTOMER => (Custacc, &queries.customer),
            PRICE => (Security, &queries.price),
            ORDER => (Order, &queries.all),
            _ => (Security, &queries.all),
        };
        let snapshot = database.read();
        let subtree = readers.read(&snapshot, queries, (collection, id))?;
        answer.clear();
        for node in queries.nodes(expression, subtree)? {
            write_node(subtree.fragment(), node, answer);
            answer.push(b'\n');
        }
        counts.answered(answer);
        Ok(())
    }

    fn change(&mut self, database: &Database, kind: usize, id: &str) -> Result<(), BenchError> {
        let (tpox, isolation) = (self.load.run.tpox, self.load.run.isolation);
        let price = {
            let cents = 500 + self.rng.below(49_500);
            format!("{}.{:02}", cents / 100, cents % 100)
        };
        let number = if kind == NEW_PRICE { 0 } else { self.next_number() };
        let Self { load, readers, answer, counts, .. } = self;
        let queries = &load.queries;
        let text = match kind {
            NEW_ACCOUNT => tpox.new_account(number),
            NEW_ORDER => tpox.new_order(number),
            _ => price,
        };
        let TpoxCounts { retries, change_bytes, .. } = counts;
        retries.transact(database, isolation, |write| {
            *change_bytes += text.len() as u64;
            match kind {
                NEW_ACCOUNT => new_account(write, readers, queries, (id, &text)),
                NEW_ORDER => {
                    answer.clear();
                    new_order(write, (&mut *readers, queries), (id, &text), answer)
                }
                _ => new_price(write, readers, queries, (id, &text)),
            }
        })?;
        counts.write_transaction_count += 1;
        if kind == NEW_ORDER {
            counts.answered(answer);
        }
        Ok(())
    }
}

/// Puts an account behind the others of a customer.
fn new_account(
    write: &mut WriteTransaction<'_>,
    readers: &mut Readers,
    queries: &Queries,
    (customer, text): (&str, &str),
) -> Result<(), BenchError> {
    let mut editor = Editor::begin_with(write, Custacc.name(), queries.locks)?;
    let subtree = readers.claim(&mut editor, queries, (Custacc, customer))?;
    let accounts = queries.label(&queries.accounts, subtree)?;
    editor.insert(&Spot::LastIn(accounts), text)?;
    editor.finish()?;
    Ok(())
}

/// Reads the price of a security and puts an order behind all others.
fn new_order(
    write: &mut WriteTransaction<'_>,
    (readers, queries): (&mut Readers, &Queries),
    (symbol, text): (&str, &str),
    answer: &mut Vec<u8>,
) -> Result<(), BenchError> {
    let subtree = readers.read(write, queries, (Security, symbol))?;
    for node in queries.nodes(&queries.price, subtree)? {
        write_node(subtree.fragment(), node, answer);
    }
    let mut editor = Editor::begin_with(write, Order.name(), queries.locks)?;
    let root = Label::document().first_child().map_err(|_| strange("there is no root"))?;
    editor.insert(&Spot::LastIn(root), text)?;
    editor.finish()?;
    Ok(())
}

/// Gives a security another price.
fn new_price(
    write: &mut WriteTransaction<'_>,
    readers: &mut Readers,
    queries: &Queries,
    (symbol, price): (&str, &str),
) -> Result<(), BenchError> {
    let mut editor = Editor::begin_with(write, Security.name(), queries.locks)?;
    let subtree = readers.claim(&mut editor, queries, (Security, symbol))?;
    let label = queries.label(&queries.last_trade, subtree)?;
    if !editor.set_value(&label, price)? {
        return Err(strange("a price is not there"));
    }
    editor.finish()?;
    Ok(())
}

/// The kind of the next transaction and the id of what it is about: always as many draws.
fn draw(rng: &mut Rng, run: &TpoxRun) -> (usize, String) {
    let tpox: &Tpox = &run.tpox;
    let is_write = rng.below(100) < u64::from(run.write_percent);
    let (read, write) = (rng.below(6), rng.below(3));
    let kind = match is_write {
        true => WRITES[nandu_base::to_index(write)],
        false => READS[nandu_base::to_index(read)],
    };
    let collection = match kind {
        ACCOUNT_SUMMARY | CUSTOMER | NEW_ACCOUNT => Custacc,
        ORDER => Order,
        _ => Security,
    };
    let number = rng.below(tpox.count(collection));
    let id = match collection {
        Custacc => tpox.customer_id(number).to_string(),
        Order => tpox.order_id(number).to_string(),
        Security => tpox.symbol(number),
    };
    (kind, id)
}

impl Client for TpoxClient {
    fn operate(&mut self, database: &Database, _due: Nanos) -> Result<usize, BenchError> {
        let (kind, id) = draw(&mut self.rng, &self.load.run);
        match kind {
            NEW_ACCOUNT | NEW_ORDER | NEW_PRICE => self.change(database, kind, &id)?,
            _ => self.query(database, kind, &id)?,
        }
        Ok(kind)
    }
}

impl Drop for TpoxClient {
    fn drop(&mut self) {
        self.load.add(&self.counts);
    }
}
