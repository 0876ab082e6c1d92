//! Whose a record is, of which tool and of which caller, read from its body.

use std::borrow::Cow;

use serde::Deserialize;
use tool::ledger::Kind;

use crate::frame::Frame;

#[derive(Deserialize)]
struct Caller<'b> {
    #[serde(borrow)]
    org: Cow<'b, str>,
    #[serde(borrow, default)]
    subject: Cow<'b, str>,
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
    #[serde(borrow, default)]
    by: Option<Caller<'b>>,
}

/// Organisation, tool and caller of a call, where a look-up has them in memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Names {
    pub(crate) org: String,
    pub(crate) tool: String,
    /// The caller's subject.
    pub(crate) caller: String,
}

/// The same of one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrameNames<'b> {
    pub(crate) org: Cow<'b, str>,
    pub(crate) tool: Cow<'b, str>,
    pub(crate) caller: Cow<'b, str>,
}

impl<'b> FrameNames<'b> {
    fn new(caller: Caller<'b>, tool: Cow<'b, str>) -> Self {
        Self { org: caller.org, tool, caller: caller.subject }
    }

    pub(crate) fn into_names(self) -> Names {
        let Self { org, tool, caller } = self;
        Names { org: org.into(), tool: tool.into(), caller: caller.into() }
    }
}

/// The organisation of the caller, the tool's name and the caller's subject; intents, waits, refusals and events have
/// them. An event has its organisation, and who caused it as the caller.
pub(crate) fn names<'b>(frame: &Frame<'b>) -> Option<FrameNames<'b>> {
    match frame.kind {
        // A step of a held call says both in the same words.
        Kind::Intent | Kind::Wait => {
            frame.read::<Intent<'b>>().map(|it| FrameNames::new(it.caller, it.tool.name))
        }
        Kind::Refused => frame.read::<Refusal<'b>>().map(|it| FrameNames::new(it.caller, it.tool)),
        Kind::Event => frame.read::<Event<'b>>().map(|event| {
            let caller = event.by.map(|by| by.subject).unwrap_or_default();
            FrameNames { org: event.org, tool: event.tool, caller }
        }),
        _ => None,
    }
}
