//! For the tests of this crate only: the supervisor, and a process that holds a child until it is killed.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use sandbox::process::{Launcher, Spec, supervise};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "__launch" => supervise(args),
        Some(word) if word == sandbox::PROBE => sandbox::probe(args),
        Some(word) if word == "hold" => hold(args.filter_map(|arg| arg.into_string().ok())),
        _ => ExitCode::from(64),
    }
}

/// Starts the given command, writes a line once it runs, and never ends by itself.
fn hold(mut words: impl Iterator<Item = String>) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let launcher = Launcher::this_binary(vec![OsString::from("__launch")]);
    let spec = Spec {
        command: words.next().unwrap_or_default(),
        args: words.collect(),
        ..Spec::default()
    };
    runtime.block_on(async {
        let Ok(mut child) = launcher.spawn(&spec) else { return ExitCode::FAILURE };
        if child.started().await.is_err() || writeln!(std::io::stdout(), "running").is_err() {
            return ExitCode::FAILURE;
        }
        child.wait().await;
        ExitCode::SUCCESS
    })
}
