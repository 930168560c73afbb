//! Keys and values as bytes, in the order of versions.

use bytes::Bytes;
use spanset::{End, Key, Timestamp};

use crate::{StoreBuilder, Value, Version};

/// The first byte of what is kept: marks, above them versions, and above these records.
const MARKS: u8 = 0;
const VERSIONS: u8 = 1;
const RECORDS: u8 = 2;

/// Where the versions begin, and where they end.
pub(super) const FIRST: [u8; 1] = [VERSIONS];
pub(super) const END: [u8; 1] = [VERSIONS + 1];

/// Fjall keeps the length of a key in 16 bits.
pub(super) const LONGEST: usize = u16::MAX as usize;

/// No record is as long as can be, so that none is the first part of a longer bound.
pub(super) const LONGEST_RECORD: usize = LONGEST - 1;

/// A store's keys fit, even if all their bytes are zero.
const _: () = assert!(1 + 2 * StoreBuilder::MAX_KEY_BYTES + 2 + TIMESTAMP <= LONGEST);

/// A zero byte of a key is followed by this, so that it is above the end of a key and below all other
/// bytes.
const ESCAPED: u8 = 0xff;
/// A key ends with a zero byte and this.
const KEY_ENDS: u8 = 0;
/// No version has this in that place; so it is above all versions of a key, and below those of the next.
const AFTER_KEY: u8 = 1;

const TIMESTAMP: usize = 12;

/// The name of a mark.
pub(super) fn mark(name: &str) -> Vec<u8> {
    let mut encoded = vec![MARKS];
    encoded.extend_from_slice(name.as_bytes());
    encoded
}

/// The version of `key` at `at`: above all versions of lower keys, and above the later ones of `key`.
pub(super) fn version(key: &[u8], at: Timestamp) -> Vec<u8> {
    let mut encoded = before(key);
    encoded.extend_from_slice(&(!at.wall).to_be_bytes());
    encoded.extend_from_slice(&(!at.logical).to_be_bytes());
    encoded
}

/// Below all versions of `key`, and above those of lower keys.
pub(super) fn before(key: &[u8]) -> Vec<u8> {
    ending(key, KEY_ENDS)
}

/// Above all versions of `key`, and below those of higher keys.
pub(super) fn after(key: &[u8]) -> Vec<u8> {
    ending(key, AFTER_KEY)
}

/// Above all versions of the keys before `end`, and below those of the others.
pub(super) fn end(end: End<'_>) -> Vec<u8> {
    match end {
        End::Before(key) => before(key),
        End::At(key) => after(key),
        End::Unbounded => END.to_vec(),
    }
}

fn ending(key: &[u8], end: u8) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(key.len() + 3 + TIMESTAMP);
    encoded.push(VERSIONS);
    for &byte in key {
        encoded.push(byte);
        if byte == 0 {
            encoded.push(ESCAPED);
        }
    }
    encoded.extend_from_slice(&[0, end]);
    encoded
}

/// The record of `key`: in the order of their keys.
pub(super) fn record(key: &[u8]) -> Vec<u8> {
    [&[RECORDS], key].concat()
}

/// The key of a record. Shares its bytes.
pub(super) fn decode_record(encoded: &Bytes) -> Key {
    encoded.slice(1..)
}

/// The key and the timestamp of a version, or nothing if `encoded` is none. Shares the bytes of a key
/// that has no zero byte.
pub(super) fn decode_version(encoded: &Bytes) -> Option<(Key, Timestamp)> {
    let (rest, timestamp) = encoded.split_last_chunk::<TIMESTAMP>()?;
    let (&VERSIONS, rest) = rest.split_first()? else {
        return None;
    };
    let (escaped, &[0, KEY_ENDS]) = rest.split_last_chunk()? else {
        return None;
    };
    let key = if escaped.contains(&0) {
        Key::from(unescape(escaped)?)
    } else {
        encoded.slice_ref(escaped)
    };
    Some((key, inverted(*timestamp)))
}

fn unescape(escaped: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        if byte == 0 && bytes.next() != Some(&ESCAPED) {
            return None;
        }
        key.push(byte);
    }
    Some(key)
}

fn inverted(bytes: [u8; TIMESTAMP]) -> Timestamp {
    let upright = timestamp_of(bytes);
    Timestamp::new(!upright.wall, !upright.logical)
}

fn timestamp_of([a, b, c, d, e, f, g, h, rest @ ..]: [u8; TIMESTAMP]) -> Timestamp {
    Timestamp::new(
        u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        u32::from_be_bytes(rest),
    )
}

/// A timestamp that is a mark's value.
pub(super) fn timestamp(at: Timestamp) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(TIMESTAMP);
    encoded.extend_from_slice(&at.wall.to_be_bytes());
    encoded.extend_from_slice(&at.logical.to_be_bytes());
    encoded
}

/// The timestamp that is a mark's value, or nothing if `encoded` is none.
pub(super) fn decode_timestamp(encoded: &[u8]) -> Option<Timestamp> {
    encoded.try_into().ok().map(timestamp_of)
}

/// What the first byte of a version's value says.
const DELETED: u8 = 0;
const PRESENT: u8 = 1;

/// What a version holds.
pub(super) fn value(value: Option<&Value>) -> Vec<u8> {
    match value {
        None => vec![DELETED],
        Some(value) => [&[PRESENT], value.as_ref()].concat(),
    }
}

/// The version at `timestamp` that holds `encoded`, or nothing if that is no value. Shares its bytes.
pub(super) fn decode_value(timestamp: Timestamp, encoded: &Bytes) -> Option<Version> {
    let value = match (encoded.first()?, encoded.len()) {
        (&DELETED, 1) => None,
        (&PRESENT, _) => Some(encoded.slice(1..)),
        _ => return None,
    };
    Some(Version { timestamp, value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few different bytes, those that mean something among them, so that prefixes are common.
    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop::sample::select(vec![0, 1, 2, 0x61, 0xfe, 0xff]);
        prop_oneof![
            prop::collection::vec(byte, 0..5),
            prop::collection::vec(any::<u8>(), 0..20),
        ]
    }

    fn any_timestamp() -> impl Strategy<Value = Timestamp> {
        let wall = prop_oneof![0..3u64, u64::MAX - 2..=u64::MAX, any::<u64>()];
        let logical = prop_oneof![0..3u32, u32::MAX - 2..=u32::MAX, any::<u32>()];
        (wall, logical).prop_map(|(wall, logical)| Timestamp::new(wall, logical))
    }

    proptest! {
        #[test]
        fn versions_are_in_the_order_of_keys_and_the_newest_first(
            (a, b) in (any_key(), any_key()),
            (at_a, at_b) in (any_timestamp(), any_timestamp()),
        ) {
            let expected = a.cmp(&b).then(at_b.cmp(&at_a));
            prop_assert_eq!(version(&a, at_a).cmp(&version(&b, at_b)), expected);
        }

        #[test]
        fn the_bounds_of_a_key_enclose_its_versions_and_no_others(
            (a, b) in (any_key(), any_key()),
            at in any_timestamp(),
        ) {
            let inside = before(&a) <= version(&b, at) && version(&b, at) < after(&a);
            prop_assert_eq!(inside, a == b);
            prop_assert!(FIRST.as_slice() <= before(&a).as_slice());
            prop_assert!(after(&a).as_slice() < END.as_slice());
        }

        #[test]
        fn a_version_is_decoded_as_it_was(key in any_key(), at in any_timestamp()) {
            let decoded = decode_version(&version(&key, at).into());
            prop_assert_eq!(decoded, Some((Key::from(key.clone()), at)));
            prop_assert_eq!(decode_timestamp(&timestamp(at)), Some(at));
            prop_assert_eq!(decode_record(&record(&key).into()), key);
        }

        #[test]
        fn a_value_is_decoded_as_it_was(bytes in prop::option::of(any_key()), at in any_timestamp()) {
            let bytes = bytes.map(Value::from);
            let decoded = decode_value(at, &value(bytes.as_ref()).into()).unwrap();
            prop_assert_eq!((decoded.timestamp, decoded.value), (at, bytes));
        }

        #[test]
        fn whatever_bytes_come_are_a_version_or_none(bytes in any_key()) {
            if let Some((key, at)) = decode_version(&bytes.clone().into()) {
                prop_assert_eq!(version(&key, at), bytes);
            }
        }
    }

    #[test]
    fn a_mark_and_a_record_are_no_versions() {
        assert!(mark("a name of some length").as_slice() < FIRST.as_slice());
        assert!(record(b"").as_slice() >= END.as_slice());
        for encoded in [mark("a name of some length"), record(&[0; 20])] {
            assert_eq!(decode_version(&encoded.into()), None);
        }
    }
}
