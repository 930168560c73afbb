//! What a request is called, by whoever made it.

use std::fmt;
use std::sync::Arc;

/// A name that is formatted only when it is shown.
#[derive(Clone)]
pub(crate) struct Label(pub(crate) Arc<dyn fmt::Display + Send + Sync>);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// As [`Display`](fmt::Display).
impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
