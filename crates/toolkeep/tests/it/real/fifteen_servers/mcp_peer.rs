//! A peer for calls: a server over stdio, or Toolkeep in front of it.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::gateway_peer::GatewayPeer;
use super::raw_json::{Raw, items, members};
use super::server_list::{Side, Upstream};
use crate::real_support::test_command;
use crate::support::process_marks::{MARK_VARIABLE, ProcessIdentity, children};
use crate::support::server_process::READY_LIMIT;

pub(super) enum McpPeer {
    Direct(Box<DirectPeer>),
    Door(GatewayPeer),
}

/// A server that runs for this test alone.
pub(super) struct DirectPeer {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    asked: u64,
    /// Its declared capabilities.
    able: Value,
}

impl McpPeer {
    /// Starts a server and greets it as Toolkeep does.
    pub(super) async fn direct(server: &Upstream, side: &Side) -> Self {
        let able = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} });
        Self::able((server, side), &able).await
    }

    /// Starts a server and initialises it with these client capabilities, which affect what some
    /// servers list.
    pub(super) async fn able((server, side): (&Upstream, &Side), able: &Value) -> Self {
        let mut std = test_command(&server.words[0]);
        std.args(&server.words[1..]).envs(server.env(side)).env(MARK_VARIABLE, &side.mark);
        std.current_dir(&side.folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let log = std::fs::File::create(side.folder.join(format!("{}.log", server.name))).unwrap();
        std.stderr(log);
        let mut child = Command::from(std).kill_on_drop(true).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut direct = DirectPeer { child, input, lines, asked: 0, able: Value::Null };
        let hello = json!({
            "protocolVersion": "2025-11-25", "clientInfo": { "name": "test", "version": "1" },
            "capabilities": able,
        });
        let about = direct.ask("initialize", &hello).await;
        let about = about.unwrap_or_else(|error| panic!("{}: {error}", server.name));
        let about: Value = serde_json::from_str(about.get()).unwrap();
        direct.able = about["capabilities"].clone();
        direct.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        Self::Direct(Box::new(direct))
    }

    /// Returns the result or the error as received.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Result<Raw, String> {
        match self {
            Self::Direct(direct) => direct.ask(method, &params).await,
            Self::Door(door) => door.ask(method, params).await,
        }
    }

    /// All pages of a list.
    pub(super) async fn list(&mut self, method: &str, member: &str) -> Result<Vec<Raw>, String> {
        let (mut all, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.ask(method, params).await?;
            all.extend(items(page.get(), member));
            let Some(next) = members(page.get()).remove("nextCursor") else { return Ok(all) };
            params = json!({ "cursor": next });
        }
    }

    /// Returns whether a server declared prompts, or resources.
    pub(super) fn has(&self, what: &str) -> bool {
        matches!(self, Self::Direct(direct) if direct.able.get(what).is_some())
    }

    /// Ends a server as MCP specifies: its input is closed, and it exits.
    pub(super) async fn end(self) {
        let Self::Direct(direct) = self else { return };
        let DirectPeer { mut child, input, .. } = *direct;
        let below = child.id().map(descendants).unwrap_or_default();
        drop(input);
        if timeout(Duration::from_secs(10), child.wait()).await.is_err() {
            child.kill().await.unwrap();
        }
        // A server that does not end its own children leaves them to its parent.
        for (pid, _) in below.iter().filter(|known| alive(known)) {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn alive(known: &ProcessIdentity) -> bool {
    crate::support::process_marks::count_running(&BTreeSet::from([*known])) == 1
}

impl DirectPeer {
    async fn say(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        self.input.flush().await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: &Value) -> Result<Raw, String> {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let answer = timeout(READY_LIMIT, self.answer(&id.to_string())).await;
        answer.unwrap_or_else(|_| Err(format!("no answer to {method}")))
    }

    /// Reads until the response arrives. Requests of the server meanwhile are not supported.
    async fn answer(&mut self, id: &str) -> Result<Raw, String> {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            let mut found = members(&line);
            let of = found.remove("id");
            if found.contains_key("method") {
                if let Some(of) = of {
                    let error = json!({ "code": -32601, "message": "not here" });
                    self.say(&json!({ "jsonrpc": "2.0", "id": of, "error": error })).await;
                }
            } else if of.is_some_and(|of| of.get() == id) {
                let error = found.remove("error").map(|error| error.get().to_owned());
                return found.remove("result").ok_or(error.unwrap_or(line));
            }
        }
        Err("it ended".to_owned())
    }
}

/// All that runs below a process now.
pub(super) fn descendants(of: u32) -> BTreeSet<ProcessIdentity> {
    let (mut all, mut next) = (BTreeSet::new(), vec![of]);
    while let Some(parent) = next.pop() {
        for known in children(parent) {
            if all.insert(known) {
                next.push(known.0);
            }
        }
    }
    all
}
