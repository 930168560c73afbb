//! What a request does about a latch whose holder is stuck.

/// What a request does when it meets a poisoned latch: one whose holder has said that it is stuck, with
/// [`Guard::poison`](crate::Guard::poison).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPoison {
    /// It goes on waiting, and is then poisoned itself, so that those behind it can fail: a chain of
    /// requests is as stuck as its head. It stays so until it is released.
    #[default]
    Wait,
    /// It fails with [`WaitError::Poisoned`](crate::WaitError::Poisoned).
    Fail,
}
