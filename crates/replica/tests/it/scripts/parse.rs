//! What scripts say, as what a store understands.

use std::time::Duration;

use spanlatch::OnPoison;
use spanlatch_replica::{Batch, RangeId, Request, Value};
use spanset::{EmptySpan, Key, Span, Timestamp};

/// What a script sends under a name.
pub(super) enum Sent {
    /// A batch, to the store or to one replica.
    Batch(Batch, Option<RangeId>),
    /// A split at a key.
    Split(Key),
}

/// Reads what comes after a name.
///
/// # Errors
///
/// A span that is inverted or empty: such a request cannot be made.
pub(super) fn sent(text: &str) -> Result<Sent, EmptySpan> {
    let (mut batch, mut to) = (Batch::new(), None);
    for item in text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let words: Vec<_> = item.split_whitespace().collect();
        match words[..] {
            ["split", key] => return Ok(Sent::Split(self::key(key))),
            ["at", at] => batch = batch.at(timestamp(at)),
            ["to", range] => to = Some(RangeId(number(range.trim_start_matches('r')))),
            ["patient"] => batch = batch.on_poison(OnPoison::Wait),
            ["nothing"] => {}
            _ => batch.push(request(&words)?),
        }
    }
    Ok(Sent::Batch(batch, to))
}

fn request(words: &[&str]) -> Result<Request, EmptySpan> {
    Ok(match *words {
        ["get", key] => Request::get(self::key(key)),
        ["put", key, value] => Request::put(self::key(key), self::value(value)),
        ["put", key, value, "if", expected] => {
            let expected = Some(expected).filter(|word| *word != "nothing");
            Request::conditional_put(
                self::key(key),
                expected.map(self::value),
                self::value(value),
            )
        }
        ["add", key, by] => Request::increment(self::key(key), number(by)),
        ["delete", span] if span.contains("..") => Request::delete_range(self::span(span)?),
        ["delete", key] => Request::delete(self::key(key)),
        ["scan", span] => Request::scan(self::span(span)?),
        ["rscan", span] => Request::reverse_scan(self::span(span)?),
        ["confirm", span, "since", at] if span.contains("..") => {
            Request::confirm(self::span(span)?, timestamp(at))
        }
        ["confirm", key, "since", at] => {
            Request::confirm(Span::point(self::key(key)), timestamp(at))
        }
        [ref request @ .., "limit", limit] => self::request(request)?.limited(number(limit)),
        _ => panic!("not a request: {}", words.join(" ")),
    })
}

pub(super) fn key(word: &str) -> Key {
    Key::copy_from_slice(word.as_bytes())
}

pub(super) fn value(word: &str) -> Value {
    Value::copy_from_slice(word.as_bytes())
}

fn span(word: &str) -> Result<Span, EmptySpan> {
    match word.split_once("..") {
        Some((start, "")) => Ok(Span::starting_at(key(start))),
        Some((start, end)) => Span::range(key(start), key(end)),
        None => panic!("not a span: {word}"),
    }
}

/// `101`, or `101+2`.
pub(super) fn timestamp(word: &str) -> Timestamp {
    let (wall, logical) = word.split_once('+').unwrap_or((word, "0"));
    Timestamp::new(number(wall), number(logical))
}

pub(super) fn seconds(word: &str) -> Duration {
    Duration::from_secs(number(word.trim_end_matches('s')))
}

pub(super) fn number<N: std::str::FromStr>(word: &str) -> N {
    let number = word.parse().ok();
    number.unwrap_or_else(|| panic!("not a number: {word}"))
}
