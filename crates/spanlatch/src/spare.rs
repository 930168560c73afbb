//! Blocks of requests that have been released, kept by the thread that released them.
//!
//! A request's block is written by the thread that makes it and read by the one that releases it, mostly
//! the same: its cache has the block, and no allocator is asked. Kept in the manager instead, blocks
//! passed from core to core with the mutex, which took two threads twice as long.

use std::cell::RefCell;
use std::sync::Arc;

use crate::manager::Shared;
use crate::request::Request;

/// How many blocks a thread keeps: as many requests as it releases before it makes the next ones.
const KEPT: usize = 32;

/// A block with room for more latches than this is not kept.
const LATCHES_KEPT: usize = 256;

/// A block, and a reference to the manager that it served last, for the next request there.
type Spare = (Box<Request>, Arc<Shared>);

thread_local! {
    static SPARE: RefCell<Vec<Spare>> = const { RefCell::new(Vec::new()) };
}

/// A block as new, from those that this thread kept, if there are any; and a reference to `shared`.
#[inline]
pub(crate) fn take(shared: &Arc<Shared>) -> Spare {
    // A thread that ends has none any more.
    match SPARE.try_with(|spare| spare.borrow_mut().pop()) {
        Ok(Some((request, kept))) if Arc::ptr_eq(&kept, shared) => (request, kept),
        Ok(Some((request, _other))) => (request, Arc::clone(shared)),
        _ => (Box::default(), Arc::clone(shared)),
    }
}

/// Keeps the block of a request that is no longer in line, or frees it.
#[inline]
pub(crate) fn give(mut request: Box<Request>, shared: Arc<Shared>) {
    // Foreign code that this may drop runs before the list is borrowed.
    request.clear();
    if request.latches.capacity() > LATCHES_KEPT {
        return;
    }
    // What is not kept is dropped after the list has been borrowed.
    let mut given = Some((request, shared));
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < KEPT {
            spare.extend(given.take());
        }
    });
}
