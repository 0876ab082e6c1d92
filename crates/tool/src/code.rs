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
        pub enum Code { $(#[doc = $summary] $variant),+ }

        impl Code {
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

        impl FromStr for Code {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                match word { $($word => Ok(Self::$variant),)+ _ => Err(format!("no error code `{word}`")) }
            }
        }
    };
}

codes! {
    UnknownTool = "unknown_tool", "No tool of that name is there for this caller.";
    InvalidArguments = "invalid_arguments", "The arguments do not fit the tool's schema.";
    Denied = "denied", "The policy refuses this call.";
    ApprovalRequired = "approval_required", "The call needs an approval, and none can be given here.";
    ApprovalDenied = "approval_denied", "A person was asked to approve the call, and refused.";
    ApprovalExpired = "approval_expired", "Nobody approved the call in time.";
    ApprovalVoid = "approval_void", "What was approved is not what is there now.";
    InvalidRequest = "invalid_request", "The request itself cannot be read.";
    NotFound = "not_found", "There is nothing at this address.";
    Unauthenticated = "unauthenticated", "No credential, or one that does not hold.";
    Forbidden = "forbidden", "The credential does not carry this right.";
    ForbiddenOrigin = "forbidden_origin", "The Host or Origin of the request is not allowed.";
    TooLarge = "too_large", "A size limit was passed.";
    RateLimited = "rate_limited", "Too many calls in this time.";
    Busy = "busy", "Too many calls at once; try again.";
    Timeout = "timeout", "The tool did not answer in time.";
    Cancelled = "cancelled", "The caller gave the call up.";
    UpstreamFailed = "upstream_failed", "The tool's source answered with a failure.";
    UpstreamLost = "upstream_lost", "The tool's source went away during the call.";
    CredentialMissing = "credential_missing", "The tool's source has no credential for this call.";
    Blocked = "blocked", "The target address or path is not allowed.";
    RecordUnavailable = "record_unavailable", "The call could not be recorded, so it did not run.";
    StoreUnavailable = "store_unavailable", "The store does not answer.";
    Conflict = "conflict", "Someone else changed this first.";
    ShuttingDown = "shutting_down", "The server is stopping.";
    InvalidConfig = "invalid_config", "The configuration cannot be used.";
    Internal = "internal", "A fault in Toolkeep.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn words_agree_with_serde() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{code}\""));
            assert_eq!(code.as_str().parse::<Code>().unwrap(), *code);
        }
    }
}
