//! Why a request gets no guard.

use thiserror::Error;

/// The manager takes no more requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the latch manager is shutting down")]
pub struct ShuttingDown;

/// Why a wait ended without a guard. The request's latches are gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The deadline passed before every earlier conflicting latch was released.
    #[error("the deadline passed while waiting for an earlier conflicting latch")]
    DeadlinePassed,
    /// [`Manager::shut_down`](crate::Manager::shut_down) was called.
    #[error("the latch manager is shutting down")]
    ShuttingDown,
}

impl From<ShuttingDown> for WaitError {
    fn from(ShuttingDown: ShuttingDown) -> Self {
        WaitError::ShuttingDown
    }
}
