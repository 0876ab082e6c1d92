//! Other MCP gateways measured in the same run. Each is installed with `pip` and configured as its
//! documentation says, without rate limits and optional extras.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::target::HelperProcess;
use crate::timed_request::TimedRequest;
use crate::toolkeep_process::free_address;

/// Longest time until a gateway forwards a call; some create a database first.
const READY_TIMEOUT: Duration = Duration::from_mins(5);

const FASTMCP_SCRIPT: &str = include_str!("../peers/fastmcp_proxy.py");
const REGISTER_SCRIPT: &str = include_str!("../peers/contextforge_register.py");

/// A running gateway and the call to measure it with.
pub(crate) struct PeerGateway {
    pub(crate) name: &'static str,
    pub(crate) part: HelperProcess,
    pub(crate) message: TimedRequest,
}

/// The running gateways, and reasons why others are missing.
#[derive(Default)]
pub(crate) struct PeerSet {
    pub(crate) running: Vec<PeerGateway>,
    pub(crate) missing: Vec<String>,
}

/// Starts a gateway, given its installation, the upstream address and a folder for its files.
type PeerStarter = fn(&Path, SocketAddr, &Path) -> Result<PeerGateway, String>;

/// Starts all gateways installed under `install_dir` in front of the MCP server at `upstream`.
pub(crate) async fn start_peers(
    install_dir: &Path,
    upstream: SocketAddr,
    folder: &Path,
) -> PeerSet {
    let mut peers = PeerSet::default();
    let all: [(_, _, PeerStarter); 2] = [
        (FASTMCP_NAME, "peer-fastmcp", start_fastmcp),
        (CONTEXTFORGE_NAME, "peer-contextforge", start_contextforge),
    ];
    for (name, home, begin) in all {
        let home = install_dir.join(home);
        let started = if home.is_dir() {
            begin(&home, upstream, folder)
        } else {
            Err("it is not installed; what `pip` said of it stands above".to_owned())
        };
        let ready = match started {
            Ok(peer) => wait_for_call(&peer).await.map(|()| peer),
            Err(why) => Err(why),
        };
        match ready {
            Ok(peer) => peers.running.push(peer),
            Err(why) => {
                println!("{name} is not measured: {why}");
                // One line, for the report.
                peers.missing.push(format!("{name} was not measured: {}", first_line(&why)));
            }
        }
    }
    peers
}

const FASTMCP_NAME: &str = "fastmcp proxy";
const CONTEXTFORGE_NAME: &str = "ContextForge";
/// Names of the gateways in the report.
pub(crate) const PEER_NAMES: [&str; 2] = [FASTMCP_NAME, CONTEXTFORGE_NAME];

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end()
}

fn start_fastmcp(home: &Path, upstream: SocketAddr, folder: &Path) -> Result<PeerGateway, String> {
    let address = free_address().map_err(|e| format!("no port: {e}"))?;
    let mut command = Command::new(home.join("bin/python"));
    command.args([
        "-c",
        FASTMCP_SCRIPT,
        &format!("http://{upstream}/mcp"),
        &address.port().to_string(),
    ]);
    let part = HelperProcess::spawn_at(
        log_output_to(&mut command, &folder.join("fastmcp.log"))?,
        address,
    )?;
    Ok(PeerGateway { name: FASTMCP_NAME, part, message: TimedRequest::tool_call(address, "echo") })
}

/// Starts ContextForge with its own tokens, because all targets check a key; without rate limit,
/// admin page and telemetry.
fn start_contextforge(
    installed: &Path,
    upstream: SocketAddr,
    folder: &Path,
) -> Result<PeerGateway, String> {
    let address = free_address().map_err(|e| format!("no port: {e}"))?;
    let bin = installed.join("bin");
    let home = folder.join("contextforge");
    fs::create_dir_all(&home).map_err(|e| format!("`{}`: {e}", home.display()))?;
    let database = format!("sqlite:///{}/mcp.db", home.display());
    let settings = [
        ("DATABASE_URL", database.as_str()),
        ("CACHE_TYPE", "memory"),
        ("PLATFORM_ADMIN_EMAIL", "bench@example.com"),
        ("PLATFORM_ADMIN_PASSWORD", "only-for-this-Run-1"),
        ("BASIC_AUTH_PASSWORD", "only-for-this-Run-2"),
        ("JWT_SECRET_KEY", "only-for-this-run-0123456789-abcdefghij"),
        ("AUTH_ENCRYPTION_SECRET", "only-for-this-run-9876543210-jihgfedcba"),
        ("MCPGATEWAY_UI_ENABLED", "false"),
        ("MCPGATEWAY_ADMIN_API_ENABLED", "false"),
        ("RATE_LIMITING_ENABLED", "false"),
        ("TOOL_RATE_LIMIT", "1000000000"),
        ("SSRF_ALLOW_LOCALHOST", "true"),
        ("SSRF_ALLOW_PRIVATE_NETWORKS", "true"),
        ("OTEL_ENABLE_OBSERVABILITY", "false"),
        ("LOG_LEVEL", "CRITICAL"),
    ];
    let mut command = Command::new(bin.join("mcpgateway"));
    command.args(["mcpgateway.main:app", "--host", "127.0.0.1", "--no-access-log"]);
    command.args(["--port", &address.port().to_string()]);
    command.envs(settings).env("HOME", &home).current_dir(&home);
    let part = HelperProcess::spawn_at(
        log_output_to(&mut command, &folder.join("contextforge.log"))?,
        address,
    )?;
    let mut register = Command::new(bin.join("python"));
    register.args([
        "-c",
        REGISTER_SCRIPT,
        &format!("http://{address}"),
        &format!("http://{upstream}/mcp"),
    ]);
    let ran = register.envs(settings).current_dir(&home).output();
    let ran = ran.map_err(|e| format!("`{}`: {e}", bin.display()))?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        return Err(format!("ContextForge takes no server: {}", said.trim_end()));
    }
    let token = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
    let headers = [("authorization".to_owned(), format!("Bearer {token}"))];
    let message = TimedRequest::tool_call(address, "bench-echo").with_headers(&headers);
    Ok(PeerGateway { name: CONTEXTFORGE_NAME, part, message })
}

fn log_output_to<'c>(command: &'c mut Command, log: &Path) -> Result<&'c mut Command, String> {
    let failed = |e: std::io::Error| format!("`{}`: {e}", log.display());
    let file = File::create(log).map_err(failed)?;
    Ok(command.stdout(Stdio::from(file.try_clone().map_err(failed)?)).stderr(Stdio::from(file)))
}

/// Waits until a call returns the expected answer.
async fn wait_for_call(peer: &PeerGateway) -> Result<(), String> {
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < READY_TIMEOUT {
        match peer.message.send_once().await {
            Ok(answer) if peer.message.is_expected(&answer) => return Ok(()),
            Ok(answer) => last = answer.body_start(),
            Err(error) => last = error,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err(format!("{} passes no call on: {last}", peer.name))
}
