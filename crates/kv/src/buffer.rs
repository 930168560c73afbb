//! What an attempt has written and not committed.

use std::collections::BTreeMap;
use std::ops::Bound;

use spanlatch_replica::Value;
use spanset::{End, Key, Span};

/// The writes of an attempt, by key; the last one to a key counts. `None` deletes.
#[derive(Debug, Default)]
pub(crate) struct Buffer(BTreeMap<Key, Option<Value>>);

impl Buffer {
    pub(crate) fn write(&mut self, key: Key, value: Option<Value>) {
        self.0.insert(key, value);
    }

    /// What the attempt has written to `key`, if it has. O(log n).
    pub(crate) fn get(&self, key: &Key) -> Option<&Option<Value>> {
        self.0.get(key)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn into_writes(self) -> impl Iterator<Item = (Key, Option<Value>)> {
        self.0.into_iter()
    }

    /// Puts what the attempt has written to the keys of `span` in the place of what the store has there. Both are in
    /// ascending order. O(rows + writes to the span).
    pub(crate) fn cover(&self, span: &Span, rows: Vec<(Key, Value)>) -> Vec<(Key, Value)> {
        let end = match span.end() {
            End::At(key) => Bound::Included(key),
            End::Before(key) => Bound::Excluded(key),
            End::Unbounded => Bound::Unbounded,
        };
        let bounds = (Bound::Included(span.start()), end);
        let mut own = self.0.range::<Key, _>(bounds).peekable();
        if own.peek().is_none() {
            return rows;
        }
        let mut covered = Vec::with_capacity(rows.len());
        let mut stored = rows.into_iter().peekable();
        loop {
            let own_is_next = match (own.peek(), stored.peek()) {
                (None, None) => return covered,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((own, _)), Some((stored, _))) => *own <= stored,
            };
            if !own_is_next {
                covered.extend(stored.next());
                continue;
            }
            if let Some((key, value)) = own.next() {
                stored.next_if(|(stored, _)| stored == key);
                let value = value.clone();
                covered.extend(value.map(|value| (key.clone(), value)));
            }
        }
    }
}
