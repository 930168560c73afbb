//! Why a request gets no guard.

use spanset::Declaration;
use thiserror::Error;

/// The manager takes no more requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the latch manager is shutting down")]
pub struct ShuttingDown;

/// Why a wait ended without a guard. The request's latches are gone.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The deadline passed before every earlier conflicting latch was released.
    #[error("the deadline passed while waiting for an earlier conflicting latch")]
    DeadlinePassed,
    /// [`Manager::shut_down`](crate::Manager::shut_down) was called.
    #[error("the latch manager is shutting down")]
    ShuttingDown,
    /// The request chose [`OnPoison::Fail`](crate::OnPoison::Fail), and this latch, which it would have
    /// had to wait for, is poisoned: its holder is stuck.
    #[error("the holder of {0}, a conflicting latch, is stuck")]
    Poisoned(Box<Declaration>),
}

/// Why [`Manager::try_acquire`](crate::Manager::try_acquire) gave no guard. Nothing is in line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TryAcquireError {
    /// An earlier conflicting latch is in line.
    #[error("an earlier conflicting latch is in line")]
    WouldWait,
    /// [`Manager::shut_down`](crate::Manager::shut_down) was called.
    #[error("the latch manager is shutting down")]
    ShuttingDown,
}

/// Why a request was not sequenced optimistically. Nothing is in line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OptimisticError {
    /// Only reads can be checked after the fact.
    #[error("{0} cannot be acquired optimistically: only reads can be")]
    DeclaresWrite(Box<Declaration>),
    /// [`Manager::shut_down`](crate::Manager::shut_down) was called.
    #[error("the latch manager is shutting down")]
    ShuttingDown,
}

impl From<ShuttingDown> for WaitError {
    fn from(ShuttingDown: ShuttingDown) -> Self {
        WaitError::ShuttingDown
    }
}
