//! What a client is told when it is not served: a status and one line of JSON.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use spanlatch_replica::{Action, Error};

/// Why a client is not served.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    error: String,
    action: Action,
}

impl Failure {
    /// The client would have to ask for something else.
    pub(crate) fn refused(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            action: Action::GiveUp,
        }
    }

    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Self::refused(StatusCode::BAD_REQUEST, error)
    }

    pub(crate) fn retried(mut self) -> Self {
        self.action = Action::Retry;
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::FutureTimestamp { .. } | Error::ZeroLimit { .. } | Error::KeyTooLong { .. } => {
                StatusCode::BAD_REQUEST
            }
            Error::BelowThreshold { .. } => StatusCode::GONE,
            Error::ValueTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Error::ConditionFailed { .. }
            | Error::NotAnInteger { .. }
            | Error::IncrementOverflow { .. }
            | Error::AlreadySplit { .. }
            | Error::NoTimestampLeft => StatusCode::CONFLICT,
            Error::KeyOutsideRange { .. } | Error::UnknownRange(_) => {
                StatusCode::MISDIRECTED_REQUEST
            }
            Error::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Error::Cancelled | Error::Stuck(_) | Error::ShuttingDown => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            // What stands behind the server has not answered in time, or not clearly.
            Error::Ambiguous(_) => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self {
            status,
            action: error.action(),
            error: error.to_string(),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let action = match self.action {
            Action::Retry => "retry",
            Action::GoElsewhere => "go elsewhere",
            Action::GiveUp => "give up",
            Action::FindOut => "find out",
        };
        let body = Json(json!({ "error": self.error, "action": action }));
        let mut response = (self.status, body).into_response();
        if self.action == Action::Retry {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
