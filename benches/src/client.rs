//! What the workers of a run talk to: the store, or a client of it.

use std::fmt;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use spanlatch_kv::{Db, Error};
use spanlatch_replica::{Batch, Request, Response, Serve};
use spanset::{Span, Timestamp};

use crate::workload::Operation;

/// What the workers talk to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// The store: each operation is a batch
    #[default]
    Store,
    /// A client of the store: each operation is a transaction
    Txn,
}

impl fmt::Display for ClientKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store => "store",
            Self::Txn => "txn",
        })
    }
}

/// A worker's way to a store.
#[derive(Debug)]
pub enum Client<S> {
    /// Batches.
    Store(S),
    /// Transactions.
    Txn(Db<S>),
}

impl<S: Serve> Client<S> {
    /// A client of that kind.
    pub fn new(kind: ClientKind, store: S) -> Self {
        match kind {
            ClientKind::Store => Self::Store(store),
            ClientKind::Txn => Self::Txn(Db::new(store)),
        }
    }

    /// Does an operation, and returns when it took place.
    ///
    /// # Errors
    ///
    /// If it fails, or a scan does not get the whole table.
    pub async fn operate(&self, operation: &Operation) -> Result<Timestamp> {
        match self {
            Self::Store(store) => batch(store, operation).await,
            Self::Txn(db) => transaction(db, operation).await,
        }
    }
}

async fn batch<S: Serve>(store: &S, operation: &Operation) -> Result<Timestamp> {
    let batch = match operation {
        Operation::Read(keys) => keys.iter().cloned().map(Request::get).collect(),
        Operation::Scan => Batch::from(Request::scan(Span::all())),
        Operation::Write(rows) => rows
            .iter()
            .map(|row| Request::put(row.key.clone(), row.value.clone()))
            .collect(),
    };
    let reply = store.send(batch).await;
    let reply = reply.map_err(|error| anyhow!("an operation failed: {error}"))?;
    if matches!(operation, Operation::Scan) {
        match &reply.responses[..] {
            [Response::Rows { resume: None, .. }] => {}
            other => bail!("a scan of the whole table got {other:?}"),
        }
    }
    Ok(reply.timestamp)
}

async fn transaction<S: Serve>(db: &Db<S>, operation: &Operation) -> Result<Timestamp> {
    let mut txn = db.begin();
    let done = txn.exec(async |attempt| {
        match operation {
            Operation::Read(keys) => drop(attempt.get_all(keys.iter().cloned()).await?),
            Operation::Scan => drop(attempt.scan(Span::all(), Request::UNLIMITED).await?),
            Operation::Write(rows) => {
                for row in rows {
                    attempt.put(row.key.clone(), row.value.clone())?;
                }
            }
        }
        Ok::<_, Error>(())
    });
    done.await.context("an operation failed")?;
    txn.committed_at()
        .context("a transaction neither read nor wrote")
}
