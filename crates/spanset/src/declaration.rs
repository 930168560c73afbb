//! A declaration: one span, and how it will be touched.

use std::fmt;

use crate::{Access, Scope, Span, Timestamp, conflicts};

/// One span that a request will touch, and how: access, scope and timestamp.
///
/// Without a timestamp, the access concerns every timestamp. A local declaration with a timestamp
/// cannot be made.
///
/// Its text is `write ["a", "c") at 5.000000000,0`, or `local read ["a"]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Declaration {
    span: Span,
    access: Access,
    space: Space,
}

/// The scope, and the timestamp where the scope can have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
enum Space {
    Global(Option<Timestamp>),
    Local,
}

impl Declaration {
    /// Declares an access to a global span as of every timestamp.
    pub const fn global(access: Access, span: Span) -> Self {
        Self {
            span,
            access,
            space: Space::Global(None),
        }
    }

    /// Declares an access to a global span as of one timestamp.
    pub const fn global_at(access: Access, span: Span, at: Timestamp) -> Self {
        Self {
            span,
            access,
            space: Space::Global(Some(at)),
        }
    }

    /// Declares an access to a local span.
    pub const fn local(access: Access, span: Span) -> Self {
        Self {
            span,
            access,
            space: Space::Local,
        }
    }

    /// What will be touched.
    pub const fn span(&self) -> &Span {
        &self.span
    }

    /// How it will be touched.
    pub const fn access(&self) -> Access {
        self.access
    }

    /// In which name space.
    pub const fn scope(&self) -> Scope {
        match self.space {
            Space::Global(_) => Scope::Global,
            Space::Local => Scope::Local,
        }
    }

    /// As of when; `None` is every timestamp.
    pub const fn timestamp(&self) -> Option<Timestamp> {
        match self.space {
            Space::Global(at) => at,
            Space::Local => None,
        }
    }

    /// Whether the two requests that declare these must not run at the same time: the spans share a
    /// key, the scope is the same, and the accesses [conflict](conflicts). Symmetric. O(1)
    /// comparisons of keys.
    pub fn conflicts_with(&self, other: &Declaration) -> bool {
        self.scope() == other.scope()
            && conflicts(
                (self.access, self.timestamp()),
                (other.access, other.timestamp()),
            )
            && self.span.overlaps(&other.span)
    }

    /// Whether this declaration, on its own, allows an access to its span: without a timestamp of
    /// its own, whatever its access covers; `read@T` allows reads at or below `T`; `write@T` allows
    /// reads at any timestamp and writes at or above `T`. What has a timestamp never allows an
    /// access that has none.
    pub(crate) fn allows(&self, access: Access, at: Option<Timestamp>) -> bool {
        match (self.access, access, self.timestamp(), at) {
            (Access::Read, Access::Write, _, _) => false,
            (_, _, None, _) => true,
            (_, _, Some(_), None) => false,
            (Access::Read, Access::Read, Some(declared), Some(at)) => at <= declared,
            (Access::Write, Access::Read, Some(_), Some(_)) => true,
            (Access::Write, Access::Write, Some(declared), Some(at)) => at >= declared,
        }
    }

    /// Raises the timestamp of a global write to `to`, if it has one that is lower.
    pub(crate) fn forward_write(&mut self, to: Timestamp) {
        if let (Access::Write, Space::Global(Some(at))) = (self.access, &mut self.space) {
            *at = (*at).max(to);
        }
    }

    /// What sorts and joins declarations: those equal in it differ in span alone.
    pub(crate) fn kind(&self) -> impl Ord + use<> {
        (self.space, self.access)
    }

    /// Takes in the span of `other`, if both are of one kind and their spans overlap or touch,
    /// given that `other` does not start lower. Says whether it did.
    pub(crate) fn join(&mut self, other: &Declaration) -> bool {
        let joins = self.kind() == other.kind() && other.span.floor() <= self.span.end();
        if joins {
            self.span.join(&other.span);
        }
        joins
    }
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scope() == Scope::Local {
            f.write_str("local ")?;
        }
        write!(f, "{} {}", self.access, self.span)?;
        match self.timestamp() {
            Some(at) => write!(f, " at {at}"),
            None => Ok(()),
        }
    }
}
