//! Test binary of this crate: the sandbox supervisor, the sandbox self-test, and a worker that also
//! attempts to escape.

use std::alloc::System;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use builtins::{JobHandler, WorkerJob};
use sandbox::LimitedAllocator;

#[global_allocator]
static ALLOCATOR: LimitedAllocator<System> = LimitedAllocator(System);

/// Job that attempts to escape from the sandbox.
const ESCAPE: JobHandler = (WorkerJob::new(b'X', Duration::from_secs(10)), escape);
/// Job that never ends.
const ENDLESS: JobHandler = (WorkerJob::new(b'E', Duration::from_millis(300)), endless);

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "__launch" => sandbox::process::run_supervisor(args),
        Some(word) if word == sandbox::SELF_TEST_COMMAND => sandbox::run_escape_attempts(args),
        Some(word) if word == builtins_llm::MODEL_WORKER_COMMAND => {
            builtins_llm::run_model_worker(args, &[ESCAPE, ENDLESS])
        }
        // Control: the same attempts outside a sandbox.
        Some(word) if word == "__escape" => {
            let done = escape(&[], Duration::ZERO).unwrap_or_default();
            ExitCode::from(u8::from(std::io::stdout().write_all(&done).is_err()))
        }
        _ => ExitCode::from(64),
    }
}

/// Computes forever.
fn endless(_: &[u8], _: Duration) -> Result<Vec<u8>, String> {
    loop {
        std::hint::spin_loop();
    }
}

/// Attempts what the worker of a model must not be able to do. Returns the attempts that succeeded.
fn escape(_: &[u8], _: Duration) -> Result<Vec<u8>, String> {
    #[expect(clippy::disallowed_methods, reason = "it is tried whether a program is started")]
    let program = std::process::Command::new("/bin/true").status().is_ok();
    let thread = std::thread::Builder::new().spawn(|| ()).is_ok();
    let written = std::env::temp_dir().join(format!("toolkeep-escape-{}", std::process::id()));
    let writes = std::fs::write(&written, "").is_ok();
    // The file may be gone already.
    let _removed = std::fs::remove_file(&written);
    let tried = [
        ("reads a file", std::fs::read("/etc/passwd").is_ok()),
        ("reads its own binary", std::fs::File::open("/proc/self/exe").is_ok()),
        ("lists a folder", std::fs::read_dir("/").is_ok()),
        ("writes a file", writes),
        ("opens a socket", std::net::UdpSocket::bind("127.0.0.1:0").is_ok()),
        ("starts a program", program),
        ("starts a thread", thread),
    ];
    let done: Vec<&str> = tried.iter().filter(|(_, done)| *done).map(|(name, _)| *name).collect();
    serde_json::to_vec(&done).map_err(|error| error.to_string())
}
