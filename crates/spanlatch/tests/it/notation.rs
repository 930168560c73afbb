//! Span sets as one writes them: `R [a,c)@5; W b; local W x`.

use spanset::{Span, SpanSet, Timestamp};

/// Parses declarations separated by `;`: an optional `local`, `R` or `W`, a key or a range (`[a,c)`, or
/// `[a,..)` without an upper bound), and an optional `@` with a wall time.
pub(crate) fn spans(text: &str) -> SpanSet {
    let mut set = SpanSet::new();
    for declaration in text.split(';').map(str::trim) {
        let (local, rest) = match declaration.strip_prefix("local ") {
            Some(rest) => (true, rest),
            None => (false, declaration),
        };
        let (access, rest) = rest.split_once(' ').expect("an access, a blank, a span");
        let (span, timestamp) = match rest.split_once('@') {
            Some((span, wall)) => (span, Some(at(wall.parse().expect("a wall time")))),
            None => (rest, None),
        };
        let span = span_of(span);
        match (local, access, timestamp) {
            (false, "R", None) => set.read(span),
            (false, "R", Some(timestamp)) => set.read_at(span, timestamp),
            (false, "W", None) => set.write(span),
            (false, "W", Some(timestamp)) => set.write_at(span, timestamp),
            (true, "R", None) => set.read_local(span),
            (true, "W", None) => set.write_local(span),
            _ => panic!("not a declaration: {declaration}"),
        }
    }
    set
}

pub(crate) fn at(wall: u64) -> Timestamp {
    Timestamp::new(wall, 0)
}

fn span_of(text: &str) -> Span {
    let Some(bounds) = text.strip_prefix('[') else {
        return Span::point(text.to_owned());
    };
    let bounds = bounds.strip_suffix(')').expect("a closing parenthesis");
    match bounds.split_once(',').expect("two bounds") {
        (start, "..") => Span::starting_at(start.to_owned()),
        (start, end) => Span::range(start.to_owned(), end.to_owned()).expect("start < end"),
    }
}
