//! Redaction of secret values that were sent to an upstream. The upstream may repeat them in an
//! error page, a log line or a result.
//!
//! Diagnostics of a source lose every given value. Results and errors of calls lose only
//! credentials: the folder that a server was started with may belong in its results.

mod credential_names;
mod secret_patterns;

use sandbox::process::{CommandSpec, EnvValue};
use tool::executor::UpstreamRpcError;
use tool::{
    ExecuteError, ExecutionState, Json, JsonLimits, Outcome, OutcomeBody, PendingReason, Problem,
    Secret, SourceError,
};
use url::form_urlencoded;

use self::credential_names::is_credential_name;
use self::secret_patterns::SecretPatterns;

/// Limits after redaction: a replacement may be longer than the value, and a result within its
/// limits must stay valid.
const RESULT_LIMITS: JsonLimits =
    JsonLimits { max_bytes: usize::MAX, max_nodes: usize::MAX, ..JsonLimits::DOCUMENT };

/// One value that an upstream was given, and its replacement text.
#[derive(Debug, Clone)]
pub struct RedactedValue {
    secret: Secret,
    label: String,
    is_credential: bool,
}

impl RedactedValue {
    /// Creates the entry of a credential: a token, a password or a key.
    pub fn from_credential(secret: Secret) -> Self {
        Self { secret, label: "[secret]".to_owned(), is_credential: true }
    }

    /// Creates the entry of a header, a variable or a query parameter. Its name decides whether it
    /// is a credential.
    pub fn from_named(name: &str, secret: Secret) -> Self {
        Self { is_credential: is_credential_name(name), ..Self::from_credential(secret) }
    }

    /// Returns the values of a URL's query, both as sent and decoded.
    pub fn from_url_query(url: &str) -> Vec<Self> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let query = query.split_once('#').map_or(query, |(query, _)| query);
        let sent = query.split('&').map(|pair| pair.split_once('=').unwrap_or(("", pair)));
        let sent = sent.map(|(name, value)| Self::from_named(name, Secret::new(value)));
        let decoded = form_urlencoded::parse(query.as_bytes());
        let decoded = decoded.map(|(name, value)| Self::from_named(&name, Secret::new(value)));
        sent.chain(decoded).collect()
    }

    /// Creates the entry of the argument `number` of a command, from 1. `option` is its option
    /// name, or empty.
    fn from_argument(number: usize, option: &str, value: &str) -> Self {
        let is_credential = is_credential_name(option);
        Self { secret: Secret::new(value), label: format!("[argument {number}]"), is_credential }
    }
}

/// Patterns that are removed from diagnostics of a source, and from errors and results of its
/// calls.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    diagnostics: SecretPatterns,
    errors: SecretPatterns,
    results: SecretPatterns,
}

impl Redaction {
    /// Creates a redaction for these values.
    pub fn new(values: &[RedactedValue]) -> Self {
        let (all, credentials) = (values.iter(), values.iter().filter(|it| it.is_credential));
        Self {
            diagnostics: SecretPatterns::from_text_values(all),
            errors: SecretPatterns::from_text_values(credentials.clone()),
            results: SecretPatterns::from_json_values(credentials),
        }
    }

    /// Creates a redaction for the secret variables of a command.
    pub fn from_environment(spec: &CommandSpec) -> Self {
        Self::new(&environment_values(spec))
    }

    /// Creates a redaction for the secret variables of a command and its argument values. Option
    /// names stay visible.
    pub fn from_command(spec: &CommandSpec) -> Self {
        let mut values = environment_values(spec);
        let mut option = "";
        for (number, arg) in (1..).zip(&spec.args) {
            match arg.split_once('=') {
                Some((name, value)) if name.starts_with('-') => {
                    values.push(RedactedValue::from_argument(number, name, value));
                    option = "";
                }
                None if arg.starts_with('-') && !arg.contains(char::is_whitespace) => option = arg,
                Some(_) | None => {
                    values.push(RedactedValue::from_argument(number, option, arg));
                    option = "";
                }
            }
        }
        Self::new(&values)
    }

    /// Returns whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Removes the values from a diagnostic text, even if the text was truncated within one.
    pub fn redact_diagnostic(&self, text: String) -> String {
        self.diagnostics.replace_values(&text).unwrap_or(text)
    }

    /// Removes the credentials from the error text of a call, even if it was truncated within one.
    pub fn redact_error_text(&self, text: String) -> String {
        self.errors.replace_values(&text).unwrap_or(text)
    }

    /// Removes the credentials from a result. A result without any keeps its bytes.
    pub fn redact_json(&self, json: Json) -> Json {
        let Some(text) = self.results.replace_values(json.as_str()) else { return json };
        // Values occur within strings. If one was a number, the result is withheld.
        Json::parse(text, RESULT_LIMITS).unwrap_or_else(|_| Json::encode("[secret]"))
    }

    /// Redacts a problem of a source.
    pub fn redact_problem(&self, problem: Problem) -> Problem {
        let Problem { location: place, message, help: fix } = problem;
        Problem {
            location: self.redact_diagnostic(place),
            message: self.redact_diagnostic(message),
            help: fix.map(|fix| self.redact_diagnostic(fix)),
        }
    }

    /// Redacts the error of a listing.
    pub fn redact_source_error(&self, error: SourceError) -> SourceError {
        SourceError { problem: self.redact_problem(error.problem), ..error }
    }

    /// Redacts the state or the error of a call.
    ///
    /// # Errors
    /// The redacted error of `result`.
    pub fn redact_result(
        &self,
        result: Result<ExecutionState, ExecuteError>,
    ) -> Result<ExecutionState, ExecuteError> {
        match result {
            Ok(ExecutionState::Completed(Outcome { body, is_error })) => {
                let body = match body {
                    OutcomeBody::Value(json) => OutcomeBody::Value(self.redact_json(json)),
                    OutcomeBody::Mcp(json) => OutcomeBody::Mcp(self.redact_json(json)),
                };
                Ok(ExecutionState::Completed(Outcome { body, is_error }))
            }
            Ok(ExecutionState::Pending(PendingReason::Input {
                input_requests: requests,
                state: resume,
            })) => Ok(ExecutionState::Pending(PendingReason::Input {
                input_requests: self.redact_json(requests),
                state: resume,
            })),
            Ok(result) => Ok(result),
            Err(error) => Err(self.redact_execute_error(error)),
        }
    }

    fn redact_execute_error(&self, error: ExecuteError) -> ExecuteError {
        let rpc = error.rpc_error.map(|rpc| {
            let UpstreamRpcError { code, message, data } = *rpc;
            let data = data.map(|data| self.redact_json(data));
            Box::new(UpstreamRpcError { code, message: self.redact_error_text(message), data })
        });
        ExecuteError { message: self.redact_error_text(error.message), rpc_error: rpc, ..error }
    }
}

fn environment_values(spec: &CommandSpec) -> Vec<RedactedValue> {
    let values = spec.env.iter().filter_map(|(name, value)| match value {
        EnvValue::Secret(secret) => Some(RedactedValue::from_named(name, secret.clone())),
        EnvValue::Plain(_) => None,
    });
    values.collect()
}

#[cfg(test)]
mod tests;
