//! The set of declarations of one request.

use std::{fmt, slice};

use smallvec::SmallVec;

use crate::{Access, Declaration, Scope, Span, Timestamp};

pub(crate) mod check;

/// How many declarations need no allocation: a request for one key declares that key and, locally,
/// its range's descriptor.
const INLINE: usize = 2;

/// All that one request will touch: a flat list of declarations, in the order they were made.
///
/// Up to two declarations are held in place; more take one allocation (make it at once with
/// [`with_capacity`](Self::with_capacity)). The keys are shared with those who passed them in.
///
/// ```
/// use spanset::{Access, Scope, Span, SpanSet, Timestamp};
///
/// let at = Timestamp::new(5, 0);
/// let mut spans = SpanSet::new();
/// spans.read_local(Span::point("descriptor"));
/// spans.write_at(Span::range("a", "c")?, at);
/// spans.write_at(Span::range("c", "e")?, at);
///
/// assert!(spans.check_allowed_at(Access::Write, &Span::range("b", "d")?, at).is_ok());
/// let denied = spans.check_allowed(Access::Write, Scope::Local, &Span::point("descriptor"));
/// assert_eq!(
///     denied.unwrap_err().to_string(),
///     r#"undeclared local write of ["descriptor"]; the nearest declaration is local read ["descriptor"]"#,
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanSet {
    declarations: SmallVec<[Declaration; INLINE]>,
}

impl SpanSet {
    /// A set without declarations. Allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set without declarations and with room for `capacity` of them.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            declarations: SmallVec::with_capacity(capacity),
        }
    }

    /// Makes room for `additional` more declarations.
    pub fn reserve(&mut self, additional: usize) {
        self.declarations.reserve(additional);
    }

    /// How many declarations there are.
    pub fn len(&self) -> usize {
        self.declarations.len()
    }

    /// Whether there are no declarations.
    pub fn is_empty(&self) -> bool {
        self.declarations.is_empty()
    }

    /// Takes all declarations out and keeps their room.
    pub fn clear(&mut self) {
        self.declarations.clear();
    }

    /// Adds a declaration. O(1), amortised, as are the named forms below.
    pub fn declare(&mut self, declaration: Declaration) {
        self.declarations.push(declaration);
    }

    /// Declares a read of a global span as of every timestamp.
    pub fn read(&mut self, span: Span) {
        self.declare(Declaration::global(Access::Read, span));
    }

    /// Declares a read of a global span as of `at`.
    pub fn read_at(&mut self, span: Span, at: Timestamp) {
        self.declare(Declaration::global_at(Access::Read, span, at));
    }

    /// Declares a write of a global span as of every timestamp.
    pub fn write(&mut self, span: Span) {
        self.declare(Declaration::global(Access::Write, span));
    }

    /// Declares a write of a global span as of `at`.
    pub fn write_at(&mut self, span: Span, at: Timestamp) {
        self.declare(Declaration::global_at(Access::Write, span, at));
    }

    /// Declares a read of a local span.
    pub fn read_local(&mut self, span: Span) {
        self.declare(Declaration::local(Access::Read, span));
    }

    /// Declares a write of a local span.
    pub fn write_local(&mut self, span: Span) {
        self.declare(Declaration::local(Access::Write, span));
    }

    /// Adds the declarations of `other`, in their order. O(declarations of `other`).
    pub fn merge(&mut self, other: &SpanSet) {
        self.declarations.extend(other.iter().cloned());
    }

    /// The declarations, in the order they were made or, after
    /// [`sort_and_dedup`](Self::sort_and_dedup), sorted.
    pub fn iter(&self) -> slice::Iter<'_, Declaration> {
        self.declarations.iter()
    }

    /// The declarations of one scope and access, in the order of [`iter`](Self::iter).
    pub fn iter_of(&self, scope: Scope, access: Access) -> impl Iterator<Item = &Declaration> {
        self.iter()
            .filter(move |d| d.scope() == scope && d.access() == access)
    }

    /// Sorts by scope, timestamp, access and span, and joins spans that overlap or touch where all
    /// but the span is the same. What is covered stays the same. O(n log n) comparisons of keys.
    pub fn sort_and_dedup(&mut self) {
        self.declarations
            .sort_unstable_by(|a, b| (a.kind(), a.span()).cmp(&(b.kind(), b.span())));
        self.declarations.dedup_by(|next, joined| joined.join(next));
    }

    /// Whether the requests that declare these two sets could conflict: some declaration of one
    /// [conflicts](Declaration::conflicts_with) with one of the other. Symmetric. O(n * m).
    pub fn intersects(&self, other: &SpanSet) -> bool {
        self.iter()
            .any(|a| other.iter().any(|b| a.conflicts_with(b)))
    }

    /// Raises to `to` the timestamp of each global write that has a lower one. Reads, and writes as
    /// of every timestamp, stay as they are. O(n).
    pub fn forward_writes(&mut self, to: Timestamp) {
        for declaration in &mut self.declarations {
            declaration.forward_write(to);
        }
    }
}

/// The declarations in order: `local read ["descriptor"], write ["a", "c") at 0.000000005,0`.
impl fmt::Display for SpanSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, declaration) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{declaration}")?;
        }
        Ok(())
    }
}

impl<'a> IntoIterator for &'a SpanSet {
    type Item = &'a Declaration;
    type IntoIter = slice::Iter<'a, Declaration>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Extend<Declaration> for SpanSet {
    fn extend<I: IntoIterator<Item = Declaration>>(&mut self, declarations: I) {
        self.declarations.extend(declarations);
    }
}

impl FromIterator<Declaration> for SpanSet {
    fn from_iter<I: IntoIterator<Item = Declaration>>(declarations: I) -> Self {
        Self {
            declarations: declarations.into_iter().collect(),
        }
    }
}
