//! Benchmark of gRPC calls: directly to a node, and through the server.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::Full;
use proto::client::{GrpcChannel, IoStream};
use proto::toolrpc::CallFunctionRequest;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::Barrier;

use super::NodeRunSize;
use super::report::NodeCallRow;
use crate::catalog::create_temp_folder;
use crate::histogram::LatencyHistogram;
use crate::target::HelperProcess;
use crate::timed_request::{ECHO_TEXT, open_connection};
use crate::toolkeep_process::{ToolkeepServer, free_address};

/// Longest time until the first call succeeds.
const READY_TIMEOUT: Duration = Duration::from_mins(1);
/// Names of the tools: one with unknown effects, and one that the operator declares read-only.
const TOOL_NAMES: [&str; 2] = ["said", "looked"];

/// Address, tool and credential of one way to call the node.
#[derive(Debug, Clone)]
struct CallPath {
    address: SocketAddr,
    bearer: Option<String>,
    tool: &'static str,
}

impl CallPath {
    fn open_channel(&self) -> GrpcChannel {
        let at = self.address;
        GrpcChannel::new(move || {
            Box::pin(async move {
                let stream = TcpStream::connect(at).await?;
                stream.set_nodelay(true)?;
                Ok::<_, io::Error>(Box::new(stream) as Box<dyn IoStream>)
            })
        })
    }

    async fn call_tool(&self, line: &GrpcChannel) -> Result<(), String> {
        let input = Bytes::from(json!({ "text": ECHO_TEXT }).to_string());
        let call = CallFunctionRequest { tool_name: self.tool.to_owned(), input };
        let mut request = tonic::Request::new(call);
        if let Some(bearer) = &self.bearer {
            let value = bearer.parse().map_err(|_| "the key cannot be sent".to_owned())?;
            request.metadata_mut().insert("authorization", value);
        }
        let reply = line.executor_client().call_function(request).await;
        let said = reply.map_err(|status| status.to_string())?.into_inner();
        if said.success { Ok(()) } else { Err(said.error) }
    }
}

/// Measures all paths in turn for each number of callers.
pub(super) async fn measure_calls(
    sizes: &NodeRunSize,
    binary: &Path,
) -> Result<Vec<NodeCallRow>, String> {
    let node = HelperProcess::start_helper(&["node"])?;
    let folder = create_temp_folder()?;
    let rows = measure_paths(sizes, binary, (&node, &folder)).await;
    drop(std::fs::remove_dir_all(&folder));
    rows
}

async fn measure_paths(
    sizes: &NodeRunSize,
    binary: &Path,
    (node, folder): (&HelperProcess, &Path),
) -> Result<Vec<NodeCallRow>, String> {
    let grpc = free_address().map_err(|error| error.to_string())?;
    let configuration = format!(
        "version: 1\nnodes: {{ addresses: {{ bench: 'http://{}' }}, read_only: [looked] }}\n\
         limits: {{ calls: 1024, calls_per_key: 1024, calls_per_key_and_source: 1024 }}\n",
        node.address
    );
    let mut command = Command::new(binary);
    command.env("TOOLKEEP_GRPC_LISTEN", grpc.to_string());
    let toolkeep = ToolkeepServer::spawn_fresh(command, &configuration, folder)?;
    let started = Instant::now();
    let [tool, _] = TOOL_NAMES;
    let mut ways = vec![CallPath { address: node.address, bearer: None, tool }];
    for tool in TOOL_NAMES {
        while let Err(error) = register_tool(toolkeep.process.address, folder, tool).await {
            if started.elapsed() > READY_TIMEOUT {
                return Err(format!("the tool is not registered: {error}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let served =
            CallPath { address: grpc, bearer: Some(read_bearer(folder, "agent.key")?), tool };
        let line = served.open_channel();
        while let Err(error) = served.call_tool(&line).await {
            if started.elapsed() > READY_TIMEOUT {
                return Err(format!("no call goes through: {error}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        ways.push(served);
    }
    let mut rows = Vec::new();
    for callers in &sizes.callers {
        let mut slices: Vec<_> = ways.iter().map(|_| Vec::new()).collect();
        for round in 0..sizes.rounds {
            let mut turns: Vec<_> = ways.iter().zip(&mut slices).collect();
            // Alternates the order, so that no path always follows the same other.
            if round % 2 == 1 {
                turns.reverse();
            }
            for (to, slices) in turns {
                slices.push(measure_slice(to, *callers, sizes.slice).await?);
            }
        }
        let mut slices = slices.into_iter();
        let straight = slices.next().unwrap_or_default();
        rows.push(NodeCallRow { callers: *callers, direct: straight, proxied: slices.collect() });
    }
    Ok(rows)
}

fn read_bearer(folder: &Path, file: &str) -> Result<String, String> {
    let key = std::fs::read_to_string(folder.join("data").join(file));
    Ok(format!("Bearer {}", key.map_err(|error| error.to_string())?.trim()))
}

async fn register_tool(at: SocketAddr, folder: &Path, tool: &str) -> Result<(), String> {
    let body = json!({
        "name": tool, "node_id": "bench", "description": "Says it.",
        "input_spec": {"text": "string"}, "metadata": {},
    });
    let request = Request::post("/tools")
        .header(HOST, at.to_string())
        .header(CONTENT_TYPE, "application/json")
        .header(AUTHORIZATION, read_bearer(folder, "owner.key")?);
    let request = request.body(Full::new(Bytes::from(body.to_string())));
    let request = request.map_err(|error| error.to_string())?;
    let answer = open_connection(at).await?.send_request(request).await;
    let status = answer.map_err(|error| error.to_string())?.status();
    if status == StatusCode::CREATED { Ok(()) } else { Err(status.to_string()) }
}

/// Measures one slice: calls per second and the latency of each call.
async fn measure_slice(
    path: &CallPath,
    callers: usize,
    duration: Duration,
) -> Result<(f64, LatencyHistogram), String> {
    let start = Arc::new(Barrier::new(callers));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (to, start) = (path.clone(), Arc::clone(&start));
        running.spawn(async move {
            let line = to.open_channel();
            let warm = async {
                for _ in 0..crate::load_generator::WARMUP_CALLS {
                    to.call_tool(&line).await?;
                }
                Ok::<_, String>(())
            };
            let warm = warm.await;
            // Every caller reaches the barrier, even after an error, because the others wait for
            // it.
            start.wait().await;
            warm?;
            let (begun, mut calls, mut latencies) =
                (Instant::now(), 0_u32, LatencyHistogram::default());
            while begun.elapsed() < duration {
                let sent = Instant::now();
                to.call_tool(&line).await?;
                latencies.record_latency(sent.elapsed());
                calls += 1;
            }
            Ok::<_, String>((f64::from(calls) / begun.elapsed().as_secs_f64(), latencies))
        });
    }
    let (mut rate, mut all) = (0.0, LatencyHistogram::default());
    while let Some(one) = running.join_next().await {
        let (own, latencies) = one.map_err(|error| error.to_string())??;
        rate += own;
        all.merge(&latencies);
    }
    Ok((rate, all))
}
