//! The sandbox self-test: the binary runs itself in a sandbox and attempts what the sandbox must
//! prevent.
//!
//! Requesting isolation does not prove it. A level is offered only if every escape attempt failed
//! and normal work inside succeeded.

mod inside;

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

use super::{Cage, Tier};
use crate::process::{Exit, Launcher, Spec};

pub use inside::probe;

/// The command-line argument that makes the binary run [`probe`].
pub const PROBE: &str = "__probe";
/// Longest the attempts may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of what they tell.
const MOST_TOLD: u64 = 64 * 1024;
/// The file that must not come to be outside.
const WRITTEN: &str = "written";

/// One attempt of the self-test: to escape, or to work inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Name of the attempt.
    pub name: String,
    /// Whether the sandbox behaved as required.
    pub held: bool,
    /// Observed result.
    pub detail: String,
}

/// Result of the self-test of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// All attempts.
    pub trials: Vec<Trial>,
}

impl Found {
    /// Returns the failed attempts.
    pub fn broken(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| !trial.held)
    }
}

/// Sandbox support of this machine for this user.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Landlock ABI version, 0 if unavailable.
    pub landlock: u32,
    /// Whether the kernel filters system calls.
    pub seccomp: bool,
    /// Self-test of a full sandbox, or why it is unavailable.
    pub whole: Result<Found, String>,
    /// Self-test without namespaces, or why it is unavailable; tried only if the full sandbox is
    /// unavailable.
    pub fenced: Option<Result<Found, String>>,
}

impl Standing {
    /// Returns the strongest level that passed.
    pub fn tier(&self) -> Option<Tier> {
        let holds = |found: &Result<Found, String>| {
            found.as_ref().is_ok_and(|found| found.broken().next().is_none())
        };
        if holds(&self.whole) {
            return Some(Tier::Whole);
        }
        self.fenced.as_ref().is_some_and(holds).then_some(Tier::Fenced)
    }

    /// Returns one line on why a level is unavailable; `None` if it is available or was not tried.
    pub fn lacks(&self, tier: Tier) -> Option<String> {
        let found = match tier {
            Tier::Whole => &self.whole,
            Tier::Fenced => self.fenced.as_ref()?,
        };
        match found {
            Err(why) => Some(why.clone()),
            Ok(found) => {
                let broken: Vec<_> = found.broken().map(|trial| trial.name.as_str()).collect();
                (!broken.is_empty()).then(|| format!("it does not hold: {}", broken.join(", ")))
            }
        }
    }
}

/// Detects the sandbox support of this machine. Takes about 20 ms and starts one or two children.
///
/// `launcher` runs the supervisor of this very binary, which answers [`PROBE`] with [`probe`].
pub async fn standing(launcher: &Launcher) -> Standing {
    let whole = try_out(launcher, Tier::Whole).await;
    let good = whole.as_ref().is_ok_and(|found| found.broken().next().is_none());
    let fenced = if good { None } else { Some(try_out(launcher, Tier::Fenced).await) };
    Standing {
        landlock: inside::landlock_version(),
        seccomp: fs::exists("/proc/sys/kernel/seccomp/actions_avail").unwrap_or(false),
        whole,
        fenced,
    }
}

/// Runs the self-test in a sandbox of this level.
///
/// # Errors
/// If the sandbox cannot be created; names the refused layer.
pub async fn try_out(launcher: &Launcher, tier: Tier) -> Result<Found, String> {
    let outside = Outside::new().map_err(|error| format!("the attempts: {error}"))?;
    let mut cage = Cage::new(tier).working_in(outside.folder.join("work"));
    cage.this_binary = true;
    let spec = Spec {
        command: "toolkeep".to_owned(),
        args: outside.words(),
        clear_env: true,
        cwd: Some(outside.folder.join("work")),
        cage: Some(cage),
        ..Spec::default()
    };
    let mut child = launcher.spawn(&spec).map_err(|error| error.to_string())?;
    let mut told = String::new();
    let listening = async {
        if let Some(stdout) = child.stdout() {
            drop(stdout.take(MOST_TOLD).read_to_string(&mut told).await);
        }
        child.wait().await
    };
    match tokio::time::timeout(PATIENCE, listening).await {
        Err(_) => Err("the attempts took too long".to_owned()),
        Ok(Exit::NotStarted(why)) => Err(why),
        Ok(Exit::Code(0)) => {
            let written = outside.folder.join(WRITTEN).exists();
            let detail = if written { "it was allowed" } else { "nothing came of it" };
            let last = Trial {
                name: "write a file outside".to_owned(),
                held: !written,
                detail: detail.to_owned(),
            };
            Ok(Found { trials: told.lines().filter_map(trial).chain([last]).collect() })
        }
        Ok(exit) => Err(format!("the attempts ended before they were through: {exit:?}")),
    }
}

fn trial(line: &str) -> Option<Trial> {
    let mut parts = line.splitn(3, '\t');
    let (held, name) = (parts.next()? == "held", parts.next()?.to_owned());
    Some(Trial { name, held, detail: parts.next().unwrap_or_default().to_owned() })
}

/// Targets of the escape attempts: a file, a folder and four open sockets, all accessible to
/// unsandboxed processes.
struct Outside {
    folder: PathBuf,
    tcp: std::net::TcpListener,
    udp: UdpSocket,
    _plain: UnixListener,
    _abstract: UnixListener,
    name: String,
}

impl Outside {
    fn new() -> io::Result<Self> {
        let mut bytes = [0; 8];
        io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
        let name = format!("toolkeep-probe-{:016x}", u64::from_le_bytes(bytes));
        let folder = std::env::temp_dir().canonicalize()?.join(&name);
        let work = folder.join("work");
        fs::create_dir_all(&work)?;
        fs::write(folder.join("canary"), "outside")?;
        // Anyone may, so that what refuses is the cage.
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

    fn words(&self) -> Vec<String> {
        let port = |address: io::Result<std::net::SocketAddr>| {
            address.map_or(0, |address| address.port()).to_string()
        };
        vec![
            PROBE.to_owned(),
            self.folder.display().to_string(),
            self.name.clone(),
            port(self.tcp.local_addr()),
            port(self.udp.local_addr()),
            std::process::id().to_string(),
        ]
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _kept = fs::remove_dir_all(&self.folder);
    }
}

/// Answers what `args`, the words after [`PROBE`], ask: a line per attempt on standard output. Run
/// outside a cage it shows that every attempt succeeds there.
pub(super) fn own_words(args: impl IntoIterator<Item = OsString>) -> Option<[String; 5]> {
    let words: Vec<String> =
        args.into_iter().map(|word| word.into_string().ok()).collect::<Option<_>>()?;
    words.try_into().ok()
}
