//! Support for tests on real input: the command line, helper programs, and modules that record
//! their requests.

pub(crate) mod child_program;
pub(crate) mod mcp_caller;
pub(crate) mod recording_module;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::support::rest_client::{Client, Reply};
use crate::support::server_process::{READY_LIMIT, Server, TOOLKEEP};

/// A folder of these tests' own files, in the source tree.
pub(crate) fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real")
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Runs a command to its end.
    pub(crate) fn run_command(command: &mut Command) -> Self {
        let ended = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: ended.status.code(), out: text(ended.stdout), err: text(ended.stderr) }
    }

    /// Returns its output if it succeeded.
    #[track_caller]
    pub(crate) fn expect_success(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        self.out
    }

    /// Returns its output as JSON, whatever its exit status.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }
}

/// Creates a command without the test run's environment variables for Toolkeep.
#[expect(clippy::disallowed_methods, reason = "a test stands outside, where a person does")]
pub(crate) fn test_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in ["CONFIG", "DATA", "URL", "KEY", "LISTEN", "LOG"] {
        command.env_remove(format!("TOOLKEEP_{name}"));
    }
    command
}

/// The binary under test.
pub(crate) fn toolkeep() -> Command {
    test_command(TOOLKEEP)
}

/// Command line for a running server, which it finds by the data directory.
pub(crate) fn run_cli(server: &Server, words: &[&str]) -> CommandOutput {
    CommandOutput::run_command(toolkeep().args(words).arg("--data").arg(&server.data))
}

/// The body of an answer, where its status is 200.
#[track_caller]
pub(crate) fn expect_ok(reply: Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

/// Returns the sources, after each was listed or has failed.
pub(crate) async fn wait_for_sources(client: &Client) -> Vec<Value> {
    for _ in 0..READY_LIMIT.as_millis() / 20 {
        let Value::Array(sources) = expect_ok(client.get("/v1/sources").await)["sources"].take()
        else {
            panic!("no list of sources")
        };
        if sources.iter().all(|source| source["state"] != "starting") {
            return sources;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the sources never settle");
}
