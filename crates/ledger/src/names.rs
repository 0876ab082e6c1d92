//! Whose a record is and of which tool, read from its body.

use std::borrow::Cow;

use serde::Deserialize;
use tool::ledger::Kind;

use crate::frame::Frame;

#[derive(Deserialize)]
struct Caller<'b> {
    #[serde(borrow)]
    org: Cow<'b, str>,
}

#[derive(Deserialize)]
struct Key<'b> {
    #[serde(borrow)]
    name: Cow<'b, str>,
}

#[derive(Deserialize)]
struct Intent<'b> {
    #[serde(borrow)]
    caller: Caller<'b>,
    #[serde(borrow)]
    tool: Key<'b>,
}

#[derive(Deserialize)]
struct Refusal<'b> {
    #[serde(borrow)]
    caller: Caller<'b>,
    #[serde(borrow)]
    tool: Cow<'b, str>,
}

#[derive(Deserialize)]
struct Event<'b> {
    #[serde(borrow)]
    org: Cow<'b, str>,
    #[serde(borrow, default)]
    tool: Cow<'b, str>,
}

/// The organisation of the caller and the tool's name; intents, waits, refusals and events have
/// them.
pub(crate) fn names<'b>(frame: &Frame<'b>) -> Option<(Cow<'b, str>, Cow<'b, str>)> {
    match frame.kind {
        // A step of a held call says both in the same words.
        Kind::Intent | Kind::Wait => {
            frame.read::<Intent<'b>>().map(|intent| (intent.caller.org, intent.tool.name))
        }
        Kind::Refused => {
            frame.read::<Refusal<'b>>().map(|refusal| (refusal.caller.org, refusal.tool))
        }
        Kind::Event => frame.read::<Event<'b>>().map(|event| (event.org, event.tool)),
        _ => None,
    }
}
