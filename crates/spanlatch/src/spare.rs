//! Blocks of requests that have been released, kept by the thread that released them.
//!
//! A request's block is written by the thread that makes it and read by the one that releases it, mostly
//! the same: its cache has the block, and no allocator is asked. Kept in the manager instead, blocks
//! passed from core to core with the mutex, which took two threads twice as long.

use std::cell::RefCell;

use crate::request::Request;

/// How many blocks a thread keeps: as many requests as it releases before it makes the next ones.
const KEPT: usize = 32;

/// A block with room for more latches than this is not kept.
const LATCHES_KEPT: usize = 256;

/// Boxes, since blocks go to the line and back without being copied.
type Spare = Vec<Box<Request>>;

thread_local! {
    /// Blocks are all alike, whichever manager they served.
    static SPARE: RefCell<Spare> = const { RefCell::new(Vec::new()) };
}

/// A block as new, from those that this thread kept, if there are any.
pub(crate) fn take() -> Box<Request> {
    // A thread that ends has none any more.
    let kept = SPARE.try_with(|spare| spare.borrow_mut().pop());
    kept.ok().flatten().unwrap_or_default()
}

/// Keeps the block of a request that is no longer in line, or frees it.
pub(crate) fn give(mut request: Box<Request>) {
    // Foreign code that this may drop runs before the list is borrowed.
    request.clear();
    if request.latches.capacity() > LATCHES_KEPT {
        return;
    }
    // An error gives the block back to the allocator.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < KEPT {
            spare.push(request);
        }
    });
}
