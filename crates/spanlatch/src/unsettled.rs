//! A queue threaded through the request slots, so that any member can leave it in O(1).

use slab::Slab;

use crate::request::Request;
use spanset::Scope;

/// A member's neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    before: Option<usize>,
    after: Option<usize>,
}

/// The requests of one scope whose reads are not all in the read tree yet, earliest first.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Unsettled {
    first: Option<usize>,
    last: Option<usize>,
}

impl Unsettled {
    /// The earliest member's slot.
    pub(crate) fn first(&self) -> Option<usize> {
        self.first
    }

    /// All members' slots, earliest first.
    pub(crate) fn iter(
        self,
        requests: &Slab<Request>,
        scope: Scope,
    ) -> impl Iterator<Item = usize> {
        std::iter::successors(self.first, move |&slot| {
            requests[slot].unsettled[scope as usize]?.after
        })
    }

    /// Appends `slot`, which must not be in the list. O(1).
    pub(crate) fn push(&mut self, requests: &mut Slab<Request>, scope: Scope, slot: usize) {
        let before = self.last.replace(slot);
        requests[slot].unsettled[scope as usize] = Some(Links {
            before,
            after: None,
        });
        match before {
            Some(before) => links(requests, scope, before).after = Some(slot),
            None => self.first = Some(slot),
        }
    }

    /// Takes `slot` out, if it is in the list. O(1).
    pub(crate) fn remove(&mut self, requests: &mut Slab<Request>, scope: Scope, slot: usize) {
        let Some(Links { before, after }) = requests[slot].unsettled[scope as usize].take() else {
            return;
        };
        match before {
            Some(before) => links(requests, scope, before).after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => links(requests, scope, after).before = before,
            None => self.last = before,
        }
    }
}

fn links(requests: &mut Slab<Request>, scope: Scope, slot: usize) -> &mut Links {
    requests[slot].unsettled[scope as usize]
        .as_mut()
        .expect("a neighbour is a member")
}
