//! Processes of the same user beside a sandbox without namespaces, which shares their process
//! namespace.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use sandbox::SandboxLevel;
use sandbox::process::ChildExit;

use super::{said, sandbox_spec, work};

/// Uid of sandboxed processes when the tests run as root.
pub(super) const NOBODY: u32 = 65534;

/// Process of the sandbox's user, killed on drop.
struct Neighbour(Child);

impl Neighbour {
    fn start() -> Self {
        Self(as_user(Command::new("/bin/sleep").arg("600")).spawn().unwrap())
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap()
    }

    /// Returns what others may change: limits, priority, scheduling policy and CPU affinity.
    fn state(&self) -> String {
        let stat = self.file("stat");
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // proc_pid_stat(5): priority and nice, then real-time priority and policy.
        let scheduling = [fields[15], fields[16], fields[37], fields[38]].join(" ");
        let status = self.file("status");
        let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap();
        let io = Command::new("ionice").args(["-p", &self.0.id().to_string()]).output().unwrap();
        let io = String::from_utf8(io.stdout).unwrap();
        format!("{}\n{scheduling}\n{cpus}\n{io}", self.file("limits"))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn as_user(command: &mut Command) -> &mut Command {
    if rustix::process::geteuid().is_root() { command.uid(NOBODY).gid(NOBODY) } else { command }
}

/// Attempts to change the process `$P`, or every process of the user; each prints whether it
/// succeeded.
const ATTEMPTS: [(&str, &str); 8] = [
    ("descriptors", "prlimit --pid $P --nofile=40:40"),
    ("processor time", "prlimit --pid $P --cpu=500:500"),
    ("niceness", "renice -n 5 -p $P"),
    ("niceness of all", "renice -n 6 -u $(id -u)"),
    ("policy", "chrt -b -p 0 $P"),
    ("processors", "taskset -p 1 $P"),
    ("disk", "ionice -c 3 -p $P"),
    ("disk of all", "ionice -c 2 -n 7 -u $(id -u)"),
];

fn script(pid: u32) -> String {
    let tries = ATTEMPTS.map(|(name, line)| format!("{line} >/dev/null && echo could: {name}"));
    format!("P={pid}; {}; true", tries.join("; "))
}

#[tokio::test]
async fn a_fenced_sandbox_changes_no_process_beside_it() {
    let (work, neighbour) = (work(), Neighbour::start());
    let before = neighbour.state();
    let (text, exit) =
        said(sandbox_spec(SandboxLevel::NoNamespaces, &work), &script(neighbour.0.id())).await;
    assert_eq!(exit, ChildExit::Code(0), "{text}");
    assert!(!text.contains("could:"), "{text}");
    assert_eq!(neighbour.state(), before);

    // Control: the same user without a sandbox succeeds, on its own process.
    let other = Neighbour::start();
    let line = script(other.0.id()).replace("renice -n 6 -u $(id -u)", "true");
    let line = line.replace("ionice -c 2 -n 7 -u $(id -u)", "true");
    let output = as_user(Command::new("/bin/sh").args(["-c", &line])).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for (name, _) in ATTEMPTS {
        assert!(text.contains(&format!("could: {name}\n")), "{name}: {text}");
    }
    assert!(other.state().contains("Max open files            40                   40"));
    assert_ne!(other.state(), before);
}

#[tokio::test]
async fn a_fenced_program_lowers_its_own_limits_and_priority() {
    let script = "ulimit -n 32 && ulimit -n && prlimit --nofile=30:30 sh -c 'ulimit -n' && \
                  nice -n 5 nice && taskset 1 ionice -c 3 chrt -b 0 echo through && \
                  prlimit --pid $$ --nofile=20:20 && ulimit -n";
    let work = work();
    let (text, exit) = said(sandbox_spec(SandboxLevel::NoNamespaces, &work), script).await;
    assert_eq!(exit, ChildExit::Code(0), "{text}");
    assert_eq!(text, "32\n30\n5\nthrough\n20\n", "{text}");
}
