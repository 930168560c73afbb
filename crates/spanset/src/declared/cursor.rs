//! A cursor that keeps within what was declared.

use crate::span_set::check::{Run, Touch};
use crate::{Access, Cursor, DeclaredError, End, Key, Scope, SpanSet, Timestamp};

use super::declared;

/// A [`Cursor`] that checks where it seeks, and shows only what was declared for reading.
///
/// A seek to a key needs that key declared, a reverse seek to an end the position just below it.
/// From there the cursor may step through the whole stretch of declared keys around it, however
/// many declarations make it up. A seek or step that leaves the stretch ends on no entry, and this
/// is no error; to go on in another stretch would show that there is nothing between the two, which
/// was not declared.
#[derive(Clone, Debug)]
pub struct DeclaredCursor<'s, C> {
    inner: C,
    spans: &'s SpanSet,
    touch: Touch,
    /// The stretch of the last seek; `None` before the first one, and after one that was refused.
    run: Option<Run<'s>>,
}

impl<'s, C: Cursor> DeclaredCursor<'s, C> {
    /// Wraps a cursor over the entries of `scope` as of `at`.
    pub fn new(inner: C, spans: &'s SpanSet, scope: Scope, at: Option<Timestamp>) -> Self {
        Self::over(inner, spans, Touch::new(Access::Read, scope, at))
    }

    pub(crate) fn over(inner: C, spans: &'s SpanSet, touch: Touch) -> Self {
        Self {
            inner,
            spans,
            touch,
            run: None,
        }
    }

    /// What was wrapped.
    pub fn into_inner(self) -> C {
        self.inner
    }
}

impl<C: Cursor> Cursor for DeclaredCursor<'_, C> {
    type Value = C::Value;
    type Error = DeclaredError<C::Error>;

    fn seek(&mut self, key: &Key) -> Result<(), Self::Error> {
        self.run = None;
        let around = declared(self.spans.check_key(self.touch, key))?;
        self.run = Some(self.spans.run_around(self.touch, around));
        self.inner.seek(key).map_err(DeclaredError::Engine)
    }

    fn seek_back(&mut self, end: End<'_>) -> Result<(), Self::Error> {
        self.run = None;
        let around = declared(self.spans.check_below(self.touch, end))?;
        self.run = Some(self.spans.run_around(self.touch, around));
        self.inner.seek_back(end).map_err(DeclaredError::Engine)
    }

    fn next(&mut self) -> Result<(), Self::Error> {
        match self.item() {
            Some(_) => self.inner.next().map_err(DeclaredError::Engine),
            None => Ok(()),
        }
    }

    fn prev(&mut self) -> Result<(), Self::Error> {
        match self.item() {
            Some(_) => self.inner.prev().map_err(DeclaredError::Engine),
            None => Ok(()),
        }
    }

    fn item(&self) -> Option<(&Key, &Self::Value)> {
        let run = self.run?;
        self.inner.item().filter(|(key, _)| run.contains(key))
    }
}
