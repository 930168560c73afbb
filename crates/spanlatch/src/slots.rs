//! Where requests are kept, by slot.

use std::ops::{Index, IndexMut};

use slab::Slab;

use crate::latch::RequestId;
use crate::queue::{Links, QUEUES};
use crate::request::Request;

/// How many slots are kept when nobody is in line.
const SLOTS_KEPT: usize = 1024;

/// The requests in line, by slot.
///
/// A request is in memory of its own, which the thread that made it has in its cache: what goes from
/// core to core with the mutex is one small slot, not all that a request consists of.
#[derive(Debug, Default)]
pub(crate) struct Slots(Slab<Slot>);

#[derive(Debug)]
struct Slot {
    sequence: u64,
    request: Box<Request>,
    /// Neighbours in the queues that the request is in.
    links: [Option<Links>; QUEUES],
}

impl Slots {
    /// Gives a request a slot. O(1), amortized.
    pub(crate) fn insert(&mut self, sequence: u64, mut request: Box<Request>) -> RequestId {
        let entry = self.0.vacant_entry();
        let slot = u32::try_from(entry.key()).expect("fewer than 2^32 requests at once");
        let id = RequestId { sequence, slot };
        request.id = id;
        entry.insert(Slot {
            sequence,
            request,
            links: [None; QUEUES],
        });
        id
    }

    /// Takes a request out. O(1).
    pub(crate) fn remove(&mut self, slot: u32) -> Box<Request> {
        self.0.remove(slot as usize).request
    }

    /// Takes out the slots themselves, to be freed elsewhere, if they are many and none is in use.
    pub(crate) fn take_unneeded(&mut self) -> Option<Slots> {
        let unneeded = self.0.is_empty() && self.0.capacity() > SLOTS_KEPT;
        unneeded.then(|| std::mem::take(self))
    }

    /// Whether this request is still in line.
    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.0
            .get(id.slot as usize)
            .is_some_and(|slot| slot.sequence == id.sequence)
    }

    /// The request, if it is still in line.
    pub(crate) fn get(&self, id: RequestId) -> Option<&Request> {
        self.contains(id).then(|| &self[id.slot])
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.0.iter().map(|(_, slot)| &*slot.request)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.0.iter_mut().map(|(_, slot)| &mut *slot.request)
    }

    /// The neighbours of a request in a queue, if it is in it.
    pub(crate) fn links(&self, slot: u32, queue: usize) -> Option<Links> {
        self.0[slot as usize].links[queue]
    }

    pub(crate) fn links_mut(&mut self, slot: u32, queue: usize) -> &mut Option<Links> {
        &mut self.0[slot as usize].links[queue]
    }
}

impl Index<u32> for Slots {
    type Output = Request;

    fn index(&self, slot: u32) -> &Request {
        &self.0[slot as usize].request
    }
}

impl IndexMut<u32> for Slots {
    fn index_mut(&mut self, slot: u32) -> &mut Request {
        &mut self.0[slot as usize].request
    }
}
