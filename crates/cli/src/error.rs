//! Implements `toolkeep error`, which prints the built-in pages of `docs/errors/`.

use clap::Args;
use serde_json::json;
use tool::ErrorCode;

use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::{Printer, format_table};

/// Explain an error code: its meaning, causes and fixes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolkeep error
  toolkeep error unknown_tool")]
pub(crate) struct ErrorArgs {
    /// Error code, as printed in the error message. Without it, all codes are listed.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

macro_rules! pages {
    ($($code:ident = $file:literal,)+) => {
        /// Returns the page of an error code.
        pub(crate) const fn page(code: ErrorCode) -> &'static str {
            match code {
                $(ErrorCode::$code => include_str!(concat!("../../../docs/errors/", $file, ".md")),)+
            }
        }
    };
}

pages! {
    UnknownTool = "unknown_tool",
    InvalidArguments = "invalid_arguments",
    Denied = "denied",
    ApprovalRequired = "approval_required",
    ApprovalDenied = "approval_denied",
    ApprovalExpired = "approval_expired",
    ApprovalVoid = "approval_void",
    InvalidRequest = "invalid_request",
    NotFound = "not_found",
    Unauthenticated = "unauthenticated",
    Forbidden = "forbidden",
    ForbiddenOrigin = "forbidden_origin",
    TooLarge = "too_large",
    RateLimited = "rate_limited",
    Busy = "busy",
    Timeout = "timeout",
    Cancelled = "cancelled",
    UpstreamFailed = "upstream_failed",
    UpstreamLost = "upstream_lost",
    CredentialMissing = "credential_missing",
    Blocked = "blocked",
    RecordUnavailable = "record_unavailable",
    StoreUnavailable = "store_unavailable",
    Conflict = "conflict",
    ShuttingDown = "shutting_down",
    InvalidConfig = "invalid_config",
    Internal = "internal",
}

impl ErrorArgs {
    pub(crate) fn run(self, ui: &mut Printer) -> Result<ExitStatus, CommandError> {
        let Some(word) = self.code else {
            let codes: Vec<_> = ErrorCode::ALL
                .iter()
                .map(|code| json!({ "code": code, "summary": code.summary() }))
                .collect();
            ui.print_result(&codes, format_codes)?;
            return Ok(ExitStatus::Success);
        };
        let code: ErrorCode = word.parse().map_err(|_| {
            let message = format!("unknown error code `{}`", word.escape_debug());
            CommandError::new(ExitStatus::Refused, message)
                .with_help("run `toolkeep error` to list the codes")
        })?;
        let page = json!({ "code": code, "summary": code.summary(), "page": page(code) });
        ui.print_result(&page, || self::page(code).to_owned())?;
        Ok(ExitStatus::Success)
    }
}

fn format_codes() -> String {
    let row = |code: &ErrorCode| [code.to_string(), code.summary().to_owned()];
    format_table(["CODE", "MEANING"], &ErrorCode::ALL.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use tool::ErrorCode;

    use super::page;

    #[test]
    fn every_code_has_a_page_of_its_own_in_the_same_shape() {
        for code in ErrorCode::ALL {
            let page = page(*code);
            assert!(page.starts_with(&format!("# {code}\n\n{}\n", code.summary())), "{code}");
            let heads: Vec<_> = page.lines().filter(|line| line.starts_with("## ")).collect();
            assert_eq!(heads, ["## How it comes about", "## What to do"], "{code}");
            assert!(page.lines().all(|line| line.chars().count() <= 100), "{code}");
        }
    }

    #[test]
    fn there_is_no_page_without_a_code() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let word = name.strip_suffix(".md").unwrap();
            assert!(word.parse::<ErrorCode>().is_ok(), "{name}");
        }
    }
}
