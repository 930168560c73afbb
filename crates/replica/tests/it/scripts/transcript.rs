//! Makes a transcript of a store's events.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use regex::Regex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// The text so far. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Transcript {
    state: Arc<Mutex<State>>,
    plain: Arc<Plain>,
}

#[derive(Default)]
struct State {
    text: String,
    /// Lines of events so far.
    events: usize,
    /// Whom the last one was about, and what it was.
    last: (String, String),
    /// The names of requests by range and number.
    names: BTreeMap<(String, String), String>,
    /// Whether there is, or was, more than one range.
    ranges: bool,
}

/// The fields of an event or span, as text, in order.
#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

/// The spans of requests are called so, and have the field `name`.
pub(super) const SPAN: &str = "story";

impl Transcript {
    /// An empty transcript, and what adds to it all that is emitted.
    pub(super) fn new() -> (Self, impl Subscriber + Send + Sync) {
        let transcript = Self::default();
        let subscriber = Registry::default().with(transcript.clone());
        (transcript, subscriber)
    }

    pub(super) fn text(&self) -> String {
        self.state.lock().text.clone()
    }

    /// Adds a line.
    pub(super) fn line(&self, line: &str) {
        let mut state = self.state.lock();
        state.text.push_str(line.trim_end());
        state.text.push('\n');
    }

    /// Adds what happened to somebody.
    pub(super) fn event(&self, who: &str, what: &str, details: &str) {
        {
            let mut state = self.state.lock();
            state.events += 1;
            state.last = (who.to_owned(), what.to_owned());
        }
        let details = self.plain.rewrite(details);
        self.line(&format!("{who:<7} {what:<10} {details}"));
    }

    /// How many events there have been.
    pub(super) fn events(&self) -> usize {
        self.state.lock().events
    }

    /// Whether the last event was that.
    pub(super) fn ends_with(&self, who: &str, what: &str) -> bool {
        let last = &self.state.lock().last;
        last.0 == who && last.1 == what
    }

    /// From here on lines say which range they are about.
    pub(super) fn tell_ranges_apart(&self) {
        self.state.lock().ranges = true;
    }

    /// What a request of a range is called in the story.
    pub(super) fn name(&self, range: &str, request: &str) -> String {
        let state = self.state.lock();
        let name = state.names.get(&(range.to_owned(), request.to_owned()));
        name.cloned()
            .unwrap_or_else(|| format!("request {request}"))
    }

    /// Forgets who had which number, as there are new latch managers.
    pub(super) fn forget_names(&self) {
        self.state.lock().names.clear();
    }

    fn tell(&self, who: &str, range: &str, level: Level, mut fields: Fields) {
        let message = fields.take("message");
        self.rename(who, range, &mut fields);
        fields.take("range");
        let place = match self.state.lock().ranges && !range.is_empty() {
            true => format!(" in {range}"),
            false => String::new(),
        };
        if level <= Level::WARN {
            let details = format!("{message}{place}: {}", fields.rest());
            return self.event(who, "WARNING", &details);
        }
        let mut details = details(&message, &mut fields) + &place;
        for field in ["error", "cause"] {
            let error = fields.take(field);
            if !error.is_empty() {
                let separator = if details.is_empty() { "" } else { ": " };
                details = details + separator + &error;
            }
        }
        // What is not known here is told as it is.
        let details = format!("{details} {}", fields.rest());
        self.event(who, &message, details.trim());
    }

    /// Gives requests their names instead of their numbers, and notes that of whom it is about.
    fn rename(&self, who: &str, range: &str, fields: &mut Fields) {
        if let Some(request) = fields.get("request")
            && who != STORE
        {
            let key = (range.to_owned(), request.to_owned());
            self.state.lock().names.insert(key, who.to_owned());
        }
        for (field, request) in &mut fields.0 {
            if ["request", "on", "head", "parked_on"].contains(field) {
                *request = self.name(range, request);
            }
        }
    }
}

/// What an event says besides its name, its range and an error.
fn details(message: &str, fields: &mut Fields) -> String {
    match message {
        "declared" => fields.take("spans"),
        "sequenced" | "latched" => {
            fields.take("request");
            String::new()
        }
        "waits" => {
            fields.take("request");
            let (on, head) = (fields.take("on"), fields.take("head"));
            let head = match head == on {
                true => String::new(),
                false => format!(", and {head} is the head"),
            };
            let (wants, conflict) = (fields.take("wants"), fields.take("conflict"));
            format!("for {on}{head}: {wants} behind {conflict}")
        }
        "pushed" => format!("from {} to {}", fields.take("from"), fields.take("to")),
        "evaluated" => {
            // Shown as what the client gets.
            fields.take("responses");
            let reads = fields.take("reads");
            // A list in brackets.
            let reads = match &reads[1..reads.len() - 1] {
                "" => String::new(),
                reads => format!(", read {reads}"),
            };
            let writes = match fields.take("writes").as_str() {
                "" | "0" => String::new(),
                "1" => ", 1 write".to_owned(),
                writes => format!(", {writes} writes"),
            };
            format!("at {}{reads}{writes}", fields.take("at"))
        }
        "recorded" => format!("{}@{}", fields.take("span"), fields.take("at")),
        "split" => format!("off {} at {}", fields.take("new"), fields.take("key")),
        _ => match fields.take("at") {
            at if at.is_empty() => at,
            at => format!("at {at}"),
        },
    }
}

/// Who it is when it is no request.
const STORE: &str = "store";

impl<S> Layer<S> for Transcript
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let span = context.span(id).expect("it is new");
        span.extensions_mut().insert(fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let level = *event.metadata().level();
        if level > Level::DEBUG || !event.metadata().target().starts_with("spanlatch") {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut who = STORE.to_owned();
        let mut range = fields.get("range").map(str::to_owned);
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let of_span = extensions.get::<Fields>().expect("each span has some");
            if span.name() == SPAN {
                who = of_span.get("name").expect("a name").to_owned();
            }
            range = range.or_else(|| of_span.get("range").map(str::to_owned));
        }
        self.tell(&who, range.as_deref().unwrap_or_default(), level, fields);
    }
}

impl Fields {
    fn get(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(field, _)| *field == name);
        field.map(|(_, value)| value.as_str())
    }

    /// Removes a field; empty if it is not there.
    fn take(&mut self, name: &str) -> String {
        let position = self.0.iter().position(|(field, _)| *field == name);
        position.map(|at| self.0.remove(at).1).unwrap_or_default()
    }

    /// All that are left.
    fn rest(&self) -> String {
        let fields = self.0.iter().map(|(name, value)| format!("{name}={value}"));
        Vec::from_iter(fields).join(", ")
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }
}

/// Rewrites spans and timestamps as scripts write them.
struct Plain(Vec<(Regex, &'static str)>);

impl Plain {
    const PATTERNS: [(&str, &str); 7] = [
        (r"\b0\.0*(\d+),0\b", "$1"),
        (r"\b0\.0*(\d+),(\d+)\b", "$1+$2"),
        (r#"\["([^"]*)"\]"#, "$1"),
        (r#"\["([^"]*)", "([^"]*)"\)"#, "$1..$2"),
        (r#"\["([^"]*)", \.\.\)"#, "$1.."),
        (r#"b"([^"]*)""#, "$1"),
        (r"((?:read|write) \S+) at (\d)", "$1@$2"),
    ];

    fn rewrite(&self, text: &str) -> String {
        let rewrite = |text: String, (pattern, by): &(Regex, &str)| {
            pattern.replace_all(&text, *by).into_owned()
        };
        self.0.iter().fold(text.to_owned(), rewrite)
    }
}

impl Default for Plain {
    fn default() -> Self {
        let compile = |(pattern, by)| (Regex::new(pattern).expect("a pattern"), by);
        Self(Self::PATTERNS.map(compile).into())
    }
}
