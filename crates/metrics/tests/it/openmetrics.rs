//! A strict reader of OpenMetrics text, written from the specification (version 1.0.0) and not from the encoder.

use std::collections::BTreeMap;

/// Labels of a series.
pub(crate) type Labels = BTreeMap<String, String>;

/// One metric family of an exposition.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) help: String,
    pub(crate) unit: String,
    /// Each sample's name, labels and value.
    pub(crate) samples: Vec<(String, Labels, f64)>,
}

impl Family {
    /// The value of the only sample of that name with these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Labels = labels
            .iter()
            .map(|&(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        let mut found = self
            .samples
            .iter()
            .filter(|(n, l, _)| n == name && *l == labels);
        let (_, _, value) = found
            .next()
            .unwrap_or_else(|| panic!("no {name} {labels:?} in {self:?}"));
        assert!(found.next().is_none(), "two {name} {labels:?} in {self:?}");
        *value
    }
}

/// Reads a whole exposition, and panics at the first thing that the specification doesn't allow.
pub(crate) fn parse(text: &str) -> BTreeMap<String, Family> {
    let body = text
        .strip_suffix("# EOF\n")
        .unwrap_or_else(|| panic!("does not end with the end marker: {text:?}"));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in body.split_terminator('\n') {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, rest) = (words.next(), words.next(), words.next());
            let (Some(what), Some(name), Some(rest)) = (what, name, rest) else {
                panic!("not a descriptor: {line:?}");
            };
            assert!(is_name(name), "not a metric name: {line:?}");
            if current != name {
                assert!(
                    !families.contains_key(name),
                    "family is not contiguous: {line:?}"
                );
                name.clone_into(&mut current);
            }
            let family = families.entry(name.to_owned()).or_default();
            assert!(
                family.samples.is_empty(),
                "descriptor after samples: {line:?}"
            );
            let field = match what {
                "TYPE" => &mut family.kind,
                "HELP" => &mut family.help,
                "UNIT" => {
                    assert!(
                        name.ends_with(&format!("_{rest}")),
                        "name lacks its unit: {line:?}"
                    );
                    &mut family.unit
                }
                _ => panic!("unknown descriptor: {line:?}"),
            };
            assert!(field.is_empty(), "said twice: {line:?}");
            rest.clone_into(field);
        } else {
            let (name, labels, value) = sample(line);
            let family = families
                .get_mut(&current)
                .unwrap_or_else(|| panic!("sample before any descriptor: {line:?}"));
            let suffix = name
                .strip_prefix(current.as_str())
                .unwrap_or_else(|| panic!("sample of another family than {current}: {line:?}"));
            let allowed: &[&str] = match family.kind.as_str() {
                "counter" => &["_total"],
                "gauge" => &[""],
                "histogram" => &["_sum", "_count", "_bucket"],
                other => panic!("unknown type {other:?}"),
            };
            assert!(allowed.contains(&suffix), "wrong suffix: {line:?}");
            assert!(
                family.kind == "gauge" || value >= 0.0,
                "below zero: {line:?}"
            );
            assert!(
                !family
                    .samples
                    .iter()
                    .any(|(n, l, _)| *n == name && *l == labels),
                "series said twice: {line:?}"
            );
            family.samples.push((name, labels, value));
        }
    }
    for (name, family) in &families {
        assert!(
            !family.help.is_empty() && !family.kind.is_empty(),
            "{name} lacks help or type"
        );
        if family.kind == "histogram" {
            check_buckets(name, family);
        }
    }
    families
}

/// For each set of labels: bounds rise up to `+Inf`, counts never fall, and the last one is the count.
fn check_buckets(name: &str, family: &Family) {
    let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for (sample, labels, value) in &family.samples {
        if *sample == format!("{name}_bucket") {
            let mut labels = labels.clone();
            let bound = labels.remove("le").expect("a bucket has a bound");
            let bound = bound.replace("+Inf", "inf").parse().expect("a number");
            series.entry(labels).or_default().push((bound, *value));
        }
    }
    for (labels, buckets) in series {
        for pair in buckets.windows(2) {
            assert!(
                pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1,
                "{name} {labels:?}: {pair:?}"
            );
        }
        let labels: Vec<_> = labels
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        let count = family.value(&format!("{name}_count"), &labels);
        assert_eq!(
            buckets.last(),
            Some(&(f64::INFINITY, count)),
            "{name} {labels:?}"
        );
    }
}

/// `name{label="value",..} number`
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line
        .find(['{', ' '])
        .unwrap_or_else(|| panic!("not a sample: {line:?}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "not a metric name: {line:?}");
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest
                .split_once("=\"")
                .unwrap_or_else(|| panic!("not a label: {line:?}"));
            assert!(
                is_name(label) && !label.contains(':'),
                "not a label name: {line:?}"
            );
            let (value, after) =
                quoted(after).unwrap_or_else(|| panic!("unclosed or badly escaped: {line:?}"));
            assert!(
                labels.insert(label.to_owned(), value).is_none(),
                "label twice: {line:?}"
            );
            if let Some(after) = after.strip_prefix(',') {
                rest = after;
            } else {
                rest = after
                    .strip_prefix('}')
                    .unwrap_or_else(|| panic!("unclosed labels: {line:?}"));
                break;
            }
        }
    }
    let number = rest
        .strip_prefix(' ')
        .unwrap_or_else(|| panic!("no value: {line:?}"));
    let value = number
        .parse()
        .unwrap_or_else(|_| panic!("not a number: {line:?}"));
    (name.to_owned(), labels, value)
}

/// What stands before the closing quote, unescaped, and what comes after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            (_, c) => value.push(c),
        }
    }
}

fn is_name(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b':';
    name.bytes().next().is_some_and(letter) && name.bytes().all(|b| letter(b) || b.is_ascii_digit())
}
