//! Defines the error codes: one list, one page each under `docs/errors/`, one status table in
//! `server`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($variant:ident = $word:literal, $summary:literal;)+) => {
        /// Error codes of calls, requests and server starts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode { $(#[doc = $summary] $variant),+ }

        impl ErrorCode {
            /// Every error code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the code as it appears in responses and names its page.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Returns a one-line summary.
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary),+ }
            }
        }

        impl FromStr for ErrorCode {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                match word { $($word => Ok(Self::$variant),)+ _ => Err(format!("no error code `{word}`")) }
            }
        }
    };
}

codes! {
    UnknownTool = "unknown_tool", "The tool does not exist for this caller.";
    InvalidArguments = "invalid_arguments", "The arguments do not match the tool's input schema.";
    Denied = "denied", "The policy denies this call.";
    ApprovalRequired = "approval_required", "This interface cannot ask for an approval.";
    ApprovalDenied = "approval_denied", "A person denied the call.";
    ApprovalExpired = "approval_expired", "The approval expired before anybody decided.";
    ApprovalVoid = "approval_void", "The call, the tool or the rights changed since.";
    InvalidRequest = "invalid_request", "The request is malformed.";
    NotFound = "not_found", "The requested object does not exist for this caller.";
    Unauthenticated = "unauthenticated", "The credential is missing or invalid.";
    Forbidden = "forbidden", "The credential lacks the required right.";
    ForbiddenOrigin = "forbidden_origin", "The Host or Origin of the request is not allowed.";
    TooLarge = "too_large", "A size limit was exceeded.";
    RateLimited = "rate_limited", "The rate limit was exceeded.";
    Busy = "busy", "The server has too many concurrent calls; try again.";
    Timeout = "timeout", "The tool did not respond in time.";
    Cancelled = "cancelled", "The caller cancelled the call.";
    UpstreamFailed = "upstream_failed", "The tool's source returned a failure.";
    UpstreamLost = "upstream_lost", "The connection to the tool's source was lost during the call.";
    CredentialMissing = "credential_missing", "The tool's source has no credential for this call.";
    Blocked = "blocked", "The target address or path is not allowed.";
    RecordUnavailable = "record_unavailable", "The call could not be recorded, so it did not run.";
    StoreUnavailable = "store_unavailable", "The store is unavailable.";
    Conflict = "conflict", "Another request changed the object first.";
    ShuttingDown = "shutting_down", "The server is stopping.";
    InvalidConfig = "invalid_config", "The configuration is invalid.";
    Internal = "internal", "An internal error of Toolkeep.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn words_agree_with_serde() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{code}\""));
            assert_eq!(code.as_str().parse::<ErrorCode>().unwrap(), *code);
        }
    }
}
