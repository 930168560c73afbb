//! A queue threaded through the request slots, so that any member can leave it in O(1).

use crate::slots::Slots;

/// How many queues there are; each request has room for its place in all of them.
pub(crate) const QUEUES: usize = 3;

/// A member's neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    before: Option<u32>,
    after: Option<u32>,
}

/// Slots in the order in which they joined.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Which of a request's links are this queue's.
    id: u8,
    first: Option<u32>,
    last: Option<u32>,
}

impl Queue {
    pub(crate) const fn new(id: usize) -> Self {
        assert!(id < QUEUES, "requests have links for that many queues");
        Queue {
            id: id as u8,
            first: None,
            last: None,
        }
    }

    /// The member that joined first.
    pub(crate) fn first(&self) -> Option<u32> {
        self.first
    }

    /// All members, in the order in which they joined.
    pub(crate) fn iter<'a>(&'a self, requests: &'a Slots) -> impl Iterator<Item = u32> + 'a {
        std::iter::successors(self.first, |&slot| {
            requests.links(slot, usize::from(self.id))?.after
        })
    }

    /// Appends `slot`, which must not be in the queue. O(1).
    pub(crate) fn push(&mut self, requests: &mut Slots, slot: u32) {
        let before = self.last.replace(slot);
        let links = Links {
            before,
            after: None,
        };
        let displaced = requests
            .links_mut(slot, usize::from(self.id))
            .replace(links);
        debug_assert!(displaced.is_none(), "a request joined a queue twice");
        match before {
            Some(before) => self.links(requests, before).after = Some(slot),
            None => self.first = Some(slot),
        }
    }

    /// Takes `slot` out, if it is in the queue. O(1).
    pub(crate) fn remove(&mut self, requests: &mut Slots, slot: u32) {
        let Some(Links { before, after }) = requests.links_mut(slot, usize::from(self.id)).take()
        else {
            return;
        };
        match before {
            Some(before) => self.links(requests, before).after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => self.links(requests, after).before = before,
            None => self.last = before,
        }
    }

    fn links<'a>(&self, requests: &'a mut Slots, slot: u32) -> &'a mut Links {
        requests
            .links_mut(slot, usize::from(self.id))
            .as_mut()
            .expect("a neighbour is a member")
    }
}
