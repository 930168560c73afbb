//! What can be wrong with a data folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::EngineError;

/// Why a [`FjallEngine`](crate::FjallEngine) could not be opened, or could not do what was asked.
///
/// In an [`EngineError`] it is the [engine's own error](EngineError::error), to be downcast. A key that is too long, and
/// whatever is asked of a poisoned engine, is [refused](EngineError::is_refusal).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FjallError {
    /// The folder holds something else.
    #[error("{} is not empty and not a data folder of ours: it has no file FORMAT", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
    },
    /// The folder's format is not the one that this version reads and writes.
    #[error("{} is of format {found}, and this version knows format {known} only", file.display())]
    OtherFormat {
        /// The file that says so.
        file: PathBuf,
        /// What it says.
        found: u64,
        /// The one that is known.
        known: u64,
    },
    /// Another engine has the folder open.
    #[error("{} is in use", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A file is not what was written, or is gone.
    #[error("{} is corrupt: {what}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The operating system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or the folder that it was about.
        path: PathBuf,
        /// What it says.
        source: Arc<io::Error>,
    },
    /// Fjall failed.
    #[error("{}: {source}", path.display())]
    Storage {
        /// The folder.
        path: PathBuf,
        /// What it says.
        source: Arc<fjall::Error>,
    },
    /// A key is longer than can be kept; nothing of its group was applied.
    #[error("a key of {length} bytes takes {encoded} here, and {longest} is the most")]
    KeyTooLong {
        /// Its own length.
        length: usize,
        /// The length with zero bytes escaped, and with a timestamp.
        encoded: usize,
        /// The most that `encoded` may be.
        longest: usize,
    },
    /// Something failed before, and what is on the disk is not known any more. To go on, drop the engine
    /// and its snapshots, see to the disk, and open the folder again.
    #[error("{} must be reopened: {cause}", path.display())]
    Poisoned {
        /// The folder.
        path: PathBuf,
        /// What failed first.
        cause: String,
    },
}

impl FjallError {
    /// Wraps what the operating system says about `path`.
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            path,
            source: Arc::new(source),
        }
    }

    /// Wraps what fjall says about the folder `path`.
    pub(super) fn storage(path: &Path) -> impl FnOnce(fjall::Error) -> Self {
        let path = path.to_owned();
        move |source| match source {
            fjall::Error::Locked => Self::InUse { path },
            source => Self::Storage {
                path,
                source: Arc::new(source),
            },
        }
    }

    pub(super) fn is_corrupt(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }

    pub(super) fn corrupt(file: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self::Corrupt {
            file: file.into(),
            what: what.into(),
        }
    }
}

impl From<FjallError> for EngineError {
    fn from(error: FjallError) -> Self {
        match error {
            FjallError::KeyTooLong { .. } | FjallError::Poisoned { .. } => Self::refused(error),
            error => Self::new(error),
        }
    }
}
