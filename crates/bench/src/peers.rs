//! Other gateways, to be measured in the same run: what `pip` installs, set up as their documents say,
//! with what would only limit or decorate them switched off.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::message::Message;
use crate::target::Part;
use crate::toolkeep::free;

/// How long one may take until it passes a call on. Some write a database first.
const PATIENCE: Duration = Duration::from_mins(5);

const FASTMCP: &str = include_str!("../peers/fastmcp_proxy.py");
const REGISTER: &str = include_str!("../peers/contextforge_register.py");

/// A gateway that runs, and the call that passes it.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) part: Part,
    pub(crate) message: Message,
}

/// Those that run, and of the others why they are not measured.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) running: Vec<Peer>,
    pub(crate) missing: Vec<String>,
}

/// Starts one: where it is installed, what it stands before, where its files are.
type Starts = fn(&Path, SocketAddr, &Path) -> Result<Peer, String>;

/// Starts all of them, installed under `installs`, before the MCP server at `upstream`.
pub(crate) async fn start(installs: &Path, upstream: SocketAddr, folder: &Path) -> Peers {
    let mut peers = Peers::default();
    let all: [(_, _, Starts); 2] = [
        (FASTMCP_NAME, "peer-fastmcp", fastmcp),
        (CONTEXTFORGE_NAME, "peer-contextforge", contextforge),
    ];
    for (name, home, begin) in all {
        let home = installs.join(home);
        let started = if home.is_dir() {
            begin(&home, upstream, folder)
        } else {
            Err("it is not installed; what `pip` said of it stands above".to_owned())
        };
        let ready = match started {
            Ok(peer) => passes(&peer).await.map(|()| peer),
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
/// As the report names them.
pub(crate) const NAMES: [&str; 2] = [FASTMCP_NAME, CONTEXTFORGE_NAME];

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end()
}

fn fastmcp(home: &Path, upstream: SocketAddr, folder: &Path) -> Result<Peer, String> {
    let address = free().map_err(|e| format!("no port: {e}"))?;
    let mut command = Command::new(home.join("bin/python"));
    command.args(["-c", FASTMCP, &format!("http://{upstream}/mcp"), &address.port().to_string()]);
    let part = Part::at(logged(&mut command, &folder.join("fastmcp.log"))?, address)?;
    Ok(Peer { name: FASTMCP_NAME, part, message: Message::call(address, "echo") })
}

/// With its own tokens, since everything here checks a key; without its limit on requests, its page and
/// its telemetry.
fn contextforge(installed: &Path, upstream: SocketAddr, folder: &Path) -> Result<Peer, String> {
    let address = free().map_err(|e| format!("no port: {e}"))?;
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
    let part = Part::at(logged(&mut command, &folder.join("contextforge.log"))?, address)?;
    let mut register = Command::new(bin.join("python"));
    register.args([
        "-c",
        REGISTER,
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
    let message = Message::call(address, "bench-echo").with(&headers);
    Ok(Peer { name: CONTEXTFORGE_NAME, part, message })
}

fn logged<'c>(command: &'c mut Command, log: &Path) -> Result<&'c mut Command, String> {
    let failed = |e: std::io::Error| format!("`{}`: {e}", log.display());
    let file = File::create(log).map_err(failed)?;
    Ok(command.stdout(Stdio::from(file.try_clone().map_err(failed)?)).stderr(Stdio::from(file)))
}

/// Resolves when a call comes back as it should.
async fn passes(peer: &Peer) -> Result<(), String> {
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < PATIENCE {
        match peer.message.once().await {
            Ok(answer) if peer.message.fits(&answer) => return Ok(()),
            Ok(answer) => last = answer.start(),
            Err(error) => last = error,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err(format!("{} passes no call on: {last}", peer.name))
}
