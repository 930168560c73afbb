//! A wrapper around an engine that lets through what was declared, and nothing else.

use crate::span_set::check::Touch;
use crate::{Access, Cursor, Key, Reader, Scope, SpanSet, Timestamp, UndeclaredAccess, Writer};

mod cursor;

pub use cursor::DeclaredCursor;

/// A reader, a writer, or a batch that is both, which checks every access against a [`SpanSet`] and
/// forwards it to its own counterpart. A declared write of a key allows reading it too.
///
/// All accesses through one wrapper are in one scope, which is stated where it is made.
///
/// # Undeclared access
///
/// It is a bug. In debug builds it panics on the spot, with the message of [`UndeclaredAccess`], so
/// that the backtrace shows who did it; in release builds the call returns
/// [`DeclaredError::Undeclared`]. Either way the engine isn't touched, and no undeclared key or
/// value is shown.
#[derive(Clone, Debug)]
pub struct Declared<'s, T> {
    inner: T,
    spans: &'s SpanSet,
    scope: Scope,
}

/// Why an access through a wrapper failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeclaredError<E> {
    /// It was not declared, so the engine was not asked.
    #[error(transparent)]
    Undeclared(UndeclaredAccess),
    /// It was declared, and the engine failed.
    #[error(transparent)]
    Engine(E),
}

impl<'s, T> Declared<'s, T> {
    /// Lets through what `spans` declare in the global scope.
    pub fn global(inner: T, spans: &'s SpanSet) -> Self {
        Self {
            inner,
            spans,
            scope: Scope::Global,
        }
    }

    /// Lets through what `spans` declare in the local scope.
    pub fn local(inner: T, spans: &'s SpanSet) -> Self {
        Self {
            inner,
            spans,
            scope: Scope::Local,
        }
    }

    /// What was wrapped.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn check<E>(
        &self,
        access: Access,
        key: &Key,
        at: Option<Timestamp>,
    ) -> Result<(), DeclaredError<E>> {
        let touch = Touch::new(access, self.scope, at);
        declared(self.spans.check_key(touch, key)).map(drop)
    }
}

/// Panics on an undeclared access in debug builds, and returns it in release builds.
fn declared<T, E>(checked: Result<T, UndeclaredAccess>) -> Result<T, DeclaredError<E>> {
    match checked {
        Ok(allowed) => Ok(allowed),
        Err(undeclared) if cfg!(debug_assertions) => panic!("{undeclared}"),
        Err(undeclared) => Err(DeclaredError::Undeclared(undeclared)),
    }
}

impl<R: Reader> Reader for Declared<'_, R> {
    type Value = R::Value;
    type Error = DeclaredError<R::Error>;

    fn get(&self, key: &Key, at: Option<Timestamp>) -> Result<Option<Self::Value>, Self::Error> {
        self.check(Access::Read, key, at)?;
        self.inner.get(key, at).map_err(DeclaredError::Engine)
    }

    fn cursor(
        &self,
        at: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = Self::Value, Error = Self::Error> + '_> {
        let touch = Touch::new(Access::Read, self.scope, at);
        Box::new(DeclaredCursor::over(
            self.inner.cursor(at),
            self.spans,
            touch,
        ))
    }
}

impl<W: Writer> Writer for Declared<'_, W> {
    type Value = W::Value;
    type Error = DeclaredError<W::Error>;

    fn put(
        &mut self,
        key: Key,
        value: Self::Value,
        at: Option<Timestamp>,
    ) -> Result<(), Self::Error> {
        self.check(Access::Write, &key, at)?;
        self.inner
            .put(key, value, at)
            .map_err(DeclaredError::Engine)
    }

    fn delete(&mut self, key: Key, at: Option<Timestamp>) -> Result<(), Self::Error> {
        self.check(Access::Write, &key, at)?;
        self.inner.delete(key, at).map_err(DeclaredError::Engine)
    }
}
