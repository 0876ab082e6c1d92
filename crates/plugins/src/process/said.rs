//! What a process says, line by line. Nothing of it is made into a tree: an answer stays the bytes it was.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Far;
use super::ask::Asked;

/// Problems of one plugin that are taken.
const MOST: usize = 100;

/// One line that means something.
#[derive(Debug)]
pub(super) enum Said {
    Ready(Vec<Told>),
    Done { call: u64, answer: Result<Bytes, String> },
    Far { call: u64, far: Far },
    Ask { number: u64, asked: Asked },
}

/// What is wrong with a plugin or one of its tools, by the word of its process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Told {
    /// Which tool; all of them where none is named.
    #[serde(default)]
    pub(crate) tool: Option<String>,
    /// Whether it is something that is not there, rather than a fault of the plugin.
    #[serde(default, rename = "kind", deserialize_with = "missing")]
    pub(crate) missing: bool,
    pub(crate) message: String,
}

fn missing<'de, D: serde::Deserializer<'de>>(word: D) -> Result<bool, D::Error> {
    Ok(Cow::<'_, str>::deserialize(word)? == "missing")
}

#[derive(Deserialize)]
struct Line<'a> {
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
    http: Option<Asked>,
    #[serde(default)]
    ready: Option<u64>,
    #[serde(default)]
    problems: Vec<Told>,
}

impl Said {
    /// `None` where it means nothing.
    pub(super) fn read(line: &Bytes) -> Option<Self> {
        let read: Line<'_> = serde_json::from_slice(line).ok()?;
        if read.ready.is_some() {
            let problems = read.problems.into_iter().take(MOST).map(|mut told| {
                told.message.truncate(told.message.floor_char_boundary(2_000));
                told
            });
            return Some(Self::Ready(problems.collect()));
        }
        if let Some(number) = read.ask {
            return Some(Self::Ask { number, asked: read.http? });
        }
        let call = read.call?;
        if let Some(done) = read.progress {
            let message = read.message.map(|text| text.chars().take(500).collect());
            return Some(Self::Far { call, far: Far { done, total: read.total, message } });
        }
        let answer = match (read.error, read.result) {
            (Some(error), _) => Err(error.into_owned()),
            (None, Some(result)) => Ok(line.slice_ref(result.get().as_bytes())),
            // The answer `null`.
            (None, None) => Ok(Bytes::from_static(b"null")),
        };
        Some(Self::Done { call, answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &'static str) -> Option<Said> {
        Said::read(&Bytes::from_static(line.as_bytes()))
    }

    #[test]
    fn answers_stay_the_bytes_they_were() {
        let Some(Said::Done { call: 3, answer: Ok(answer) }) =
            read(r#"{"call":3,"result":{"b": 1.50, "a":"\u00e9"}}"#)
        else {
            panic!()
        };
        assert_eq!(answer, r#"{"b": 1.50, "a":"\u00e9"}"#);
        let null = read(r#"{"call":3,"result":null}"#);
        assert!(matches!(null, Some(Said::Done { answer: Ok(null), .. }) if null == "null"));
        let failed = read(r#"{"call":3,"error":"x\ty"}"#);
        assert!(matches!(failed, Some(Said::Done { answer: Err(words), .. }) if words == "x\ty"));
    }

    #[test]
    fn what_means_nothing_is_nothing() {
        for line in ["", "hello", "[]", "{}", r#"{"call":-1}"#, r#"{"ask":1}"#, r#"{"call":"1"}"#] {
            assert!(read(line).is_none(), "{line}");
        }
        assert!(
            matches!(read(r#"{"ready":1}"#), Some(Said::Ready(problems)) if problems.is_empty())
        );
    }
}
