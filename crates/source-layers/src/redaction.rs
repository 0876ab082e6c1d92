//! Values that an upstream was given, removed from what it sends back: an upstream may repeat its request,
//! its arguments or its environment in an error page, a log line or a result.
//!
//! What tells why a source is not listed loses every value that was given. Results and errors of calls lose
//! credentials only: a folder that a server was started with belongs into its results.

mod credentials;
mod patterns;

use sandbox::process::{EnvValue, Spec};
use tool::executor::Rpc;
use tool::{Body, ExecuteError, Json, Limits, Outcome, Problem, Secret, SourceError, Step, Wait};
use url::form_urlencoded;

use self::credentials::names_credential;
use self::patterns::Patterns;

/// A result within its bounds stays accepted: a replacement may be longer than what it replaces.
const LIMITS: Limits = Limits { bytes: usize::MAX, nodes: usize::MAX, ..Limits::DOCUMENT };

/// One value that an upstream was given, and the text that replaces it.
#[derive(Debug, Clone)]
pub struct GivenValue {
    secret: Secret,
    label: String,
    is_credential: bool,
}

impl GivenValue {
    /// A credential: a token, a password, a key.
    pub fn credential(secret: Secret) -> Self {
        Self { secret, label: "[secret]".to_owned(), is_credential: true }
    }

    /// A header, a variable or a query parameter. Its name decides whether it is a credential.
    pub fn named(name: &str, secret: Secret) -> Self {
        Self { is_credential: names_credential(name), ..Self::credential(secret) }
    }

    /// The values of a URL's query, as they are sent and decoded.
    pub fn of_url(url: &str) -> Vec<Self> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let query = query.split_once('#').map_or(query, |(query, _)| query);
        let sent = query.split('&').map(|pair| pair.split_once('=').unwrap_or(("", pair)));
        let sent = sent.map(|(name, value)| Self::named(name, Secret::new(value)));
        let decoded = form_urlencoded::parse(query.as_bytes());
        let decoded = decoded.map(|(name, value)| Self::named(&name, Secret::new(value)));
        sent.chain(decoded).collect()
    }

    /// Argument `number` of a command, from 1. `option` is the name it belongs to, or empty.
    fn argument(number: usize, option: &str, value: &str) -> Self {
        let is_credential = names_credential(option);
        Self { secret: Secret::new(value), label: format!("[argument {number}]"), is_credential }
    }
}

/// What is removed from diagnostics of a source, and from errors and results of its calls.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    diagnostics: Patterns,
    errors: Patterns,
    results: Patterns,
}

impl Redaction {
    /// Of these values.
    pub fn new(values: &[GivenValue]) -> Self {
        let (all, credentials) = (values.iter(), values.iter().filter(|it| it.is_credential));
        Self {
            diagnostics: Patterns::of_text(all),
            errors: Patterns::of_text(credentials.clone()),
            results: Patterns::of_json(credentials),
        }
    }

    /// The secret variables of a command.
    pub fn of_environment(spec: &Spec) -> Self {
        Self::new(&environment(spec))
    }

    /// The secret variables of a command and the values of its arguments; names of options stay.
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

    /// Whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// A diagnostic text without the values, also where it was cut within one.
    pub fn text(&self, text: String) -> String {
        self.diagnostics.replaced(&text).unwrap_or(text)
    }

    /// The words of a failed call without the credentials, also where they were cut within one.
    pub fn error(&self, text: String) -> String {
        self.errors.replaced(&text).unwrap_or(text)
    }

    /// A result without the credentials; the same bytes where it has none.
    pub fn json(&self, json: Json) -> Json {
        let Some(text) = self.results.replaced(json.as_str()) else { return json };
        // Values stand within strings. Where one was a number, nothing of the result is passed on.
        Json::check(text, LIMITS).unwrap_or_else(|_| Json::of("[secret]"))
    }

    /// A problem of a source.
    pub fn problem(&self, problem: Problem) -> Problem {
        let Problem { place, message, fix } = problem;
        Problem {
            place: self.text(place),
            message: self.text(message),
            fix: fix.map(|fix| self.text(fix)),
        }
    }

    /// Why a source was not listed.
    pub fn source_error(&self, error: SourceError) -> SourceError {
        SourceError { problem: self.problem(error.problem), ..error }
    }

    /// What came of a call.
    ///
    /// # Errors
    /// Those of `step`.
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
