//! The traits that a storage engine implements.

use crate::{End, Key, Timestamp};

/// What can be read: a snapshot, a store, a batch that sees its own writes.
///
/// Values may have many versions. A read as of a timestamp sees, per key, the newest version at or
/// below it, and no key whose newest version there is a deletion. A read as of no timestamp is for
/// whatever the engine keeps without versions, or for all versions at once; the engine says which.
///
/// Object safe: `Box<dyn Reader<Value = V, Error = E>>` is a reader.
pub trait Reader {
    /// What a key has.
    type Value;
    /// Why a read failed.
    type Error;

    /// The value of `key` as of `at`, or `None` if it has none.
    ///
    /// # Errors
    ///
    /// Whatever the engine says.
    fn get(&self, key: &Key, at: Option<Timestamp>) -> Result<Option<Self::Value>, Self::Error>;

    /// A cursor over the entries as of `at`, on none of them yet.
    fn cursor(
        &self,
        at: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = Self::Value, Error = Self::Error> + '_>;
}

/// A place among the entries of a [`Reader`], in the order of keys.
///
/// A cursor is on an entry or on none. It starts on none, and is on none after a seek that found
/// nothing, a step off either end, or an error; from there steps lead nowhere, and a seek leads
/// back.
pub trait Cursor {
    /// What a key has.
    type Value;
    /// Why a move failed.
    type Error;

    /// Goes to the first entry at or above `key`.
    ///
    /// # Errors
    ///
    /// Whatever the engine says; so for all moves.
    fn seek(&mut self, key: &Key) -> Result<(), Self::Error>;

    /// Goes to the last entry below `end`: the last one of a span, given the span's end.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    fn seek_back(&mut self, end: End<'_>) -> Result<(), Self::Error>;

    /// Goes to the entry above.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    fn next(&mut self) -> Result<(), Self::Error>;

    /// Goes to the entry below.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    fn prev(&mut self) -> Result<(), Self::Error>;

    /// The entry that the cursor is on.
    fn item(&self) -> Option<(&Key, &Self::Value)>;
}

/// What can be written: an engine, or a batch that will be applied to one.
pub trait Writer {
    /// What a key is given.
    type Value;
    /// Why a write failed.
    type Error;

    /// Gives `key` a value, as a new version at `at`, or in place where there are no versions.
    ///
    /// # Errors
    ///
    /// Whatever the engine says.
    fn put(
        &mut self,
        key: Key,
        value: Self::Value,
        at: Option<Timestamp>,
    ) -> Result<(), Self::Error>;

    /// Deletes `key`, as a new version at `at`, or in place where there are no versions.
    ///
    /// # Errors
    ///
    /// Whatever the engine says.
    fn delete(&mut self, key: Key, at: Option<Timestamp>) -> Result<(), Self::Error>;
}

/// Forwards each method to the same method of what a pointer points to.
macro_rules! forward_reader {
    ($($pointer:ty),+) => {$(
        impl<R: Reader + ?Sized> Reader for $pointer {
            type Value = R::Value;
            type Error = R::Error;

            fn get(
                &self,
                key: &Key,
                at: Option<Timestamp>,
            ) -> Result<Option<Self::Value>, Self::Error> {
                (**self).get(key, at)
            }

            fn cursor(
                &self,
                at: Option<Timestamp>,
            ) -> Box<dyn Cursor<Value = Self::Value, Error = Self::Error> + '_> {
                (**self).cursor(at)
            }
        }
    )+};
}

forward_reader!(&R, &mut R, Box<R>);

macro_rules! forward_writer {
    ($($pointer:ty),+) => {$(
        impl<W: Writer + ?Sized> Writer for $pointer {
            type Value = W::Value;
            type Error = W::Error;

            fn put(
                &mut self,
                key: Key,
                value: Self::Value,
                at: Option<Timestamp>,
            ) -> Result<(), Self::Error> {
                (**self).put(key, value, at)
            }

            fn delete(&mut self, key: Key, at: Option<Timestamp>) -> Result<(), Self::Error> {
                (**self).delete(key, at)
            }
        }
    )+};
}

forward_writer!(&mut W, Box<W>);

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    type Value = C::Value;
    type Error = C::Error;

    fn seek(&mut self, key: &Key) -> Result<(), Self::Error> {
        (**self).seek(key)
    }

    fn seek_back(&mut self, end: End<'_>) -> Result<(), Self::Error> {
        (**self).seek_back(end)
    }

    fn next(&mut self) -> Result<(), Self::Error> {
        (**self).next()
    }

    fn prev(&mut self) -> Result<(), Self::Error> {
        (**self).prev()
    }

    fn item(&self) -> Option<(&Key, &Self::Value)> {
        (**self).item()
    }
}
