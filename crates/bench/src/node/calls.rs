//! Calls over gRPC: straight to a node, and through the server.

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
use proto::connect::{Duplex, Line};
use proto::toolrpc::CallFunctionRequest;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::Barrier;

use super::Sizes;
use super::report::Row;
use crate::catalog::tempfile;
use crate::histogram::Histogram;
use crate::message::{TEXT, connect};
use crate::target::Part;
use crate::toolkeep::{Toolkeep, free};

/// The longest until a call goes through.
const PATIENCE: Duration = Duration::from_mins(1);
/// What the tools are called: one of which nobody said what it does, and one of which the operator said
/// that it changes nothing.
const TOOLS: [&str; 2] = ["said", "looked"];

/// Where calls go, and with which credential.
#[derive(Debug, Clone)]
struct Way {
    at: SocketAddr,
    bearer: Option<String>,
    tool: &'static str,
}

impl Way {
    fn line(&self) -> Line {
        let at = self.at;
        Line::new(move || {
            Box::pin(async move {
                let stream = TcpStream::connect(at).await?;
                stream.set_nodelay(true)?;
                Ok::<_, io::Error>(Box::new(stream) as Box<dyn Duplex>)
            })
        })
    }

    async fn call(&self, line: &Line) -> Result<(), String> {
        let input = Bytes::from(json!({ "text": TEXT }).to_string());
        let call = CallFunctionRequest { tool_name: self.tool.to_owned(), input };
        let mut request = tonic::Request::new(call);
        if let Some(bearer) = &self.bearer {
            let value = bearer.parse().map_err(|_| "the key cannot be sent".to_owned())?;
            request.metadata_mut().insert("authorization", value);
        }
        let said = line.executor().call_function(request).await;
        let said = said.map_err(|status| status.to_string())?.into_inner();
        if said.success { Ok(()) } else { Err(said.error) }
    }
}

/// All ways, for each number of callers, in turn.
pub(super) async fn measured(sizes: &Sizes, binary: &Path) -> Result<Vec<Row>, String> {
    let node = Part::start(&["node"])?;
    let folder = tempfile()?;
    let done = through(sizes, binary, (&node, &folder)).await;
    drop(std::fs::remove_dir_all(&folder));
    done
}

async fn through(
    sizes: &Sizes,
    binary: &Path,
    (node, folder): (&Part, &Path),
) -> Result<Vec<Row>, String> {
    let grpc = free().map_err(|error| error.to_string())?;
    let configuration = format!(
        "version: 1\nnodes: {{ addresses: {{ bench: 'http://{}' }}, read_only: [looked] }}\n\
         limits: {{ calls: 1024, calls_per_key: 1024, calls_per_key_and_source: 1024 }}\n",
        node.address
    );
    let mut command = Command::new(binary);
    command.env("TOOLKEEP_GRPC_LISTEN", grpc.to_string());
    let toolkeep = Toolkeep::spawn(command, &configuration, folder)?;
    let begun = Instant::now();
    let [tool, _] = TOOLS;
    let mut ways = vec![Way { at: node.address, bearer: None, tool }];
    for tool in TOOLS {
        while let Err(error) = register(toolkeep.part.address, folder, tool).await {
            if begun.elapsed() > PATIENCE {
                return Err(format!("the tool is not registered: {error}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let served = Way { at: grpc, bearer: Some(key(folder, "agent.key")?), tool };
        let line = served.line();
        while let Err(error) = served.call(&line).await {
            if begun.elapsed() > PATIENCE {
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
            // In turn forwards and backwards, so that none always comes after the other.
            if round % 2 == 1 {
                turns.reverse();
            }
            for (to, slices) in turns {
                slices.push(slice(to, *callers, sizes.slice).await?);
            }
        }
        let mut slices = slices.into_iter();
        let straight = slices.next().unwrap_or_default();
        rows.push(Row { callers: *callers, straight, through: slices.collect() });
    }
    Ok(rows)
}

fn key(folder: &Path, file: &str) -> Result<String, String> {
    let key = std::fs::read_to_string(folder.join("data").join(file));
    Ok(format!("Bearer {}", key.map_err(|error| error.to_string())?.trim()))
}

async fn register(at: SocketAddr, folder: &Path, tool: &str) -> Result<(), String> {
    let body = json!({
        "name": tool, "node_id": "bench", "description": "Says it.",
        "input_spec": {"text": "string"}, "metadata": {},
    });
    let request = Request::post("/tools")
        .header(HOST, at.to_string())
        .header(CONTENT_TYPE, "application/json")
        .header(AUTHORIZATION, key(folder, "owner.key")?);
    let request = request.body(Full::new(Bytes::from(body.to_string())));
    let request = request.map_err(|error| error.to_string())?;
    let answer = connect(at).await?.send_request(request).await;
    let status = answer.map_err(|error| error.to_string())?.status();
    if status == StatusCode::CREATED { Ok(()) } else { Err(status.to_string()) }
}

/// Calls in a second, and how long each took.
async fn slice(to: &Way, callers: usize, lasts: Duration) -> Result<(f64, Histogram), String> {
    let start = Arc::new(Barrier::new(callers));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (to, start) = (to.clone(), Arc::clone(&start));
        running.spawn(async move {
            let line = to.line();
            let warm = async {
                for _ in 0..crate::load::WARM {
                    to.call(&line).await?;
                }
                Ok::<_, String>(())
            };
            let warm = warm.await;
            // Everyone comes here, also with bad news: the others wait for it.
            start.wait().await;
            warm?;
            let (begun, mut calls, mut latencies) = (Instant::now(), 0_u32, Histogram::default());
            while begun.elapsed() < lasts {
                let sent = Instant::now();
                to.call(&line).await?;
                latencies.record(sent.elapsed());
                calls += 1;
            }
            Ok::<_, String>((f64::from(calls) / begun.elapsed().as_secs_f64(), latencies))
        });
    }
    let (mut rate, mut all) = (0.0, Histogram::default());
    while let Some(one) = running.join_next().await {
        let (own, latencies) = one.map_err(|error| error.to_string())??;
        rate += own;
        all.merge(&latencies);
    }
    Ok((rate, all))
}
