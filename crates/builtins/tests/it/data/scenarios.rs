//! Sandbox attacks of shell commands, judged by their effect: the rows marked `shell-sandbox`. If a
//! row describes an action without a command, the command is defined here.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::shared_data::read_rows;

use super::marks;
use crate::calls::{Stage, value};

/// Targets outside the sandbox.
struct Outside {
    tcp: TcpListener,
    socket: UnixListener,
    hidden: UnixListener,
    name: String,
    folder: tempfile::TempDir,
}

impl Outside {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("toolkeep-{}", folder.path().display()).replace('/', "-");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = UnixListener::bind(folder.path().join("socket")).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let hidden = UnixListener::bind_addr(&address).unwrap();
        tcp.set_nonblocking(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        hidden.set_nonblocking(true).unwrap();
        Self { tcp, socket, hidden, name, folder }
    }

    /// Whether any connection arrived.
    fn reached(&self) -> bool {
        self.tcp.accept().is_ok() || self.socket.accept().is_ok() || self.hidden.accept().is_ok()
    }
}

/// Result of a command.
struct Told {
    stdout: String,
    stderr: String,
    code: i64,
    truncated: bool,
    elapsed: u64,
}

/// System calls by number, for both architectures: bpf, keyctl, `perf_event_open`,
/// `io_uring_setup`, userfaultfd.
const CALLS: [i64; 5] = if cfg!(target_arch = "aarch64") {
    [280, 219, 241, 425, 282]
} else {
    [321, 250, 298, 425, 323]
};

/// Returns the command of a scenario: the row's own, or the one for its description.
fn deed(scenario: &str, row: &str, outside: &Outside) -> String {
    let python = |code: &str| format!("/usr/bin/python3 - <<'CODE'\n{code}\nCODE\n");
    let port = outside.tcp.local_addr().unwrap().port();
    let path = outside.folder.path().join("socket");
    match scenario {
        "abstract socket" => python(&format!(
            "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0{}')\nprint('connected')",
            outside.name
        )),
        "unix socket" => python(&format!(
            "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{}')\nprint('connected')",
            path.display()
        )),
        "tcp out" => format!("{row}\n(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo connected; exit 1"),
        "raw socket" => python(
            "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nprint('opened')",
        ),
        "bpf / keyctl / perf / io_uring / userfaultfd" => python(&format!(
            "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor call in {CALLS:?}:\n    \
             ctypes.set_errno(0)\n    print(libc.syscall(call, 0, 0, 0, 0, 0), ctypes.get_errno())"
        )),
        "TIOCSTI" => python(
            "import fcntl\ntry:\n    fcntl.ioctl(0, 0x5412, b'x')\n    print('typed')\n\
             except OSError as e:\n    print(e.errno)",
        ),
        "LD_PRELOAD write" => {
            "cp $(ls /lib/*/libm.so.6 /usr/lib/*/libm.so.6 /lib64/libm.so.6 2>/dev/null | head -1) x.so\n\
             LD_PRELOAD=$PWD/x.so /bin/ls"
                .to_owned()
        }
        "zombie" => {
            "for i in $(seq 60); do (sh -c 'exit 0' &) ; done; sleep 0.3\n\
             grep -l '^State:.*Z' /proc/[0-9]*/status 2>/dev/null | wc -l"
                .to_owned()
        }
        "timeout at exit" => "sleep 1.995; echo end".to_owned(),
        _ => row.to_owned(),
    }
}

/// Whether the attack had no effect.
fn held(scenario: &str, told: &Told, outside: &Outside) -> bool {
    let Told { stdout, stderr, code, truncated, elapsed } = told;
    match scenario {
        // Its processes are looked for afterwards; it must not outlive the call by more than its
        // time limit.
        "fork bomb" => *elapsed < 20_000,
        "double fork + setsid" => *code == 0,
        "stderr flood" => *truncated && stderr.chars().count() <= 10_000,
        "cpu" => *code == -1 && (1_900..20_000).contains(elapsed),
        "fd" => stderr.contains("Too many open files") && *code != 0,
        // The fourth descriptor is the folder that `ls` reads.
        "inherit fd" => {
            stdout.matches(" -> ").count() <= 4 && stderr.contains("ad file descriptor")
        }
        "abstract socket" | "unix socket" | "tcp out" => {
            *code != 0 && !stdout.contains("connected") && !outside.reached()
        }
        "raw socket" => *code != 0 && stderr.contains("Error") && !stdout.contains("opened"),
        "mount" => *code != 0 && !stderr.is_empty(),
        "bpf / keyctl / perf / io_uring / userfaultfd" => {
            let refused = |line: &str| matches!(line, "-1 1" | "-1 38" | "-1 13");
            stdout.lines().count() == CALLS.len() && stdout.lines().all(refused)
        }
        "TIOCSTI" => matches!(stdout.trim(), "1" | "25"),
        "write outside" => !Path::new("/etc/x").exists() && stderr.contains("/etc/x"),
        "suid" => !stdout.contains("uid=0"),
        "LD_PRELOAD write" => stderr.contains("x.so") && stderr.contains("cannot be preloaded"),
        "cwd escape" => {
            stdout.lines().next() == Some("/") && stdout.lines().count() == 1 && *code != 0
        }
        "core dump" => *code == -11,
        "zombie" => stdout.trim() == "0",
        "timeout at exit" => {
            // Also if it is killed between its output and its end.
            (*code == 0 && stdout == "end\n")
                || (*code == -1 && matches!(stdout.as_str(), "" | "end\n"))
        }
        other => panic!("no judgement of `{other}`"),
    }
}

/// Counts the processes that have this folder as their home.
fn survivors(home: &Path) -> usize {
    let mark = format!("HOME={}", home.canonicalize().unwrap().display());
    let of = |entry: std::fs::DirEntry| {
        let mut text = Vec::new();
        let file = std::fs::File::open(entry.path().join("environ"));
        let _ended = file.and_then(|mut file| file.read_to_end(&mut text));
        text.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|it| of(it).then_some(())).count()
}

async fn none_left(home: &Path) -> bool {
    let began = Instant::now();
    while survivors(home) > 0 {
        if began.elapsed() > Duration::from_secs(2) {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

#[tokio::test]
async fn the_scenarios_of_a_shell_hold() {
    let rows = read_rows("attacks/command_injection.jsonl");
    let mut ran = 0;
    for row in rows.iter().filter(|row| row.get("scenario").is_some()) {
        let (stage, outside) = (Stage::new().await, Outside::new());
        let scenario = row["scenario"].as_str().unwrap();
        let deed = deed(scenario, row["command"].as_str().unwrap(), &outside);
        std::fs::write(stage.work.path().join("row.sh"), deed).unwrap();
        let args = json!({"command": "exec bash row.sh", "timeout": 2});
        let told = value(&stage.call("run_shell", &args).await);
        let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
        let of = Told {
            stdout: text("stdout"),
            stderr: text("stderr"),
            code: told["returncode"].as_i64().unwrap(),
            truncated: told["truncated"] == true,
            elapsed: told["elapsed_ms"].as_u64().unwrap(),
        };
        assert!(held(scenario, &of, &outside), "{scenario}: {told}");
        assert!(none_left(stage.work.path()).await, "{scenario}: something is left");
        let left = std::fs::read_dir(stage.work.path()).unwrap().flatten();
        assert!(left.map(|entry| entry.file_name()).all(|name| name != "core"), "{scenario}");
        ran += 1;
    }
    assert_eq!(marks(), [] as [std::path::PathBuf; 0]);
    assert!(ran >= 20, "{ran}");
    println!("command_injection, scenarios: {ran} rows, 0 escapes");
}

/// Control: harmless scenarios succeed without a sandbox, by the same criteria.
#[test]
fn without_a_sandbox_scenarios_get_somewhere() {
    let mut out = Vec::new();
    for (scenario, row) in [
        ("abstract socket", ""),
        ("unix socket", ""),
        ("tcp out", ":"),
        ("LD_PRELOAD write", ""),
        ("fd", "for i in $(seq 300); do exec {x}</dev/null; done"),
        ("cwd escape", "cd ..; cd /; pwd; ls /etc"),
    ] {
        let (outside, work) = (Outside::new(), tempfile::tempdir().unwrap());
        std::fs::write(work.path().join("row.sh"), deed(scenario, row, &outside)).unwrap();
        let ran = Command::new("bash")
            .arg("row.sh")
            .current_dir(work.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = Told {
            stdout: String::from_utf8_lossy(&ran.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
            code: ran.status.code().unwrap_or(-1).into(),
            truncated: false,
            elapsed: 0,
        };
        if !held(scenario, &told, &outside) {
            out.push(scenario);
        }
    }
    assert!(out.len() >= 5, "the control is held by nothing, and is: {out:?}");
}
