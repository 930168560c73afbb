//! A queue threaded through the requests, so that any member can leave it in O(1).

use crate::slots::Slots;

/// How many queues there are; each request has room for its place in all of them.
pub(crate) const QUEUES: usize = 3;

/// The queue of waits; the others are those of the scopes.
pub(crate) const WAITS: usize = 2;

/// No neighbour. There are never as many slots.
const NONE: u32 = u32::MAX;

/// A member's neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    before: u32,
    after: u32,
}

/// Slots in the order in which they joined.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Which of a request's links are this queue's.
    id: usize,
    first: u32,
    last: u32,
}

impl Queue {
    pub(crate) const fn new(id: usize) -> Self {
        assert!(id < QUEUES, "requests have links for that many queues");
        Queue {
            id,
            first: NONE,
            last: NONE,
        }
    }

    /// The member that joined first.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// All members, in the order in which they joined.
    pub(crate) fn iter<'a>(&'a self, requests: &'a Slots) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(self.first(), |&slot| {
            let after = requests[slot].links[self.id]?.after;
            (after != NONE).then_some(after)
        })
    }

    /// Appends `slot`, which must not be in the queue. O(1).
    pub(crate) fn push(&mut self, requests: &mut Slots, slot: u32) {
        let before = std::mem::replace(&mut self.last, slot);
        let links = Links {
            before,
            after: NONE,
        };
        let displaced = requests[slot].links[self.id].replace(links);
        debug_assert!(displaced.is_none(), "a request joined a queue twice");
        match before {
            NONE => self.first = slot,
            before => self.links(requests, before).after = slot,
        }
    }

    /// Takes `slot` out, if it is in the queue. O(1).
    pub(crate) fn remove(&mut self, requests: &mut Slots, slot: u32) {
        if let Some(links) = requests[slot].links[self.id].take() {
            self.close(requests, links);
        }
    }

    /// Closes the gap that a former member with these links has left. O(1).
    pub(crate) fn close(&mut self, requests: &mut Slots, Links { before, after }: Links) {
        match before {
            NONE => self.first = after,
            before => self.links(requests, before).after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.links(requests, after).before = before,
        }
    }

    fn links<'a>(&self, requests: &'a mut Slots, slot: u32) -> &'a mut Links {
        (requests[slot].links[self.id].as_mut()).expect("a neighbour is a member")
    }
}
