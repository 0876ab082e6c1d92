//! Implements `toolkeep pin`: commands that review tool definitions.

mod decide;
mod diff;
mod list;
mod show;

use clap::Subcommand;
use serde_json::Value;

use cli_core::client::{Client, Path};
use cli_core::context::Context;
use cli_core::door::SourceNeed;
use cli_core::failure::{Exit, Failure};
use cli_core::ui::{Ui, clean};
use cli_core::value;

/// See which definitions of tools were agreed to, and decide on those that wait.
///
/// A tool whose definition waits is in no list and cannot be called. Deciding needs a key with the
/// right `pins:write`, as owner.key has it.
#[derive(Debug, Subcommand)]
pub(crate) enum Pin {
    List(list::List),
    Show(show::Show),
    Diff(diff::Diff),
    Approve(decide::Approve),
    Reject(decide::Reject),
}

impl Pin {
    pub(crate) async fn run(self, context: &Context<'_>, ui: &mut Ui) -> Result<Exit, Failure> {
        match self {
            Self::List(command) => command.run(context, ui).await,
            Self::Show(command) => command.run(context, ui).await,
            Self::Diff(command) => command.run(context, ui).await,
            Self::Approve(command) => command.run(context, ui).await,
            Self::Reject(command) => command.run(context, ui).await,
        }
    }
}

/// Resolves `SOURCE/TOOL`, or the name of a tool that only one source has.
async fn named(client: &Client, name: &str) -> Result<(String, String), Failure> {
    if let Some((source, tool)) = name.split_once('/') {
        return Ok((source.to_owned(), tool.to_owned()));
    }
    let mut found = Vec::new();
    for pin in all(client, None, None).await? {
        if value::line(&pin, "tool", 200) == name {
            found.push(value::line(&pin, "source", 200));
        }
    }
    match found.as_slice() {
        [source] => Ok((source.clone(), name.to_owned())),
        [] => {
            let message = format!("there is no pin of `{}`", clean(name));
            Err(Failure::new(Exit::Refused, message)
                .fix("`toolkeep pin list` shows those there are"))
        }
        many => {
            let message = format!("several sources have a `{}`: {}", clean(name), many.join(", "));
            Err(Failure::new(Exit::Usage, message).fix("write `SOURCE/TOOL`"))
        }
    }
}

/// Fetches all matching pins, page by page.
pub(crate) async fn all(
    client: &Client,
    source: Option<&str>,
    state: Option<&str>,
) -> Result<Vec<Value>, Failure> {
    let (mut pins, mut cursor) = (Vec::new(), None);
    loop {
        let path = Path::new("/v1/pins", &[]).with("source", source).with("state", state);
        let page = client.get(&path.with("cursor", cursor.as_deref())).await?;
        pins.extend(value::list(&page, "pins").iter().cloned());
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(pins),
        }
    }
}

/// The source needed for `SOURCE/TOOL`, or all sources for a bare name.
fn need(tool: &str) -> SourceNeed<'_> {
    tool.split_once('/').map_or(SourceNeed::All, |(source, _)| SourceNeed::Source(source))
}

/// Fetches the pin of the tool that a command names.
async fn looked_up(context: &Context<'_>, tool: &str, ui: &mut Ui) -> Result<Value, Failure> {
    let session = context.connect().await?;
    session.sources(need(tool), ui).await;
    let pin = match named(&session.client, tool).await {
        Ok(at) => shown(&session.client, &at).await,
        Err(failure) => Err(failure),
    };
    session.end().await?;
    pin
}

async fn shown(client: &Client, (source, tool): &(String, String)) -> Result<Value, Failure> {
    client.get(&Path::new("/v1/pins", &[source, tool])).await
}

/// Returns a field of a pin unless it is null.
fn part<'a>(pin: &'a Value, key: &str) -> Option<&'a Value> {
    pin.get(key).filter(|part| !part.is_null())
}

/// Formats a value, sanitized, on one or several lines.
fn pretty(value: &Value) -> String {
    match value {
        Value::String(text) => clean(text),
        other => clean(&serde_json::to_string_pretty(other).unwrap_or_default()),
    }
}
