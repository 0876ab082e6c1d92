//! What the tests on real input add to the shared support: the command line, programs beside the
//! server, and modules that remember what they were sent.

pub(crate) mod mcp;
pub(crate) mod module;
pub(crate) mod program;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use crate::support::client::{Client, Reply};
use crate::support::server::{SOON, Server, TOOLKEEP};

/// A folder of these tests' own files, in the source tree.
pub(crate) fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real")
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Runs a command to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        let ended = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: ended.status.code(), out: text(ended.stdout), err: text(ended.stderr) }
    }

    /// Its output, where it succeeded.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        self.out
    }

    /// Its output as JSON, whatever its exit.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }
}

/// A program to start, deaf to what whoever runs the tests has told Toolkeep by variables.
#[expect(clippy::disallowed_methods, reason = "a test stands outside, where a person does")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in ["CONFIG", "DATA", "URL", "KEY", "LISTEN", "LOG"] {
        command.env_remove(format!("TOOLKEEP_{name}"));
    }
    command
}

/// The binary under test.
pub(crate) fn toolkeep() -> Command {
    command(TOOLKEEP)
}

/// The command line beside a running server, which it finds by the data directory.
pub(crate) fn cli(server: &Server, words: &[&str]) -> Ran {
    Ran::of(toolkeep().args(words).arg("--data").arg(&server.data))
}

/// The body of an answer, where its status is 200.
#[track_caller]
pub(crate) fn good(reply: Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

/// The sources, once every one of them was listed or failed.
pub(crate) async fn settled(client: &Client) -> Vec<Value> {
    for _ in 0..SOON.as_millis() / 20 {
        let Value::Array(sources) = good(client.get("/v1/sources").await)["sources"].take() else {
            panic!("no list of sources")
        };
        if sources.iter().all(|source| source["state"] != "starting") {
            return sources;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the sources never settle");
}
