//! How, and in which name space, a span is touched.

use std::fmt;

/// How a span is touched. A grant to write covers reads too, so `Write > Read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Access {
    /// Looked at: the keys that are there, and that no others are.
    Read,
    /// Changed, and perhaps looked at.
    Write,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
        })
    }
}

/// The name space of a span. The two are independent: nothing in one conflicts with anything in
/// the other, and what is local has no versions, hence no timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Scope {
    /// The keys that users see.
    Global,
    /// The range's own records.
    Local,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Global => "global",
            Scope::Local => "local",
        })
    }
}
