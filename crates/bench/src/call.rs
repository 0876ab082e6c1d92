//! `bench call`: one call, directly and through a proxy, Toolkeep or other gateways.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::options::{CallOptions, USAGE};
use crate::peer_gateways::{self, PeerSet};
use crate::report::CallReport;
use crate::system_stats;
use crate::target::{HelperProcess, MeasuredTarget, TargetSeries, measure_in_turn};
use crate::timed_request::TimedRequest;
use crate::toolkeep_process::ToolkeepServer;
use crate::{callgrind_profile, perf_counters, tool_lists};

/// Runs the benchmark, prints the report and writes it if requested.
pub(crate) async fn run_call_bench(flags: &[&str]) -> Result<(), String> {
    if flags.contains(&"--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let folder = TempFolder::create_folder()?;
    if let ["--instructions", rest @ ..] = flags {
        return callgrind_profile::run_callgrind(rest, &folder.0).await;
    }
    let options = CallOptions::parse_flags(flags)?;
    let counting = perf_counters::check_available();
    let (calls, missing) = measure_calls(&options, &folder.0, counting.is_ok()).await?;
    // Lists are measured only without other gateways.
    let lists = match &options.peers {
        Some(_) => Vec::new(),
        None => tool_lists::measure_lists(&options, &folder.0).await?,
    };
    let report = CallReport {
        options: &options,
        machine: system_stats::describe_machine(),
        counting,
        calls,
        missing,
        lists,
    };
    let text = report.to_string();
    println!("\n{text}");
    if let Some(file) = &options.write {
        fs::write(file, text).map_err(|e| format!("`{}`: {e}", file.display()))?;
    }
    match report.count_failures() {
        0 => Ok(()),
        failures => {
            Err(format!("{failures} answers were not what was asked for; no figure above counts"))
        }
    }
}

/// A temporary folder for the files of one run, removed on drop.
pub(crate) struct TempFolder(pub(crate) PathBuf);

impl TempFolder {
    pub(crate) fn create_folder() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("toolkeep-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Name of the direct target in the report.
pub(crate) const DIRECT_NAME: &str = "direct";
pub(crate) const PROXY_NAME: &str = "bare proxy";

/// Measured series, and reasons why peers are missing.
type CallResults = (Vec<TargetSeries>, Vec<String>);

/// Measures direct calls, and those through the bare proxy, Toolkeep with both HTTP stacks, and peers.
pub(crate) async fn measure_calls(
    options: &CallOptions,
    folder: &Path,
    count_instructions: bool,
) -> Result<CallResults, String> {
    let upstream = HelperProcess::start_helper(&["upstream", "2"])?;
    let pass = HelperProcess::start_helper(&["pass", &upstream.address.to_string()])?;
    let (behind, between) = (upstream.pid(), pass.pid());
    let direct = TimedRequest::tool_call(upstream.address, "echo");
    let proxied = TimedRequest::tool_call(pass.address, "echo");
    let mut targets = vec![
        new_target(DIRECT_NAME, direct, behind, &[behind]),
        new_target(PROXY_NAME, proxied, between, &[between, behind]),
    ];
    let servers = match &options.toolkeep {
        Some(binary) => start_servers(binary, upstream.address, folder).await?,
        None => Vec::new(),
    };
    for (server, name, tool) in &servers {
        let own = server.process.pid();
        let message = TimedRequest::tool_call(server.process.address, server.tool_name(tool)?);
        let message = message.with_headers(&server.headers);
        targets.push(new_target(name, message, own, &[own, behind]));
    }
    let peers = match &options.peers {
        Some(installs) => peer_gateways::start_peers(installs, upstream.address, folder).await,
        None => PeerSet::default(),
    };
    for peer in &peers.running {
        let own = peer.part.pid();
        targets.push(new_target(peer.name, peer.message.clone(), own, &[own, behind]));
    }
    let mut all = Vec::new();
    for callers in &options.callers {
        let mut found = measure_in_turn(&targets, *callers, options.slice, options.rounds).await?;
        for (series, target) in found.iter_mut().zip(&targets).filter(|_| count_instructions) {
            series.instructions =
                Some(perf_counters::count_instructions(target, *callers, folder)?);
        }
        all.extend(found);
    }
    Ok((all, peers.missing))
}

/// A server, the name of a target on it and the tool that is called.
type ServerTarget = (Arc<ToolkeepServer>, &'static str, &'static str);

/// Starts Toolkeep as it is configured by default, and with hyper for every message.
async fn start_servers(
    binary: &Path,
    upstream: SocketAddr,
    folder: &Path,
) -> Result<Vec<ServerTarget>, String> {
    let command = || Command::new(binary);
    let fast = ToolkeepServer::start_with_upstream(command(), upstream, folder).await?;
    let standard_folder = folder.join("standard");
    let standard =
        ToolkeepServer::start_with_standard_http(command(), upstream, &standard_folder).await?;
    let (fast, standard) = (Arc::new(fast), Arc::new(standard));
    Ok(vec![
        (Arc::clone(&fast), "Toolkeep, reads only", "echo"),
        (fast, "Toolkeep, effects unknown", "echo_unknown"),
        (standard, "Toolkeep, reads only, `http: standard`", "echo"),
    ])
}

fn new_target(
    name: &str,
    message: TimedRequest,
    own_pid: u32,
    chain_pids: &[u32],
) -> MeasuredTarget {
    MeasuredTarget { name: name.to_owned(), message, own_pid, chain_pids: chain_pids.to_vec() }
}
