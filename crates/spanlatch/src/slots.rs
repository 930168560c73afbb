//! Where requests are kept: slots that are recycled, with the memory they have.

use std::ops::{Index, IndexMut};

use spanset::Declaration;

use crate::latch::{Latch, RequestId};
use crate::request::Request;

/// How many slots are kept when nobody is in line.
const SLOTS_KEPT: usize = 1024;

/// The requests in line, by slot.
///
/// A slot keeps the memory of the request that was there before, so that a steady stream of requests
/// allocates nothing.
///
/// Invariant (*slots*): a slot is either in the list of free ones, once, or in line.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Request>,
    free: Vec<u32>,
}

impl Slots {
    /// Gives a request with these declarations a slot. O(k) for k of them.
    pub(crate) fn insert<'a>(
        &mut self,
        sequence: u64,
        declarations: impl Iterator<Item = &'a Declaration>,
    ) -> &mut Request {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 requests at once");
            self.slots.push(Request::default());
            slot
        });
        let request = &mut self[slot];
        request.id = RequestId { sequence, slot };
        request.in_line = true;
        request.latches.extend(declarations.map(Latch::from));
        request
    }

    /// Frees the slot of a request that has left no trace elsewhere. O(k) for its k latches.
    pub(crate) fn remove(&mut self, slot: u32) {
        self[slot].recycle();
        self.free.push(slot);
        if self.is_empty() && self.slots.len() > SLOTS_KEPT {
            *self = Slots::default();
        }
    }

    /// The request, if it is still in line.
    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        self.slots
            .get(id.slot as usize)
            .filter(|request| request.in_line && request.id == id)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.slots.iter().filter(|request| request.in_line)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.slots.iter_mut().filter(|request| request.in_line)
    }

    /// Panics unless the invariant holds.
    pub(crate) fn verify(&self) {
        let mut free = self.free.clone();
        free.sort_unstable();
        let unused = |&slot: &u32| !self[slot].in_line;
        assert!(
            Vec::from_iter((0..self.slots.len() as u32).filter(unused)) == free,
            "slots"
        );
    }
}

impl Index<u32> for Slots {
    type Output = Request;

    fn index(&self, slot: u32) -> &Request {
        &self.slots[slot as usize]
    }
}

impl IndexMut<u32> for Slots {
    fn index_mut(&mut self, slot: u32) -> &mut Request {
        &mut self.slots[slot as usize]
    }
}
