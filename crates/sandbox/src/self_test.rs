//! Self-test of the sandbox: this binary runs itself in a sandbox and attempts every access that
//! the sandbox must prevent.
//!
//! Requesting isolation does not prove it. A level is offered only if every escape attempt failed
//! and normal work inside succeeded.

mod escape_attempts;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::UdpSocket;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use super::{SandboxLevel, SandboxSpec};
use crate::process::{ChildExit, CommandSpec, ProcessLauncher};

pub use escape_attempts::run_escape_attempts;

/// The command-line argument that makes the binary run [`run_escape_attempts`].
pub const SELF_TEST_COMMAND: &str = "__probe";
/// Time limit of all attempts.
const SELF_TEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of their output.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;
/// Name of the file that must not be created outside.
const ESCAPE_FILE: &str = "written";

/// One attempt of the self-test: to escape, or to work inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscapeAttempt {
    /// Name of the attempt.
    pub name: String,
    /// Whether the sandbox behaved as required.
    pub is_passed: bool,
    /// Observed result.
    pub detail: String,
}

/// Result of the self-test of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTestReport {
    /// All attempts.
    pub attempts: Vec<EscapeAttempt>,
}

impl SelfTestReport {
    /// Returns the failed attempts.
    pub fn failed_attempts(&self) -> impl Iterator<Item = &EscapeAttempt> {
        self.attempts.iter().filter(|trial| !trial.is_passed)
    }
}

/// Sandbox support of this machine for this user.
#[derive(Debug, Clone)]
pub struct SandboxSupport {
    /// Landlock ABI version, 0 if unavailable.
    pub landlock_abi: u32,
    /// Whether the kernel filters system calls.
    pub has_seccomp: bool,
    /// Self-test of a full sandbox, or why it is unavailable.
    pub full: Result<SelfTestReport, String>,
    /// Self-test without namespaces, or why it is unavailable; tried only if the full sandbox is
    /// unavailable.
    pub no_namespaces: Option<Result<SelfTestReport, String>>,
}

impl SandboxSupport {
    /// Returns the strongest level that passed.
    pub fn best_level(&self) -> Option<SandboxLevel> {
        let holds = |found: &Result<SelfTestReport, String>| {
            found.as_ref().is_ok_and(|found| found.failed_attempts().next().is_none())
        };
        if holds(&self.full) {
            return Some(SandboxLevel::Full);
        }
        self.no_namespaces.as_ref().is_some_and(holds).then_some(SandboxLevel::NoNamespaces)
    }

    /// Returns one line on why a level is unavailable; `None` if it is available or was not tried.
    pub fn missing_reason(&self, level: SandboxLevel) -> Option<String> {
        let found = match level {
            SandboxLevel::Full => &self.full,
            SandboxLevel::NoNamespaces => self.no_namespaces.as_ref()?,
        };
        match found {
            Err(why) => Some(why.clone()),
            Ok(found) => {
                let broken: Vec<_> =
                    found.failed_attempts().map(|trial| trial.name.as_str()).collect();
                (!broken.is_empty()).then(|| {
                    format!(
                        "the sandbox is not effective: \
                    {}",
                        broken.join(", ")
                    )
                })
            }
        }
    }
}

/// Detects the sandbox support of this machine. Takes about 20 ms and starts one or two children.
///
/// `launcher` runs the supervisor of this binary, which handles [`SELF_TEST_COMMAND`] with
/// [`run_escape_attempts`].
pub async fn detect_support(launcher: &ProcessLauncher) -> SandboxSupport {
    let whole = run_self_test(launcher, SandboxLevel::Full).await;
    let good = whole.as_ref().is_ok_and(|found| found.failed_attempts().next().is_none());
    let fenced =
        if good { None } else { Some(run_self_test(launcher, SandboxLevel::NoNamespaces).await) };
    SandboxSupport {
        landlock_abi: escape_attempts::landlock_version(),
        has_seccomp: fs::exists("/proc/sys/kernel/seccomp/actions_avail").unwrap_or(false),
        full: whole,
        no_namespaces: fenced,
    }
}

/// Runs the self-test in a sandbox of this level.
///
/// # Errors
/// If the sandbox cannot be created; names the refused layer.
pub async fn run_self_test(
    launcher: &ProcessLauncher,
    level: SandboxLevel,
) -> Result<SelfTestReport, String> {
    let outside = EscapeTargets::new().map_err(|error| {
        format!(
            "cannot run the escape attempts: \
        {error}"
        )
    })?;
    let mut sandbox_spec = SandboxSpec::new(level).with_work_dir(outside.folder.join("work"));
    sandbox_spec.program = crate::ProgramSource::OwnBinary;
    let spec = CommandSpec {
        command: "toolkeep".to_owned(),
        args: outside.to_args(),
        clear_env: true,
        cwd: Some(outside.folder.join("work")),
        sandbox: Some(sandbox_spec),
        ..CommandSpec::default()
    };
    let mut child = launcher.spawn_child(&spec).map_err(|error| error.to_string())?;
    let mut told = String::new();
    let listening = async {
        if let Some(stdout) = child.take_stdout() {
            drop(stdout.take(MAX_OUTPUT_BYTES).read_to_string(&mut told).await);
        }
        child.wait_ended().await
    };
    match tokio::time::timeout(SELF_TEST_TIMEOUT, listening).await {
        Err(_) => Err("the escape attempts timed out".to_owned()),
        Ok(ChildExit::NotStarted(why)) => Err(why),
        Ok(ChildExit::Code(0)) => {
            let written = outside.folder.join(ESCAPE_FILE).exists();
            let detail = if written { "it was allowed" } else { "nothing came of it" };
            let last = EscapeAttempt {
                name: "write a file outside".to_owned(),
                is_passed: !written,
                detail: detail.to_owned(),
            };
            Ok(SelfTestReport {
                attempts: told.lines().filter_map(parse_attempt).chain([last]).collect(),
            })
        }
        Ok(exit) => Err(format!("the escape attempts ended early: {exit:?}")),
    }
}

fn parse_attempt(line: &str) -> Option<EscapeAttempt> {
    let mut parts = line.splitn(3, '\t');
    let (held, name) = (parts.next()? == "held", parts.next()?.to_owned());
    Some(EscapeAttempt {
        name,
        is_passed: held,
        detail: parts.next().unwrap_or_default().to_owned(),
    })
}

/// Targets of the escape attempts: a file, a folder and four open sockets, all accessible to
/// unsandboxed processes.
struct EscapeTargets {
    folder: PathBuf,
    tcp: std::net::TcpListener,
    udp: UdpSocket,
    _plain: UnixListener,
    _abstract: UnixListener,
    name: String,
}

impl EscapeTargets {
    fn new() -> io::Result<Self> {
        let name = format!("toolkeep-probe-{}", crate::launch::random_suffix()?);
        let folder = std::env::temp_dir().canonicalize()?.join(&name);
        let work = folder.join("work");
        fs::create_dir_all(&work)?;
        fs::write(folder.join("canary"), "outside")?;
        // Accessible to everyone, so that only the sandbox can refuse.
        for path in [&folder, &work] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
        }
        let plain = UnixListener::bind(folder.join("socket"))?;
        fs::set_permissions(folder.join("socket"), fs::Permissions::from_mode(0o777))?;
        Ok(Self {
            tcp: std::net::TcpListener::bind("127.0.0.1:0")?,
            udp: UdpSocket::bind("127.0.0.1:0")?,
            _plain: plain,
            _abstract: UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?,
            folder,
            name,
        })
    }

    fn to_args(&self) -> Vec<String> {
        let port = |address: io::Result<std::net::SocketAddr>| {
            address.map_or(0, |address| address.port()).to_string()
        };
        vec![
            SELF_TEST_COMMAND.to_owned(),
            self.folder.display().to_string(),
            self.name.clone(),
            port(self.tcp.local_addr()),
            port(self.udp.local_addr()),
            std::process::id().to_string(),
        ]
    }
}

impl Drop for EscapeTargets {
    fn drop(&mut self) {
        let _kept = fs::remove_dir_all(&self.folder);
    }
}

/// Parses the arguments after [`SELF_TEST_COMMAND`]: folder, name, TCP port, UDP port and process
/// id.
pub(super) fn parse_args(args: impl IntoIterator<Item = OsString>) -> Option<[String; 5]> {
    let words: Vec<String> =
        args.into_iter().map(|word| word.into_string().ok()).collect::<Option<_>>()?;
    words.try_into().ok()
}
