//! A queue threaded through the request slots, so that any member can leave it in O(1).

use spanset::Scope;

use crate::slots::Slots;

/// A member's neighbours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    before: Option<u32>,
    after: Option<u32>,
}

/// The requests of one scope whose reads are not all in the read tree yet, earliest first.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Unsettled {
    first: Option<u32>,
    last: Option<u32>,
}

impl Unsettled {
    /// The earliest member's slot.
    pub(crate) fn first(&self) -> Option<u32> {
        self.first
    }

    /// All members' slots, earliest first.
    pub(crate) fn iter(self, requests: &Slots, scope: Scope) -> impl Iterator<Item = u32> {
        std::iter::successors(self.first, move |&slot| {
            requests[slot].unsettled[scope as usize]?.after
        })
    }

    /// Appends `slot`, which must not be in the list. O(1).
    pub(crate) fn push(&mut self, requests: &mut Slots, scope: Scope, slot: u32) {
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
    pub(crate) fn remove(&mut self, requests: &mut Slots, scope: Scope, slot: u32) {
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

fn links(requests: &mut Slots, scope: Scope, slot: u32) -> &mut Links {
    requests[slot].unsettled[scope as usize]
        .as_mut()
        .expect("a neighbour is a member")
}
