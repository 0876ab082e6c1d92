//! Tests of the sandbox: its processes reach nothing outside, and none of them survives.

mod ends;
mod neighbours;
mod root;
mod scenarios;

use std::ffi::OsString;
use std::path::PathBuf;

use sandbox::process::{ChildExit, CommandSpec, ProcessLauncher};
use sandbox::{SandboxLevel, SandboxSpec, detect_support, run_self_test};
use tokio::io::AsyncReadExt as _;

const BIN: &str = env!("CARGO_BIN_EXE_sandbox-launch");

fn launcher() -> ProcessLauncher {
    ProcessLauncher::new(PathBuf::from(BIN), vec![OsString::from("__launch")])
}

/// Builds the command of a script in a sandbox.
fn shell(sandbox_spec: SandboxSpec, script: &str) -> CommandSpec {
    CommandSpec {
        command: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".into())],
        clear_env: true,
        cwd: sandbox_spec.work_dir.clone(),
        sandbox: Some(sandbox_spec),
    }
}

/// Returns the output of a script on both streams, and its exit.
async fn said(sandbox_spec: SandboxSpec, script: &str) -> (String, ChildExit) {
    let mut child =
        launcher().spawn_child(&shell(sandbox_spec, &format!("exec 2>&1; {script}"))).unwrap();
    let mut text = String::new();
    let mut stdout = child.take_stdout().unwrap().take(1 << 20);
    drop(stdout.read_to_string(&mut text).await);
    (text, child.wait_ended().await)
}

fn work() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), all).unwrap();
    folder
}

fn sandbox_spec(tier: SandboxLevel, work: &tempfile::TempDir) -> SandboxSpec {
    SandboxSpec::new(tier).with_work_dir(work.path().canonicalize().unwrap())
}

#[tokio::test]
async fn both_tiers_hold_against_every_attempt() {
    for tier in [SandboxLevel::Full, SandboxLevel::NoNamespaces] {
        let found = run_self_test(&launcher(), tier).await.unwrap();
        let broken: Vec<_> = found.failed_attempts().collect();
        assert_eq!(broken, [] as [&sandbox::EscapeAttempt; 0], "{tier:?}");
        assert!(found.attempts.len() > 20, "{}", found.attempts.len());
    }
    assert_eq!(detect_support(&launcher()).await.best_level(), Some(SandboxLevel::Full));
}

#[tokio::test]
async fn a_script_works_in_its_folder() {
    for tier in [SandboxLevel::Full, SandboxLevel::NoNamespaces] {
        let work = work();
        std::fs::write(work.path().join("given"), "given\n").unwrap();
        let script = "cat given; echo made > made; pwd; id -u; ls /; echo $$";
        let (text, exit) = said(sandbox_spec(tier, &work), script).await;
        assert_eq!(exit, ChildExit::Code(0), "{tier:?} {text}");
        assert!(text.starts_with("given\n"), "{text}");
        assert_eq!(std::fs::read_to_string(work.path().join("made")).unwrap(), "made\n");
    }
}

/// The same attempts must succeed without a sandbox, or the tests prove nothing.
#[tokio::test]
async fn without_a_sandbox_the_attempts_succeed() {
    let folder = work();
    let inside = folder.path().join("work");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(folder.path().join("canary"), "outside").unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let _plain = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let name = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        );
    let _abstract = std::os::unix::net::UnixListener::bind_addr(&address.unwrap()).unwrap();
    let ports = [tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port()];
    let output = std::process::Command::new(BIN)
        .arg("__probe")
        .args([folder.path().to_str().unwrap(), &name])
        .args(ports.map(|port| port.to_string()))
        .arg(std::process::id().to_string())
        .current_dir(&inside)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let broken = text.lines().filter(|line| line.starts_with("broken\t")).count();
    assert!(folder.path().join("written").exists());
    for name in [
        "read a file outside",
        "list a folder outside",
        "read a file outside by a link",
        "connect by TCP",
        "send by UDP",
        "connect to a socket by its path",
        "connect to an abstract socket",
        "read another's environment",
        "signal another process",
        "trace another process",
        "change another's limits",
        "change another's priority",
        "change another's scheduling",
        "change another's processors",
        "change another's disk priority",
        "make a user namespace",
        "use io_uring",
        "gain rights by a program",
    ] {
        assert!(text.contains(&format!("broken\t{name}\t")), "{name}: {text}");
    }
    assert!(broken > 12, "{text}");
}

#[tokio::test]
async fn a_folder_to_read_is_there_and_cannot_be_written_whatever_leads_to_it() {
    let work = work();
    // Mode 0700, so inaccessible to the user that root switches to; below a path that the sandbox
    // replaces.
    let closed = tempfile::tempdir().unwrap();
    let folder = closed.path().canonicalize().unwrap().join("to-read");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("given"), "given\n").unwrap();
    std::fs::write(closed.path().join("beside"), "beside\n").unwrap();
    let mut sandbox_spec = sandbox_spec(SandboxLevel::Full, &work);
    sandbox_spec.readable_paths = vec![folder.clone(), closed.path().join("none")];
    let shown = folder.display();
    let script =
        format!("cat {shown}/given; cat {shown}/../beside; echo x > {shown}/made; echo end");
    let (text, exit) = said(sandbox_spec, &script).await;
    assert_eq!(exit, ChildExit::Code(0), "{text}");
    assert!(text.starts_with("given\n") && text.ends_with("end\n"), "{text}");
    assert!(!text.contains("beside\n") && !folder.join("made").exists(), "{text}");
}
