//! The error of touching what was not declared.

use std::fmt;

use crate::{Access, Declaration, End, Key, Scope, Span, Timestamp};

/// An access that no declaration allows: what was touched, how, and the declaration nearest to it.
///
/// It is a bug of whoever declared or evaluated, never of the request's author.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UndeclaredAccess(Box<Denial>);

/// What an access touched.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// The keys of a span.
    Span(Span),
    /// The position just below a key, wherever the next lower key may be.
    Below(Key),
    /// The position above every key.
    Last,
}

/// What an [`UndeclaredAccess`] says; boxed there, since a `Result` is as large as its error.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) access: Access,
    pub(crate) scope: Scope,
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) place: Place,
    pub(crate) first: Option<Key>,
    pub(crate) nearest: Option<Declaration>,
}

impl UndeclaredAccess {
    pub(crate) fn new(denial: Denial) -> Self {
        Self(Box::new(denial))
    }

    /// How the place was touched.
    pub fn access(&self) -> Access {
        self.0.access
    }

    /// In which name space.
    pub fn scope(&self) -> Scope {
        self.0.scope
    }

    /// As of when; `None` is every timestamp.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.0.timestamp
    }

    /// What was touched.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The first key of a touched span that is undeclared, if it isn't the span's own start.
    pub fn first_undeclared(&self) -> Option<&Key> {
        self.0.first.as_ref()
    }

    /// The nearest declaration of the same scope, if there is any: one that holds the first
    /// undeclared spot but does not allow the access, or else of the neighbours below and above the
    /// one that shares the longer beginning with it.
    pub fn nearest(&self) -> Option<&Declaration> {
        self.0.nearest.as_ref()
    }
}

impl Place {
    pub(crate) fn below(end: End<'_>) -> Self {
        match end {
            End::Before(key) => Place::Below(key.clone()),
            // Just below the end of a point is the point.
            End::At(key) => Place::Span(Span::point(key.clone())),
            End::Unbounded => Place::Last,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Span(span) => span.fmt(f),
            Place::Below(key) => write!(f, "the position below \"{}\"", key.escape_ascii()),
            Place::Last => f.write_str("the last position"),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("undeclared ")?;
        if self.scope == Scope::Local {
            f.write_str("local ")?;
        }
        write!(f, "{} of {}", self.access, self.place)?;
        if let Some(at) = self.timestamp {
            write!(f, " at {at}")?;
        }
        if let Some(first) = &self.first {
            write!(f, " from \"{}\" on", first.escape_ascii())?;
        }
        match &self.nearest {
            Some(nearest) => write!(f, "; the nearest declaration is {nearest}"),
            None => write!(f, "; nothing {} is declared", self.scope),
        }
    }
}

impl fmt::Debug for UndeclaredAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UndeclaredAccess({self})")
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
