//! Declarations in the plainest form, and the conflict table over them, said independently of the crates.

use spanset::{Span, SpanSet, Timestamp};

use crate::choices::Choices;

/// One declaration over numbered keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// In the local scope.
    pub local: bool,
    /// A write; else a read.
    pub write: bool,
    /// The first key.
    pub first: u8,
    /// The last key, included; `u8::MAX` stands for no end.
    pub last: u8,
    /// As of when; `None` for always.
    pub at: Option<u64>,
}

impl Declared {
    /// Any declaration over keys below `keys`, mostly of one key or few.
    pub fn choose(choices: &mut Choices<'_>, keys: u8) -> Self {
        let first = choices.below(usize::from(keys)) as u8;
        let last = match choices.below(16) {
            0..9 => first,
            9..15 => (first + choices.below(4) as u8).min(keys - 1),
            _ => u8::MAX,
        };
        let local = choices.one_in(6);
        let at = [None, Some(1), Some(2), Some(3)][choices.below(4)];
        Declared {
            local,
            write: choices.below(2) == 0,
            first,
            last,
            at: at.filter(|_| !local),
        }
    }

    /// The conflict table, row by row.
    pub fn conflicts(self, held: Declared) -> bool {
        let overlap = self.first <= held.last && held.first <= self.last;
        let same_scope = self.local == held.local;
        let waits = match (self.write, held.write, self.at, held.at) {
            (false, false, _, _) => false,
            (true, true, _, _) => true,
            (_, _, None, _) | (_, _, _, None) => true,
            (false, true, Some(read), Some(written)) => written <= read,
            (true, false, Some(written), Some(read)) => read >= written,
        };
        overlap && same_scope && waits
    }

    fn declare(self, prefix: &[u8], set: &mut SpanSet) {
        let key = |number: u8| [prefix, &[number]].concat();
        let span = match self.last {
            u8::MAX => Span::starting_at(key(self.first)),
            last if last == self.first => Span::point(key(last)),
            last => Span::range(key(self.first), key(last + 1)).expect("ascending"),
        };
        let at = self.at.map(|wall| Timestamp::new(wall, 0));
        match (self.local, self.write, at) {
            (true, true, _) => set.write_local(span),
            (true, false, _) => set.read_local(span),
            (false, true, None) => set.write(span),
            (false, true, Some(at)) => set.write_at(span, at),
            (false, false, None) => set.read(span),
            (false, false, Some(at)) => set.read_at(span, at),
        }
    }
}

/// What the manager is asked for. Each key begins with `prefix`.
pub fn spans(declared: &[Declared], prefix: &[u8]) -> SpanSet {
    let mut set = SpanSet::new();
    for declaration in declared {
        declaration.declare(prefix, &mut set);
    }
    set
}

/// Whether a request must wait for another one that is earlier.
pub fn conflict(waiting: &[Declared], held: &[Declared]) -> bool {
    waiting
        .iter()
        .any(|waiting| held.iter().any(|&held| waiting.conflicts(held)))
}
