//! Keys and what else is asked for, as it stands in a URL.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use spanset::{Key, Span, Timestamp};

/// What is encoded: all but what a URL may have anywhere (RFC 3986, section 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Any bytes, as part of a URL.
pub(crate) fn encode(bytes: &[u8]) -> String {
    percent_encode(bytes, ENCODED).to_string()
}

/// The bytes that stand in a part of a URL.
///
/// # Errors
///
/// If a `%` is not followed by two hexadecimal digits.
pub(crate) fn decode(text: &str) -> Result<Key, String> {
    let is_hex = |digits: &[u8]| digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('%') {
        if !bytes.get(at + 1..at + 3).is_some_and(is_hex) {
            return Err(format!(
                "{text:?} is not percent-encoded: two hexadecimal digits must follow the % at position {at}"
            ));
        }
    }
    Ok(percent_decode_str(text).collect::<Vec<u8>>().into())
}

/// `name=value&name=value`, each name once, and only known ones.
#[derive(Debug)]
pub(crate) struct Query<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Query<'a> {
    /// # Errors
    ///
    /// If a name is not `known`, or comes twice.
    pub(crate) fn parse(query: Option<&'a str>, known: &[&str]) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for pair in query.unwrap_or("").split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                let known = known.join(", ");
                return Err(format!("there is no parameter {name:?}; there are {known}"));
            }
            if values.insert(name, value).is_some() {
                return Err(format!("parameter {name:?} is given twice"));
            }
        }
        Ok(Self(values))
    }

    /// From `start` (the lowest key) up to `end` (all), which is left out.
    pub(crate) fn span(&self) -> Result<Span, String> {
        let start = decode(self.0.get("start").unwrap_or(&""))?;
        match self.0.get("end") {
            None => Ok(Span::starting_at(start)),
            Some(end) => Span::range(start, decode(end)?).map_err(|error| error.to_string()),
        }
    }

    /// `limit`, from 1 to `max`, which is its default too.
    pub(crate) fn limit(&self, max: usize) -> Result<usize, String> {
        let Some(text) = self.0.get("limit") else {
            return Ok(max);
        };
        match text.parse() {
            Ok(limit) if (1..=max).contains(&limit) => Ok(limit),
            _ => Err(format!("limit {text:?} is not a number from 1 to {max}")),
        }
    }

    /// `at`: nanoseconds, and perhaps a comma and a counter, as a [timestamp](timestamp) is told.
    pub(crate) fn at(&self) -> Result<Option<Timestamp>, String> {
        let Some(text) = self.0.get("at") else {
            return Ok(None);
        };
        let (wall, logical) = text.split_once(',').unwrap_or((text, "0"));
        match (wall.parse(), logical.parse()) {
            (Ok(wall), Ok(logical)) => Ok(Some(Timestamp::new(wall, logical))),
            _ => Err(format!(
                "at {text:?} is not a timestamp: nanoseconds, or nanoseconds,counter"
            )),
        }
    }
}

/// As the parameter `at` takes it.
pub(crate) fn timestamp(at: Timestamp) -> String {
    format!("{},{}", at.wall, at.logical)
}
