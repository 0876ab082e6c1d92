//! A server that is played: it answers what the test wrote down, and keeps what it was asked.

use std::collections::HashMap;
use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use clap::Parser as _;
use http::{Request, Response};
use serde_json::Value;
use server_core::KeyStore;
use store::SqliteStore;
use tool::{BoxFuture, WallTime};

use crate::initial_keys::create_initial_keys;
use crate::{Cli, run_command};
use cli_core::build_facts::{BuildFacts, BuildProfile};
use cli_core::command_error::{CommandError, ExitStatus};
use cli_core::printer::Printer;
use cli_core::server_launcher::{
    BoundAddresses, ConfigReview, LaunchOptions, RunningServer, ServerLauncher, ToolServerFactory,
};
use cli_core::server_transport::{ServerTransport, TransportError};
use config::{Config, Environment};

/// Answers by method and path, and a data directory of its own.
pub(crate) struct Played {
    folder: tempfile::TempDir,
    script: Arc<Script>,
    starts: Mutex<usize>,
    review: Mutex<ConfigReview>,
}

#[derive(Default)]
struct Script {
    answers: Mutex<HashMap<String, (u16, String)>>,
    asked: Mutex<Vec<Request<Bytes>>>,
}

/// What a command did.
pub(crate) struct Ran {
    pub(crate) exit: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }
}

impl Default for Played {
    fn default() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, script: Arc::default(), starts: Mutex::default(), review: Mutex::default() }
    }
}

impl Played {
    pub(crate) fn answers(self, to: &str, body: &Value) -> Self {
        self.says(to, &body.to_string())
    }

    pub(crate) fn says(self, to: &str, body: &str) -> Self {
        self.script.answers.lock().unwrap().insert(to.to_owned(), (200, body.to_owned()));
        self
    }

    pub(crate) fn refuses(self, to: &str, status: u16, body: &Value) -> Self {
        self.script.answers.lock().unwrap().insert(to.to_owned(), (status, body.to_string()));
        self
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The `Authorization` headers of all requests.
    pub(crate) fn keys(&self) -> Vec<String> {
        let asked = self.script.asked.lock().unwrap();
        let key = |request: &Request<Bytes>| {
            request.headers()["authorization"].to_str().unwrap().to_owned()
        };
        asked.iter().map(key).collect()
    }

    /// Method and path of each request, and its `Authorization` header.
    pub(crate) fn requests(&self) -> Vec<(String, Option<String>)> {
        let asked = self.script.asked.lock().unwrap();
        let told = |request: &Request<Bytes>| {
            let key =
                request.headers().get("authorization").map(|it| it.to_str().unwrap().to_owned());
            (format!("{} {}", request.method(), request.uri().path()), key)
        };
        asked.iter().map(told).collect()
    }

    /// The body of the last request.
    pub(crate) fn body(&self) -> String {
        let asked = self.script.asked.lock().unwrap();
        String::from_utf8(asked.last().unwrap().body().to_vec()).unwrap()
    }

    pub(crate) fn starts(&self) -> usize {
        *self.starts.lock().unwrap()
    }

    pub(crate) fn run(&self, line: &[&str]) -> Ran {
        let data = self.data();
        let line = ["toolkeep"]
            .into_iter()
            .chain(line.iter().copied())
            .chain(["--data", data.to_str().unwrap()]);
        self.run_line(Cli::try_parse_from(line).unwrap())
    }

    /// A line that says itself where its data is.
    pub(crate) fn run_whole(&self, line: &[&str]) -> Ran {
        self.run_line(Cli::try_parse_from(["toolkeep"].iter().chain(line)).unwrap())
    }

    fn run_line(&self, line: Cli) -> Ran {
        let (out, err) = (Kept::default(), Kept::default());
        let mut ui = Printer::with_streams(line.common.output, out.clone(), err.clone());
        let exit = run_command(line, self, &mut ui).unwrap_or_else(|failure| {
            ui.print_error(&failure);
            failure.exit_status()
        });
        Ran { exit: exit.code(), out: out.text(), err: err.text() }
    }
}

impl ServerLauncher for Played {
    fn review_config<'a>(
        &'a self,
        _: &'a Config,
        _: &'a Arc<Environment>,
    ) -> BoxFuture<'a, Result<ConfigReview, CommandError>> {
        let review = self.review.lock().unwrap().clone();
        Box::pin(std::future::ready(Ok(review)))
    }

    fn build_facts(&self) -> BuildFacts {
        BuildFacts {
            commit: None,
            target: "x".to_owned(),
            profile: BuildProfile::Plain,
            features: vec![],
            sources: vec![],
            stores: vec![],
        }
    }

    fn launch_server(
        &self,
        start: LaunchOptions,
    ) -> BoxFuture<'_, Result<RunningServer, CommandError>> {
        assert!(!start.listens && start.anonymous_level.is_none());
        *self.starts.lock().unwrap() += 1;
        let door = Arc::clone(&self.script);
        Box::pin(async move {
            let store = SqliteStore::open_file(start.data_dir_lock.dir().store_file()).unwrap();
            let (keys, _) = KeyStore::load(Arc::new(store), None).await.unwrap();
            let changes =
                create_initial_keys(&start.data_dir_lock, &keys, WallTime(1), start.recreates_keys)
                    .await?;
            let stop = start.stop.clone();
            let offers = ToolServerFactory::new(|_| -> Result<(), CommandError> {
                Err(CommandError::new(ExitStatus::Failed, "nothing is played"))
            });
            let ended = Box::pin(async move {
                stop.cancelled().await;
                drop(start);
                Ok(())
            });
            let beside = BoundAddresses::default();
            Ok(RunningServer {
                address: None,
                extra_addresses: beside,
                has_console: false,
                transport: door,
                tool_server_factory: offers,
                key_changes: changes,
                invalid_keys: vec![],
                completion: ended,
            })
        })
    }
}

/// What a server finds wrong is the wiring's affair.
impl Played {
    pub(crate) fn reviewed(self, review: ConfigReview) -> Self {
        *self.review.lock().unwrap() = review;
        self
    }
}

impl ServerTransport for Script {
    fn send_request(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Bytes>, TransportError>> {
        let asked = format!("{} {}", request.method(), request.uri());
        self.asked.lock().unwrap().push(request);
        let missing = || (500, format!("nothing is written down for {asked}"));
        let (status, body) =
            self.answers.lock().unwrap().get(&asked).cloned().unwrap_or_else(missing);
        let answer = Response::builder().status(status).body(Bytes::from(body)).unwrap();
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A real socket that reads the head of one request, tells it, and answers nothing of use.
pub(crate) fn listener() -> (String, Receiver<String>) {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let (tell, seen) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = socket.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
            head.extend(byte);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        tell.send(String::from_utf8_lossy(&head).into_owned()).unwrap();
    });
    (url, seen)
}
