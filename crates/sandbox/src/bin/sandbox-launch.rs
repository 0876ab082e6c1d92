//! Test binary of this crate: the supervisor, and a process that holds a child until it is killed.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use sandbox::process::{CommandSpec, ProcessLauncher, run_supervisor};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "__launch" => run_supervisor(args),
        Some(word) if word == sandbox::SELF_TEST_COMMAND => sandbox::run_escape_attempts(args),
        Some(word) if word == "hold" => hold_child(args.filter_map(|arg| arg.into_string().ok())),
        _ => ExitCode::from(64),
    }
}

/// Starts the given command, writes a line once it runs, and never exits by itself.
fn hold_child(mut args: impl Iterator<Item = String>) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let launcher = ProcessLauncher::this_binary(vec![OsString::from("__launch")]);
    let spec = CommandSpec {
        command: args.next().unwrap_or_default(),
        args: args.collect(),
        ..CommandSpec::default()
    };
    runtime.block_on(async {
        let Ok(mut child) = launcher.spawn_child(&spec) else { return ExitCode::FAILURE };
        if child.wait_started().await.is_err() || writeln!(std::io::stdout(), "running").is_err() {
            return ExitCode::FAILURE;
        }
        child.wait_ended().await;
        ExitCode::SUCCESS
    })
}
