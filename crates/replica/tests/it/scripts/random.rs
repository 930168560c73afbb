//! Stories that nobody wrote: whatever happens, in the end nothing is left.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::run::Run;
use super::transcript::Transcript;

/// What to do next; an index chooses one of those that it can be done to.
#[derive(Debug, Clone)]
enum Step {
    Send(String),
    To(&'static str, Index),
    Proposed(&'static str, Index),
    Say(String),
}

fn key() -> impl Strategy<Value = char> {
    proptest::char::range('a', 'f')
}

fn span() -> impl Strategy<Value = String> {
    let keys = select(vec![
        ("a", "b"),
        ("a", "d"),
        ("b", "c"),
        ("b", "g"),
        ("c", "e"),
        ("a", "g"),
    ]);
    keys.prop_map(|(start, end)| format!("{start}..{end}"))
}

fn request() -> impl Strategy<Value = String> {
    prop_oneof![
        key().prop_map(|key| format!("get {key}")),
        (key(), 0..3).prop_map(|(key, value)| format!("put {key} {value}")),
        (key(), 0..3).prop_map(|(key, value)| format!("put {key} 3 if {value}")),
        key().prop_map(|key| format!("delete {key}")),
        span().prop_map(|span| format!("scan {span}")),
        (span(), 1..3).prop_map(|(span, limit)| format!("scan {span} limit {limit}")),
        (span(), 1..3).prop_map(|(span, limit)| format!("rscan {span} limit {limit}")),
        span().prop_map(|span| format!("delete {span}")),
        (span(), 90..140).prop_map(|(span, at)| format!("confirm {span} since {at}")),
    ]
}

fn batch() -> impl Strategy<Value = String> {
    let requests = prop::collection::vec(request(), 1..4);
    let options = select(vec![
        "",
        ", patient",
        ", to r0",
        ", at 110",
        ", at 130",
        ", at 300",
    ]);
    (requests, options).prop_map(|(requests, options)| requests.join(", ") + options)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => batch().prop_map(Step::Send),
        1 => key().prop_map(|key| Step::Send(format!("split {key}"))),
        3 => (select(vec!["cancel", "leave"]), any::<Index>()).prop_map(|(what, whom)| Step::To(what, whom)),
        6 => (select(vec!["apply", "apply", "fail", "lose", "when pinned apply"]), any::<Index>())
            .prop_map(|(what, whose)| Step::Proposed(what, whose)),
        2 => select(vec!["tick 1s", "tick 6s", "collect 105", "engine fails to pin", "engine panics when read",
            "engine fails to apply", "engine refuses to apply", "latches"])
            .prop_map(|what| Step::Say(what.to_owned())),
    ]
}

/// Tells a story, and then lets all that is in flight be applied.
fn tell(transcript: &Transcript, options: &str, steps: &[Step]) {
    let mut run = Run::new(transcript.clone());
    run.line(&format!("store: {options}"));
    for (number, step) in steps.iter().enumerate() {
        let chosen = |index: &Index, names: Vec<String>| {
            (!names.is_empty()).then(|| index.get(&names).clone())
        };
        match step {
            Step::Send(sent) => run.line(&format!("n{number}: {sent}")),
            Step::Say(line) => run.line(line),
            Step::To(what, index) => {
                if let Some(name) = chosen(index, run.in_flight()) {
                    run.line(&format!("{what} {name}"));
                }
            }
            Step::Proposed(what, index) => {
                if let Some(name) = chosen(index, run.proposed()) {
                    run.line(&format!("{what} {name}"));
                }
            }
        }
    }
    run.pin();
    while let Some(name) = run.proposed().first() {
        run.line(&format!("apply {name}"));
    }
    run.end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_happens_nothing_is_left(
        options in select(vec!["slow after 2s, stuck after 10s", "split at c, slow after 2s, stuck after 10s",
            "reads release early, in flight 5", "remembers 2 reads, split at b d"]),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let transcript = Transcript::default();
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tell(&transcript, options, &steps)));
        prop_assert!(told.is_ok(), "{}", transcript.text());
    }
}
