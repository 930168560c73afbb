//! The storage engines that runs keep their versions in, each run in one of its own.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use spanlatch_replica::{Applier, Engine, FjallEngine, MemEngine};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Which engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// In memory
    #[default]
    Mem,
    /// On a disk, each group of writes synced: in a folder in $TMPDIR, removed afterwards
    Fjall,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mem => "mem",
            Self::Fjall => "fjall",
        })
    }
}

/// Where the engines of a session are.
#[derive(Debug)]
pub enum Storage {
    /// In memory.
    Mem,
    /// In folders in this one, which is removed with it.
    Fjall(TempDir),
}

impl Storage {
    /// A place for the engines of a session.
    ///
    /// # Errors
    ///
    /// If no folder can be made.
    pub fn new(kind: EngineKind) -> Result<Self> {
        Ok(match kind {
            EngineKind::Mem => Self::Mem,
            EngineKind::Fjall => {
                let made = tempfile::Builder::new()
                    .prefix("spanlatch-bench-")
                    .tempdir();
                Self::Fjall(made.context("cannot make a folder for the data")?)
            }
        })
    }

    /// The folder to be removed even if nothing is dropped.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Mem => None,
            Self::Fjall(folder) => Some(folder.path()),
        }
    }

    /// A new engine.
    pub(crate) fn open(&self) -> Result<Opened> {
        Ok(match self {
            Self::Mem => Opened {
                engine: Arc::new(MemEngine::new()),
                folder: None,
            },
            Self::Fjall(all) => {
                let folder = TempDir::new_in(all).context("cannot make a folder for the data")?;
                Opened {
                    engine: Arc::new(FjallEngine::open(folder.path())?),
                    folder: Some(folder),
                }
            }
        })
    }
}

/// An engine, and its folder, which is removed with it.
pub(crate) struct Opened {
    pub(crate) engine: Arc<dyn Engine>,
    folder: Option<TempDir>,
}

impl Opened {
    /// Starts the applier: among the workers, or on a thread of its own if it waits for a disk.
    pub(crate) fn start(&self, applier: Applier, runtime: &Runtime) -> JoinHandle<()> {
        match self.folder {
            None => runtime.spawn(applier),
            Some(_) => runtime.spawn_blocking(move || applier.run()),
        }
    }
}
