//! Tests of descriptor limits: children get the original limit back, and sources leave descriptors
//! for clients. Limits apply to a process, so each test runs in its own.

use std::ffi::OsString;
use std::fs::File;
use std::process::Command;

use bytes::Bytes;
use egress::{EgressClient, EgressOptions, Origin, RequestLimits, UrlTrust};
use host::descriptors::raise_soft_limit;
use http::Request;
use sandbox::process::{ChildProcess, CommandSpec, ProcessLauncher};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

const BIN: &str = env!("CARGO_BIN_EXE_sandbox-launch");
/// Environment variable that selects the branch of a test.
const INSIDE: &str = "TK_DESCRIPTORS";

fn start(command: &str, args: &[&str]) -> Result<ChildProcess, String> {
    let launcher = ProcessLauncher::new(BIN.into(), vec![OsString::from("__launch")]);
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let spec = CommandSpec { command: command.to_owned(), args, ..CommandSpec::default() };
    launcher.spawn_child(&spec).map_err(|error| error.to_string())
}

/// Accepts a connection and never answers it.
async fn accept(site: &TcpListener) -> TcpStream {
    site.accept().await.unwrap().0
}

/// Runs the same test in a process with these soft and hard limits.
fn again(test: &str, limits: &str, way: &str) {
    let output = Command::new("prlimit")
        .arg(format!("--nofile={limits}"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, way)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

#[tokio::test]
async fn children_have_the_soft_limit_that_toolkeep_was_started_with() {
    if std::env::var_os(INSIDE).is_none() {
        let name = "descriptors::children_have_the_soft_limit_that_toolkeep_was_started_with";
        return again(name, "777:1500", "raised");
    }
    let shares = raise_soft_limit().unwrap();
    assert_eq!(shares.limit, 1_500);
    let mut child = start("sh", &["-c", "ulimit -Sn; ulimit -Hn"]).unwrap();
    let mut text = String::new();
    child.take_stdout().unwrap().read_to_string(&mut text).await.unwrap();
    child.wait_ended().await;
    assert_eq!(text, "777\n1500\n");
    // Control: a child started without the launcher has the raised limit.
    let usual = Command::new("sh").args(["-c", "ulimit -Sn"]).output().unwrap();
    assert_eq!(usual.stdout, b"1500\n");
}

#[tokio::test]
async fn sources_leave_descriptors_for_clients() {
    let Some(way) = std::env::var_os(INSIDE) else {
        let name = "descriptors::sources_leave_descriptors_for_clients";
        again(name, "200:200", "shared");
        // Control: without shares, programs use all descriptors.
        return again(name, "200:200", "unshared");
    };
    let shares = if way == "shared" { Some(raise_soft_limit().unwrap()) } else { None };
    let (mut children, mut last) = (Vec::new(), String::new());
    while children.len() < 64 {
        match start("sleep", &["600"]) {
            Ok(child) => children.push(child),
            Err(why) => {
                last = why;
                break;
            }
        }
    }
    let files: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).take(120).collect();
    let Some(shares) = shares else {
        assert!(!last.contains("reserved for"), "{last}");
        assert!(files.len() < 20 && children.len() > 20, "{} {}", files.len(), children.len());
        return;
    };
    assert_eq!((shares.clients, shares.sources, children.len()), (68, 68, 13));
    assert!(last.contains("reserved for clients"), "{last}");
    assert!(files.len() >= shares.clients, "{}", files.len());
    drop(files);

    // Three remain for connections to sources.
    let site = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", site.local_addr().unwrap());
    let class = UrlTrust::Configured { origin: Origin::parse(&url).unwrap() };
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let get = || Request::get(&url).body(Bytes::new()).unwrap();
    let ask = || egress.send_request(&class, get(), RequestLimits::default());
    let three = async { [accept(&site).await, accept(&site).await, accept(&site).await] };
    let (mut held, last) = (futures_util::stream::FuturesUnordered::new(), ask());
    held.extend([ask(), ask(), ask()]);
    let _connections = tokio::select! {
        _ = futures_util::StreamExt::next(&mut held) => panic!("the site answers nothing"),
        three = three => three,
    };
    let error = last.await.map(drop).unwrap_err().to_string();
    assert!(error.contains("reserved for clients"), "{error}");
    // Released descriptors can be used again.
    assert!(start("sleep", &["600"]).is_err());
    drop(children.pop());
    children.push(start("sleep", &["600"]).unwrap());
}
