//! Messages of a plugin process, one per line. Results are forwarded as bytes without parsing.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ProgressUpdate;
use super::http_proxy::ProxyRequest;

/// Maximum number of problems of one plugin.
const MAX_PROBLEMS: usize = 100;

/// A parsed message of the process.
#[derive(Debug)]
pub(super) enum ProcessMessage {
    Ready(Vec<ReportedProblem>),
    CallEnded { call: u64, answer: Result<Bytes, String> },
    Progress { call: u64, far: ProgressUpdate },
    HttpRequest { number: u64, asked: ProxyRequest },
}

/// Problem of a plugin or of one of its tools, reported by its process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ReportedProblem {
    /// The affected tool; `None` affects all tools.
    #[serde(default)]
    pub(crate) tool: Option<String>,
    /// Whether a dependency is missing, rather than a fault of the plugin.
    #[serde(default, rename = "kind", deserialize_with = "missing")]
    pub(crate) is_missing: bool,
    pub(crate) message: String,
}

fn missing<'de, D: serde::Deserializer<'de>>(word: D) -> Result<bool, D::Error> {
    Ok(Cow::<'_, str>::deserialize(word)? == "missing")
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    #[serde(default)]
    call: Option<u64>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<Cow<'a, str>>,
    #[serde(default)]
    progress: Option<f64>,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default, borrow)]
    message: Option<Cow<'a, str>>,
    #[serde(default)]
    ask: Option<u64>,
    #[serde(default)]
    http: Option<ProxyRequest>,
    #[serde(default)]
    ready: Option<u64>,
    #[serde(default)]
    problems: Vec<ReportedProblem>,
}

impl ProcessMessage {
    /// Parses a line; `None` for an unknown message.
    pub(super) fn parse_message(line: &Bytes) -> Option<Self> {
        let read: RawMessage<'_> = serde_json::from_slice(line).ok()?;
        if read.ready.is_some() {
            let problems = read.problems.into_iter().take(MAX_PROBLEMS).map(|mut told| {
                told.message.truncate(told.message.floor_char_boundary(2_000));
                told
            });
            return Some(Self::Ready(problems.collect()));
        }
        if let Some(number) = read.ask {
            return Some(Self::HttpRequest { number, asked: read.http? });
        }
        let call = read.call?;
        if let Some(done) = read.progress {
            let message = read.message.map(|text| text.chars().take(500).collect());
            return Some(Self::Progress {
                call,
                far: ProgressUpdate { completed: done, total: read.total, message },
            });
        }
        let answer = match (read.error, read.result) {
            (Some(error), _) => Err(error.into_owned()),
            (None, Some(result)) => Ok(line.slice_ref(result.get().as_bytes())),
            // The answer `null`.
            (None, None) => Ok(Bytes::from_static(b"null")),
        };
        Some(Self::CallEnded { call, answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &'static str) -> Option<ProcessMessage> {
        ProcessMessage::parse_message(&Bytes::from_static(line.as_bytes()))
    }

    #[test]
    fn answers_stay_the_bytes_they_were() {
        let Some(ProcessMessage::CallEnded { call: 3, answer: Ok(answer) }) =
            read(r#"{"call":3,"result":{"b": 1.50, "a":"\u00e9"}}"#)
        else {
            panic!()
        };
        assert_eq!(answer, r#"{"b": 1.50, "a":"\u00e9"}"#);
        let null = read(r#"{"call":3,"result":null}"#);
        assert!(
            matches!(null, Some(ProcessMessage::CallEnded { answer: Ok(null), .. }) if null == "null")
        );
        let failed = read(r#"{"call":3,"error":"x\ty"}"#);
        assert!(
            matches!(failed, Some(ProcessMessage::CallEnded { answer: Err(words), .. }) if words == "x\ty")
        );
    }

    #[test]
    fn what_means_nothing_is_nothing() {
        for line in ["", "hello", "[]", "{}", r#"{"call":-1}"#, r#"{"ask":1}"#, r#"{"call":"1"}"#] {
            assert!(read(line).is_none(), "{line}");
        }
        assert!(
            matches!(read(r#"{"ready":1}"#), Some(ProcessMessage::Ready(problems)) if problems.is_empty())
        );
    }
}
