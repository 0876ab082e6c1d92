//! What a list of tools costs: the same bytes from the server that makes them and from one that holds
//! them ready.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::message::{Expect, Message};
use crate::options::Options;
use crate::target::{Part, Series, Target, in_turn};
use crate::toolkeep::{Toolkeep, names};

/// Lengths of the lists.
const LENGTHS: &[usize] = &[1, 100, 1000];
/// Callers that ask for them.
const CALLERS: usize = 16;

/// One length of list.
pub(crate) struct List {
    pub(crate) tools: usize,
    pub(crate) bytes: usize,
    /// The one that makes the list, axum with the same bytes, and the MCP server behind, with its own;
    /// then the first again, for callers that take gzip.
    pub(crate) series: Vec<Series>,
}

/// Measures every length. Without Toolkeep, the MCP server behind it stands in its place.
pub(crate) async fn run(options: &Options, folder: &Path) -> Result<Vec<List>, String> {
    let mut lists = Vec::new();
    for length in LENGTHS {
        println!("a list of {length}");
        lists.push(list(options, folder, *length).await?);
    }
    Ok(lists)
}

async fn list(options: &Options, folder: &Path, length: usize) -> Result<List, String> {
    let upstream = Part::start(&["upstream", &length.to_string()])?;
    let toolkeep = match &options.toolkeep {
        Some(binary) => {
            Some(Toolkeep::start(Command::new(binary), upstream.address, folder).await?)
        }
        None => None,
    };
    let (name, part, headers) = match &toolkeep {
        Some(toolkeep) => ("Toolkeep", &toolkeep.part, toolkeep.headers.as_slice()),
        None => ("MCP server", &upstream, [].as_slice()),
    };
    let mut message = Message::list(part.address).with(headers);
    let answer = message.once().await?;
    let tools = names(&answer.json()?).len();
    if tools < length {
        return Err(format!("{tools} of {length} tools are listed: {}", answer.start()));
    }
    message.expect = Expect::Length(answer.body.len());
    let file = folder.join("list.json");
    fs::write(&file, &answer.body).map_err(|e| format!("`{}`: {e}", file.display()))?;
    let axum = Part::start(&["bytes", &file.to_string_lossy()])?;
    let held = Message { address: axum.address, ..message.clone() };
    let target = |name: &str, message: Message, part: &Part| Target {
        name: format!("{name}, {tools} tools"),
        message,
        own: part.pid(),
        chain: vec![part.pid()],
    };
    let asked_for = Message { expect: Expect::Anything, ..message.clone() };
    let mut targets = vec![target(name, message, part), target("axum, same bytes", held, &axum)];
    if toolkeep.is_some() {
        let mut behind = Message::list(upstream.address);
        behind.expect = Expect::Length(behind.once().await?.body.len());
        targets.push(Target {
            name: format!("the server behind, {length} tools"),
            message: behind,
            own: upstream.pid(),
            chain: vec![upstream.pid()],
        });
        let takes = [("accept-encoding".to_owned(), "gzip".to_owned())];
        let mut packed = asked_for.with(&takes);
        packed.expect = Expect::Length(packed.once().await?.body.len());
        targets.push(target("Toolkeep, gzip", packed, part));
    }
    let series = in_turn(&targets, CALLERS, options.slice, options.rounds).await?;
    Ok(List { tools, bytes: answer.body.len(), series })
}
