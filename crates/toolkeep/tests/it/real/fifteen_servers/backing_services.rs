//! Services that some of the servers need: Redis, MongoDB and a web page, on free loopback ports.

use std::net::TcpListener;
use std::path::Path;

use axum::response::Html;
use axum::routing::get;
use tokio::task::JoinSet;

use crate::real::installed_programs;
use crate::real_support::child_program::Program;
use crate::real_support::test_command;
use crate::support::installation::Installation;

/// How often a port is tried that somebody else may take first.
const TRIES: usize = 5;

const PAGE: &str = "<!doctype html><html><head><title>Opening hours</title><link rel=\"icon\" href=\"data:,\"></head><body>\
    <h1>Opening hours</h1><p>Monday to Friday, <b>9 to 17</b>.</p><a href=\"/map\">Map</a></body></html>";

pub(super) struct BackingServices {
    _programs: [Program; 3],
    _page: JoinSet<()>,
    /// `server-everything`, over HTTP.
    pub(super) remote: String,
    pub(super) redis: String,
    pub(super) mongodb: String,
    pub(super) page: String,
    pub(super) chromium: String,
    /// An address where nothing listens.
    pub(super) nowhere: String,
}

impl BackingServices {
    pub(super) async fn start(home: &Installation) -> Self {
        let (everything, remote) = installed_programs::everything_over_http();
        let folder = home.path("around");
        std::fs::create_dir(&folder).unwrap();
        let program = debian("redis-server");
        let redis = started(&folder, "Ready to accept connections", |port| {
            let rest = "--bind 127.0.0.1 --save --appendonly no --daemonize no --port";
            let rest = rest.split(' ').flat_map(|word| match word {
                "--save" => vec!["--save", ""],
                word => vec![word],
            });
            let rest = rest.map(str::to_owned).chain([port.to_string()]);
            [program.clone()].into_iter().chain(rest).collect()
        });
        let program = installed_programs::file("venv-mongodb/bin/secantusd-py");
        let mongodb = started(&folder, "istening", |port| {
            let rest = format!("--host 127.0.0.1 --storage-path :memory: --port {port}");
            [program.clone()].into_iter().chain(rest.split(' ').map(str::to_owned)).collect()
        });
        let (page, address) = page().await;
        Self {
            remote,
            redis: format!("redis://127.0.0.1:{}/0", redis.1),
            mongodb: format!("mongodb://127.0.0.1:{}/?directConnection=true", mongodb.1),
            page: address,
            chromium: debian("chromium"),
            nowhere: format!("https://127.0.0.1:{}", free()),
            _programs: [everything, redis.0, mongodb.0],
            _page: page,
        }
    }
}

/// A Debian program, which `provision` installs if available.
fn debian(program: &str) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|bin| bin.join(program)).find(|it| it.is_file());
    let found = found.map(|path| path.into_os_string().into_string().unwrap());
    found.unwrap_or_else(|| {
        panic!("no `{program}` on this machine: run `cargo xtask provision`, which installs it as root, or `apt-get install {program}`")
    })
}

fn free() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a program at a free port and waits until it reports that it listens.
fn started(folder: &Path, ready: &str, words: impl Fn(u16) -> Vec<String>) -> (Program, u16) {
    for _ in 0..TRIES {
        let port = free();
        // Some report it on one pipe, some on the other.
        let mut shell = test_command("sh");
        shell
            .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
            .args(words(port))
            .current_dir(folder)
            .env("TMPDIR", folder);
        let program = Program::start(&mut shell);
        if program.has_line(ready) {
            return (program, port);
        }
    }
    panic!("does not start: {:?}", words(0))
}

/// A page for servers that read the web.
async fn page() -> (JoinSet<()>, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let router = axum::Router::new().route("/", get(|| async { Html(PAGE) }));
    let mut served = JoinSet::new();
    served.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (served, address)
}
