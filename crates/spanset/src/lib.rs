//! Key spans, timestamps, and the declarations of what a request will touch.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod compact_key;
mod end;
mod span;
mod timestamp;

mod access;
mod conflict;
mod declaration;

mod span_set;
mod undeclared;

mod declared;
mod engine;

pub use access::{Access, Scope};
pub use compact_key::CompactKey;
pub use conflict::conflicts;
pub use declaration::Declaration;
pub use declared::{Declared, DeclaredCursor, DeclaredError};
pub use end::End;
pub use engine::{Cursor, Reader, Writer};
pub use span::{EmptySpan, Key, Span};
pub use span_set::SpanSet;
pub use timestamp::Timestamp;
pub use undeclared::{Place, UndeclaredAccess};
