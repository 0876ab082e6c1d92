//! Benchmark of tool lists: the same bytes from Toolkeep and from a server that returns a static
//! file.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::options::CallOptions;
use crate::target::{HelperProcess, MeasuredTarget, TargetSeries, measure_in_turn};
use crate::timed_request::{ExpectedBody, TimedRequest};
use crate::toolkeep_process::{ToolkeepServer, tool_names};

/// Numbers of tools in the lists.
const LIST_LENGTHS: &[usize] = &[1, 100, 1000];
/// Number of concurrent callers.
const LIST_CALLERS: usize = 16;

/// Figures for one list length.
pub(crate) struct ListResults {
    pub(crate) tools: usize,
    pub(crate) bytes: usize,
    /// Toolkeep, axum with the same bytes, the upstream MCP server, and Toolkeep for callers that
    /// accept gzip.
    pub(crate) series: Vec<TargetSeries>,
}

/// Measures every length. Without Toolkeep, the upstream MCP server is measured instead.
pub(crate) async fn measure_lists(
    options: &CallOptions,
    folder: &Path,
) -> Result<Vec<ListResults>, String> {
    let mut lists = Vec::new();
    for length in LIST_LENGTHS {
        println!("a list of {length}");
        lists.push(measure_list(options, folder, *length).await?);
    }
    Ok(lists)
}

async fn measure_list(
    options: &CallOptions,
    folder: &Path,
    length: usize,
) -> Result<ListResults, String> {
    let upstream = HelperProcess::start_helper(&["upstream", &length.to_string()])?;
    let toolkeep = match &options.toolkeep {
        Some(binary) => Some(
            ToolkeepServer::start_with_upstream(Command::new(binary), upstream.address, folder)
                .await?,
        ),
        None => None,
    };
    let (name, part, headers) = match &toolkeep {
        Some(toolkeep) => ("Toolkeep", &toolkeep.process, toolkeep.headers.as_slice()),
        None => ("MCP server", &upstream, [].as_slice()),
    };
    let mut message = TimedRequest::tool_list(part.address).with_headers(headers);
    let answer = message.send_once().await?;
    let tools = tool_names(&answer.parse_json()?).len();
    if tools < length {
        return Err(format!("{tools} of {length} tools are listed: {}", answer.body_start()));
    }
    message.expect = ExpectedBody::Length(answer.body.len());
    let file = folder.join("list.json");
    fs::write(&file, &answer.body).map_err(|e| format!("`{}`: {e}", file.display()))?;
    let axum = HelperProcess::start_helper(&["bytes", &file.to_string_lossy()])?;
    let static_message = TimedRequest { address: axum.address, ..message.clone() };
    let target = |name: &str, message: TimedRequest, part: &HelperProcess| MeasuredTarget {
        name: format!("{name}, {tools} tools"),
        message,
        own_pid: part.pid(),
        chain_pids: vec![part.pid()],
    };
    let unchecked = TimedRequest { expect: ExpectedBody::Anything, ..message.clone() };
    let mut targets =
        vec![target(name, message, part), target("axum, same bytes", static_message, &axum)];
    if toolkeep.is_some() {
        let mut upstream_message = TimedRequest::tool_list(upstream.address);
        upstream_message.expect =
            ExpectedBody::Length(upstream_message.send_once().await?.body.len());
        targets.push(MeasuredTarget {
            name: format!("the server behind, {length} tools"),
            message: upstream_message,
            own_pid: upstream.pid(),
            chain_pids: vec![upstream.pid()],
        });
        let gzip_header = [("accept-encoding".to_owned(), "gzip".to_owned())];
        let mut gzip_message = unchecked.with_headers(&gzip_header);
        gzip_message.expect = ExpectedBody::Length(gzip_message.send_once().await?.body.len());
        targets.push(target("Toolkeep, gzip", gzip_message, part));
    }
    let series = measure_in_turn(&targets, LIST_CALLERS, options.slice, options.rounds).await?;
    Ok(ListResults { tools, bytes: answer.body.len(), series })
}
