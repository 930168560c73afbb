//! How many latches there are.

/// The latches of all requests in line, waiting ones included, by scope and access; and the requests.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Reads in the global scope.
    pub global_reads: usize,
    /// Writes in the global scope.
    pub global_writes: usize,
    /// Reads in the local scope.
    pub local_reads: usize,
    /// Writes in the local scope.
    pub local_writes: usize,
    /// Requests in line: those that hold their latches and those that wait.
    pub requests: usize,
    /// Requests that are parked, or have been woken and not looked again yet.
    pub waiting: usize,
}

impl Counts {
    /// All latches.
    pub fn latches(&self) -> usize {
        self.global_reads + self.global_writes + self.local_reads + self.local_writes
    }
}
