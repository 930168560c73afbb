//! The operations that are measured, on a store of their own.

use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::{Result, anyhow, ensure};
use spanlatch_kv::{Attempt, Db, Error};
use spanlatch_replica::{Applier, Request, Store};
use spanset::{Key, Span};

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads all rows of a table of that many, and fails if it does not get them.
    Scan,
    /// Puts fresh keys.
    Insert,
    /// Reads keys, and writes each plus one.
    Update,
    /// Deletes keys that are there.
    Delete,
}

/// One operation on so many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What it does.
    pub operation: Operation,
    /// To how many rows.
    pub rows: u64,
}

impl Cell {
    /// All that are measured, in the order of the tables.
    pub fn all() -> impl Iterator<Item = Self> {
        use Operation::{Delete, Insert, Scan, Update};
        [Scan, Insert, Update, Delete]
            .into_iter()
            .flat_map(|operation| [1, 10, 100, 1_000, 10_000].map(|rows| Self { operation, rows }))
    }
}

/// As it was published, but for the way to the store.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KV/{:?}/Native/rows={}", self.operation, self.rows)
    }
}

/// How the transaction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The target of the error's inspection is prepared on every call.
    Old,
    /// Errors are looked at when there is one.
    New,
}

/// A fresh store with what a cell needs.
#[derive(Debug)]
pub struct Table {
    cell: Cell,
    side: Side,
    db: Db,
    applier: Applier,
    /// The first key that was not put yet.
    fresh: u64,
    /// The first key that was not deleted yet.
    deleted: u64,
}

impl Table {
    /// With as many rows as the cell's operation reads.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn new(cell: Cell, side: Side) -> Result<Self> {
        let (store, applier) = Store::new();
        let mut table = Self {
            cell,
            side,
            db: Db::new(store),
            applier,
            fresh: 0,
            deleted: 0,
        };
        if matches!(cell.operation, Operation::Scan | Operation::Update) {
            table.put(cell.rows)?;
        }
        Ok(table)
    }

    /// Puts what the next `times` operations need.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn prepare(&mut self, times: u64) -> Result<()> {
        match self.cell.operation {
            Operation::Delete => (0..times).try_for_each(|_| self.put(self.cell.rows)),
            _ => Ok(()),
        }
    }

    /// One transaction.
    ///
    /// # Errors
    ///
    /// If it fails, or a scan does not get all rows.
    pub fn operate(&mut self) -> Result<()> {
        let rows = self.cell.rows;
        match self.cell.operation {
            Operation::Scan => {
                let got = self.transact(async |txn| {
                    let got = txn.scan(Span::all(), Request::UNLIMITED).await?;
                    Ok(got.len() as u64)
                })?;
                ensure!(got == rows, "the scan got {got} rows of {rows}");
            }
            Operation::Insert => self.put(rows)?,
            Operation::Update => {
                let keys = || (0..rows).map(key);
                self.transact(async |txn| {
                    let values = txn.get_all(keys()).await?;
                    for (key, value) in keys().zip(values) {
                        let before = value
                            .and_then(|value| Some(u64::from_be_bytes(value[..].try_into().ok()?)));
                        txn.put(key, encode(before.unwrap_or_default() + 1))?;
                    }
                    Ok(())
                })?;
            }
            Operation::Delete => {
                let first = self.deleted;
                self.deleted += rows;
                self.transact(async |txn| {
                    (first..first + rows).try_for_each(|i| txn.delete(key(i)))
                })?;
            }
        }
        Ok(())
    }

    fn put(&mut self, rows: u64) -> Result<()> {
        let first = self.fresh;
        self.fresh += rows;
        self.transact(async |txn| {
            (first..first + rows).try_for_each(|i| txn.put(key(i), encode(i)))
        })
    }

    fn transact<T, F: Future<Output = Result<T, Error>>>(
        &mut self,
        closure: impl Fn(Attempt) -> F,
    ) -> Result<T> {
        match self.side {
            Side::New => finish(&mut self.applier, self.db.txn(closure)),
            Side::Old => finish(&mut self.applier, prepared(&self.db, closure)),
        }
    }
}

/// What the published change took away: a place for the error that is looked for, prepared on every call although there
/// is hardly ever an error.
async fn prepared<T, F: Future<Output = Result<T, Error>>>(
    db: &Db,
    closure: impl Fn(Attempt) -> F,
) -> Result<T, Error> {
    let mut target: Box<Option<Error>> = black_box(Box::default());
    let result = db.txn(closure).await;
    if let Err(error) = &result {
        *target = Some(error.clone());
    }
    drop(black_box(target));
    result
}

/// Polls the transaction and the applier in turn.
fn finish<T>(applier: &mut Applier, future: impl Future<Output = Result<T, Error>>) -> Result<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return Ok(result?);
        }
        if applier.step() == 0 {
            return Err(anyhow!("a transaction waits for nothing"));
        }
    }
}

fn key(i: u64) -> Key {
    Key::copy_from_slice(&i.to_be_bytes())
}

fn encode(i: u64) -> Key {
    Key::copy_from_slice(&i.to_be_bytes())
}
