//! Redaction of values that an upstream was given: it may repeat its request, arguments or
//! environment in an error page, a log line or a result.
//!
//! Diagnostics of a source lose every given value. Results and errors of calls lose only
//! credentials: the folder that a server was started with may belong in its results.

mod credentials;
mod patterns;

use sandbox::process::{EnvValue, Spec};
use tool::executor::Rpc;
use tool::{Body, ExecuteError, Json, Limits, Outcome, Problem, Secret, SourceError, Step, Wait};
use url::form_urlencoded;

use self::credentials::names_credential;
use self::patterns::Patterns;

/// Limits after redaction: a replacement may be longer than the value, and a result within its
/// limits must stay valid.
const LIMITS: Limits = Limits { bytes: usize::MAX, nodes: usize::MAX, ..Limits::DOCUMENT };

/// One value that an upstream was given, and its replacement text.
#[derive(Debug, Clone)]
pub struct GivenValue {
    secret: Secret,
    label: String,
    is_credential: bool,
}

impl GivenValue {
    /// Creates the entry of a credential: a token, a password or a key.
    pub fn credential(secret: Secret) -> Self {
        Self { secret, label: "[secret]".to_owned(), is_credential: true }
    }

    /// Creates the entry of a header, a variable or a query parameter. Its name decides whether it
    /// is a credential.
    pub fn named(name: &str, secret: Secret) -> Self {
        Self { is_credential: names_credential(name), ..Self::credential(secret) }
    }

    /// Returns the values of a URL's query, both as sent and decoded.
    pub fn of_url(url: &str) -> Vec<Self> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let query = query.split_once('#').map_or(query, |(query, _)| query);
        let sent = query.split('&').map(|pair| pair.split_once('=').unwrap_or(("", pair)));
        let sent = sent.map(|(name, value)| Self::named(name, Secret::new(value)));
        let decoded = form_urlencoded::parse(query.as_bytes());
        let decoded = decoded.map(|(name, value)| Self::named(&name, Secret::new(value)));
        sent.chain(decoded).collect()
    }

    /// Creates the entry of the argument `number` of a command, from 1. `option` is its option
    /// name, or empty.
    fn argument(number: usize, option: &str, value: &str) -> Self {
        let is_credential = names_credential(option);
        Self { secret: Secret::new(value), label: format!("[argument {number}]"), is_credential }
    }
}

/// Patterns that are removed from diagnostics of a source, and from errors and results of its
/// calls.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    diagnostics: Patterns,
    errors: Patterns,
    results: Patterns,
}

impl Redaction {
    /// Creates a redaction for these values.
    pub fn new(values: &[GivenValue]) -> Self {
        let (all, credentials) = (values.iter(), values.iter().filter(|it| it.is_credential));
        Self {
            diagnostics: Patterns::of_text(all),
            errors: Patterns::of_text(credentials.clone()),
            results: Patterns::of_json(credentials),
        }
    }

    /// Creates a redaction for the secret variables of a command.
    pub fn of_environment(spec: &Spec) -> Self {
        Self::new(&environment(spec))
    }

    /// Creates a redaction for the secret variables of a command and its argument values. Option
    /// names stay visible.
    pub fn of_command(spec: &Spec) -> Self {
        let mut values = environment(spec);
        let mut option = "";
        for (number, arg) in (1..).zip(&spec.args) {
            match arg.split_once('=') {
                Some((name, value)) if name.starts_with('-') => {
                    values.push(GivenValue::argument(number, name, value));
                    option = "";
                }
                None if arg.starts_with('-') && !arg.contains(char::is_whitespace) => option = arg,
                Some(_) | None => {
                    values.push(GivenValue::argument(number, option, arg));
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
    pub fn text(&self, text: String) -> String {
        self.diagnostics.replaced(&text).unwrap_or(text)
    }

    /// Removes the credentials from the error text of a call, even if it was truncated within one.
    pub fn error(&self, text: String) -> String {
        self.errors.replaced(&text).unwrap_or(text)
    }

    /// Removes the credentials from a result. A result without any keeps its bytes.
    pub fn json(&self, json: Json) -> Json {
        let Some(text) = self.results.replaced(json.as_str()) else { return json };
        // Values occur within strings. If one was a number, the result is withheld.
        Json::check(text, LIMITS).unwrap_or_else(|_| Json::of("[secret]"))
    }

    /// Redacts a problem of a source.
    pub fn problem(&self, problem: Problem) -> Problem {
        let Problem { place, message, fix } = problem;
        Problem {
            place: self.text(place),
            message: self.text(message),
            fix: fix.map(|fix| self.text(fix)),
        }
    }

    /// Redacts the error of a listing.
    pub fn source_error(&self, error: SourceError) -> SourceError {
        SourceError { problem: self.problem(error.problem), ..error }
    }

    /// Redacts the state or the error of a call.
    ///
    /// # Errors
    /// The redacted error of `step`.
    pub fn step(&self, step: Result<Step, ExecuteError>) -> Result<Step, ExecuteError> {
        match step {
            Ok(Step::Done(Outcome { body, is_error })) => {
                let body = match body {
                    Body::Value(json) => Body::Value(self.json(json)),
                    Body::Mcp(json) => Body::Mcp(self.json(json)),
                };
                Ok(Step::Done(Outcome { body, is_error }))
            }
            Ok(Step::Wait(Wait::Input { requests, resume })) => {
                Ok(Step::Wait(Wait::Input { requests: self.json(requests), resume }))
            }
            Ok(step) => Ok(step),
            Err(error) => Err(self.execute_error(error)),
        }
    }

    fn execute_error(&self, error: ExecuteError) -> ExecuteError {
        let rpc = error.rpc.map(|rpc| {
            let Rpc { code, message, data } = *rpc;
            let data = data.map(|data| self.json(data));
            Box::new(Rpc { code, message: self.error(message), data })
        });
        ExecuteError { message: self.error(error.message), rpc, ..error }
    }
}

fn environment(spec: &Spec) -> Vec<GivenValue> {
    let values = spec.env.iter().filter_map(|(name, value)| match value {
        EnvValue::Secret(secret) => Some(GivenValue::named(name, secret.clone())),
        EnvValue::Plain(_) => None,
    });
    values.collect()
}

#[cfg(test)]
mod tests;
