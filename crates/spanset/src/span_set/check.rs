//! Whether what is touched was declared.

use crate::undeclared::{Denial, Place};
use crate::{Access, Declaration, End, Key, Scope, Span, SpanSet, Timestamp, UndeclaredAccess};

/// # Checks
///
/// A declaration without timestamp allows whatever its access covers (a write covers reads);
/// `read@T` allows reads at or below `T`; `write@T` allows reads at any timestamp and writes at or
/// above `T`; an access without timestamp is allowed by declarations without one alone. The
/// declarations that allow an access may cover its span piece by piece, in any order. O(n) where
/// the pieces of one span come in ascending order, as after
/// [`sort_and_dedup`](Self::sort_and_dedup); O(n * pieces) else.
impl SpanSet {
    /// Checks that an access to `span` as of every timestamp was declared.
    ///
    /// # Errors
    ///
    /// [`UndeclaredAccess`], if some key of `span` is in no declaration that allows it.
    pub fn check_allowed(
        &self,
        access: Access,
        scope: Scope,
        span: &Span,
    ) -> Result<(), UndeclaredAccess> {
        self.check(Touch::new(access, scope, None), span)
    }

    /// Checks that an access to the global `span` as of `at` was declared.
    ///
    /// # Errors
    ///
    /// [`UndeclaredAccess`], if some key of `span` is in no declaration that allows it.
    pub fn check_allowed_at(
        &self,
        access: Access,
        span: &Span,
        at: Timestamp,
    ) -> Result<(), UndeclaredAccess> {
        self.check(Touch::new(access, Scope::Global, Some(at)), span)
    }

    /// Checks that an access, as of every timestamp, to the position just below `end` was declared:
    /// what a reverse seek to an exclusive end touches. A range that ends at `end` covers it, and
    /// so does any other span that starts below `end` and reaches it.
    ///
    /// # Errors
    ///
    /// [`UndeclaredAccess`], if no declaration that allows it reaches up to `end`.
    pub fn check_allowed_below(
        &self,
        access: Access,
        scope: Scope,
        end: End<'_>,
    ) -> Result<(), UndeclaredAccess> {
        self.check_below(Touch::new(access, scope, None), end)
            .map(drop)
    }

    /// As [`check_allowed_below`](Self::check_allowed_below), in the global scope, as of `at`.
    ///
    /// # Errors
    ///
    /// [`UndeclaredAccess`], if no declaration that allows it reaches up to `end`.
    pub fn check_allowed_below_at(
        &self,
        access: Access,
        end: End<'_>,
        at: Timestamp,
    ) -> Result<(), UndeclaredAccess> {
        self.check_below(Touch::new(access, Scope::Global, Some(at)), end)
            .map(drop)
    }
}

/// What an access does, its place apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) access: Access,
    pub(crate) scope: Scope,
    pub(crate) at: Option<Timestamp>,
}

impl Touch {
    pub(crate) const fn new(access: Access, scope: Scope, at: Option<Timestamp>) -> Self {
        Self { access, scope, at }
    }

    fn allowed_by(self, declaration: &Declaration) -> bool {
        declaration.scope() == self.scope && declaration.allows(self.access, self.at)
    }
}

/// A longest stretch of keys of which each is in a declaration that allows one touch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'s> {
    start: &'s Key,
    end: End<'s>,
}

impl Run<'_> {
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.start <= key && End::Before(key) < self.end
    }
}

impl SpanSet {
    fn check(&self, touch: Touch, span: &Span) -> Result<(), UndeclaredAccess> {
        let reached = self.reach_up(touch, span.floor(), span.end());
        if reached >= span.end() {
            return Ok(());
        }
        Err(
            self.deny(touch, Place::Span(span.clone()), reached, |declared| {
                declared.floor() <= reached && reached < declared.end()
            }),
        )
    }

    /// Checks one key, and gives the span that allows it. O(n); allocates nothing unless it denies.
    pub(crate) fn check_key(&self, touch: Touch, key: &Key) -> Result<&Span, UndeclaredAccess> {
        let covers = |declared: &Span| declared.contains_key(key);
        self.find(touch, covers).ok_or_else(|| {
            let place = Place::Span(Span::point(key.clone()));
            self.deny(touch, place, End::Before(key), covers)
        })
    }

    /// Checks the position just below `end`, and gives the span that allows it. O(n), as
    /// [`check_key`](Self::check_key).
    pub(crate) fn check_below(
        &self,
        touch: Touch,
        end: End<'_>,
    ) -> Result<&Span, UndeclaredAccess> {
        let covers = |declared: &Span| declared.floor() < end && end <= declared.end();
        self.find(touch, covers)
            .ok_or_else(|| self.deny(touch, Place::below(end), end, covers))
    }

    /// The run around a span that is declared for it.
    pub(crate) fn run_around<'s>(&'s self, touch: Touch, declared: &'s Span) -> Run<'s> {
        Run {
            start: self.reach_down(touch, declared.start()),
            end: self.reach_up(touch, declared.end(), End::Unbounded),
        }
    }

    fn find(&self, touch: Touch, covers: impl Fn(&Span) -> bool) -> Option<&Span> {
        self.allowing(touch)
            .map(Declaration::span)
            .find(|span| covers(span))
    }

    fn allowing(&self, touch: Touch) -> impl Iterator<Item = &Declaration> {
        self.iter().filter(move |d| touch.allowed_by(d))
    }

    /// How far up the keys from `from` on are in allowing declarations without a gap; once that is
    /// `enough`, it stops looking. A pass over the list takes all pieces that come in ascending
    /// order.
    fn reach_up<'a>(&'a self, touch: Touch, from: End<'a>, enough: End<'_>) -> End<'a> {
        let mut reached = from;
        loop {
            let before = reached;
            for span in self.allowing(touch).map(Declaration::span) {
                if reached >= enough {
                    return reached;
                }
                if span.floor() <= reached && reached < span.end() {
                    reached = span.end();
                }
            }
            if reached == before {
                return reached;
            }
        }
    }

    /// How far down the keys below `from` are in allowing declarations without a gap. Passes over
    /// the list from the back, for the same reason.
    fn reach_down<'a>(&'a self, touch: Touch, from: &'a Key) -> &'a Key {
        let mut reached = from;
        loop {
            let before = reached;
            for declaration in self.iter().rev().filter(|d| touch.allowed_by(d)) {
                let span = declaration.span();
                if span.start() < reached && End::Before(reached) <= span.end() {
                    reached = span.start();
                }
            }
            if reached == before {
                return reached;
            }
        }
    }

    /// The denial of `place`, of which nothing from `from` on is allowed; `covers` says which
    /// declarations hold that spot all the same.
    fn deny(
        &self,
        touch: Touch,
        place: Place,
        from: End<'_>,
        covers: impl Fn(&Span) -> bool,
    ) -> UndeclaredAccess {
        let in_scope = || self.iter().filter(|d| d.scope() == touch.scope);
        let holding = in_scope().find(|d| covers(d.span()));
        let nearest = holding.or_else(|| {
            let below = in_scope()
                .filter(|d| d.span().floor() < from)
                .max_by(|a, b| a.span().end().cmp(&b.span().end()));
            let above = in_scope()
                .filter(|d| d.span().floor() >= from)
                .min_by(|a, b| a.span().start().cmp(b.span().start()));
            nearer(from, below, above)
        });
        let rest = match &place {
            Place::Span(span) if span.floor() < from => Some(from),
            _ => None,
        };
        UndeclaredAccess::new(Denial {
            access: touch.access,
            scope: touch.scope,
            timestamp: touch.at,
            first: rest.and_then(End::key_above),
            place,
            nearest: nearest.cloned(),
        })
    }
}

/// Which of the declarations next below and next above `from` is nearer: the one whose edge begins
/// with more of the same bytes, as byte strings have no other distance.
fn nearer<'a>(
    from: End<'_>,
    below: Option<&'a Declaration>,
    above: Option<&'a Declaration>,
) -> Option<&'a Declaration> {
    let shared = |edge: End<'_>| match (from.key(), edge.key()) {
        (Some(a), Some(b)) => a.iter().zip(b).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    match (below, above) {
        (Some(below), Some(above)) => {
            let closer = shared(above.span().floor()) > shared(below.span().end());
            Some(if closer { above } else { below })
        }
        (below, above) => below.or(above),
    }
}
