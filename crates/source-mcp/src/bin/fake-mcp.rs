//! MCP server over stdio for the tests of this crate. Its first argument selects the mode. Also
//! contains the supervisor that the launcher of `sandbox` needs.

use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let mode = args.next().and_then(|mode| mode.into_string().ok()).unwrap_or_default();
    if mode == "__launch" {
        return sandbox::process::run_supervisor(args);
    }
    let number = args.next().and_then(|n| n.into_string().ok()?.parse().ok()).unwrap_or(0);
    match (FakeServer { mode, number, calls: 0 }).serve_stdin() {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}

struct FakeServer {
    mode: String,
    number: u32,
    calls: u32,
}

impl FakeServer {
    /// Serves until its input ends or its mode ends it. Returns the exit status.
    fn serve_stdin(mut self) -> io::Result<u8> {
        writeln!(io::stderr(), "fake-mcp: mode {}", self.mode)?;
        match &*self.mode {
            "hang-start" => sleep_long(),
            "crash-start" => return Ok(9),
            "noise" => writeln!(io::stdout(), "welcome to fake-mcp\n[info] ready")?,
            "family" => spawn_descendants()?,
            _ => {}
        }
        for line in io::stdin().lock().lines() {
            let Ok(request) = serde_json::from_str::<Value>(&line?) else { continue };
            let id = request.get("id").cloned().unwrap_or_default();
            match request.get("method").and_then(Value::as_str) {
                Some("initialize") => write_result(&id, &initialize_result(&request))?,
                Some("tools/list") if self.mode == "hang-list" => sleep_long(),
                Some("tools/list") => write_result(&id, &self.list_tools())?,
                Some("tools/call") => {
                    if let Some(code) = self.handle_call(&id, &request)? {
                        return Ok(code);
                    }
                }
                _ => {}
            }
        }
        Ok(0)
    }

    fn handle_call(&mut self, id: &Value, request: &Value) -> io::Result<Option<u8>> {
        self.calls += 1;
        match &*self.mode {
            "crash" if self.calls > self.number => {
                writeln!(io::stderr(), "fake-mcp: fatal: out of \u{1b}[31mcheese")?;
                return Ok(Some(3));
            }
            "hang-call" => sleep_long(),
            "flood" => loop {
                writeln!(io::stdout(), "{}", "la".repeat(500))?;
            },
            "grow" => {
                let news = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                writeln!(io::stdout(), "{news}")?;
            }
            _ => {}
        }
        let said = request.pointer("/params/arguments").map(Value::to_string).unwrap_or_default();
        write_result(id, &json!({"content": [{"type": "text", "text": said}]}))?;
        Ok(None)
    }

    fn list_tools(&self) -> Value {
        // Of mode `described`, in a file that a test changes between two starts.
        let file = std::env::var_os("TK_DESCRIPTION");
        let description = file.and_then(|file| std::fs::read_to_string(file).ok());
        let description = description.unwrap_or_default();
        let tool = |name: String| json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
        let mut tools = vec![tool("echo".to_owned())];
        if self.mode == "grow" {
            tools.extend((0..self.calls).map(|n| tool(format!("extra{n}"))));
        }
        json!({"tools": tools})
    }
}

fn initialize_result(request: &Value) -> Value {
    let version = request.pointer("/params/protocolVersion").cloned().unwrap_or_default();
    json!({
        "protocolVersion": version, "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "fake-mcp", "version": "1"},
    })
}

fn write_result(id: &Value, result: &Value) -> io::Result<()> {
    writeln!(io::stdout(), "{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn sleep_long() {
    std::thread::sleep(Duration::from_mins(10));
}

/// Spawns a child in its own session and a grandchild: processes that a plain kill leaves behind.
fn spawn_descendants() -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a server under test may do what it likes")]
    let mut command = std::process::Command::new("setsid");
    let script = "trap '' TERM; sleep 600 & sleep 600";
    drop(command.args(["sh", "-c", script]).stdin(std::process::Stdio::null()).spawn()?);
    Ok(())
}
