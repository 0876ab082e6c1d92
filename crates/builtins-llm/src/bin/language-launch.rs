//! For the tests of this crate only: the supervisor, what tries the cage, and the worker, which also tries to get out.

use std::alloc::System;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use builtins::{Extra, Job};
use sandbox::Rationed;

#[global_allocator]
static ALLOCATOR: Rationed<System> = Rationed(System);

/// What the tests of the cage ask the worker to do.
const ESCAPE: Extra = (Job::new(b'X', Duration::from_secs(10)), escape);
/// A request that never ends by itself.
const ENDLESS: Extra = (Job::new(b'E', Duration::from_millis(300)), endless);

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "__launch" => sandbox::process::supervise(args),
        Some(word) if word == sandbox::PROBE => sandbox::probe(args),
        Some(word) if word == builtins_llm::MODEL_WORK => {
            builtins_llm::serve_model(args, &[ESCAPE, ENDLESS])
        }
        // The control: the same outside a cage.
        Some(word) if word == "__escape" => {
            let done = escape(&[], Duration::ZERO).unwrap_or_default();
            ExitCode::from(u8::from(std::io::stdout().write_all(&done).is_err()))
        }
        _ => ExitCode::from(64),
    }
}

/// Computes without an end.
fn endless(_: &[u8], _: Duration) -> Result<Vec<u8>, String> {
    loop {
        std::hint::spin_loop();
    }
}

/// Tries what the worker of a model must not be able to do, and names what it could.
fn escape(_: &[u8], _: Duration) -> Result<Vec<u8>, String> {
    #[expect(clippy::disallowed_methods, reason = "it is tried whether a program is started")]
    let program = std::process::Command::new("/bin/true").status().is_ok();
    let thread = std::thread::Builder::new().spawn(|| ()).is_ok();
    let written = std::env::temp_dir().join(format!("toolkeep-escape-{}", std::process::id()));
    let writes = std::fs::write(&written, "").is_ok();
    // What is not there any more is no fault.
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
