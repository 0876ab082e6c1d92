//! `bench call --instructions`: instructions of one process for one call, without the kernel's, as valgrind's
//! callgrind counts them. The figure is the same on a busy machine and on one without counters.
//!
//! Valgrind knows none of the processor's instructions for SHA-256, so programs compute it in software
//! there, twenty times as long: that part is counted apart, by its function.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::load::{self, Until};
use crate::message::Message;
use crate::options::USAGE;
use crate::target::Part;
use crate::toolkeep::Toolkeep;

/// Calls of all callers together: before it is counted, and while it is.
const CALLS: (usize, usize) = (2_000, 8_000);
/// What is counted apart.
const SHA: &str = "sha2::sha256::soft";

/// What one process did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counted {
    all: u64,
    /// Of them, SHA-256 in software.
    sha: u64,
}

/// Counts and prints.
pub(crate) async fn run(flags: &[&str], folder: &Path) -> Result<(), String> {
    let (mut callers, mut binary) = (16, None);
    for pair in flags.chunks(2) {
        match pair {
            ["--callers", number] => {
                let number = number.parse().ok().filter(|n| (1..=1024).contains(n));
                callers = number.ok_or_else(|| USAGE.to_owned())?;
            }
            ["--toolkeep", path] => binary = Some(PathBuf::from(path)),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let upstream = Part::start(&["upstream", "4"])?;
    println!("| callers | target | instructions/call | of them SHA-256 in software | others |");
    println!("| ---: | --- | ---: | ---: | ---: |");
    let program = std::env::current_exe().map_err(|e| format!("who am I: {e}"))?;
    let (mut pass, out) = watched(&program, folder, "pass");
    pass.args(["part", "pass", &upstream.address.to_string()]);
    let pass = Part::telling(&mut pass)?;
    row("bare proxy", &pass, (&Message::call(pass.address, "echo"), callers), &out).await?;
    drop(pass);
    if let Some(binary) = binary {
        let (command, out) = watched(&binary, folder, "toolkeep");
        let toolkeep = Toolkeep::start(command, upstream.address, folder).await?;
        let message = Message::call(toolkeep.part.address, toolkeep.named("echo")?);
        let message = message.with(&toolkeep.headers);
        row("Toolkeep, reads only", &toolkeep.part, (&message, callers), &out).await?;
    }
    Ok(())
}

/// `program` under callgrind, which counts nothing yet, and where it will write.
fn watched(program: &Path, folder: &Path, name: &str) -> (Command, PathBuf) {
    let out = folder.join(format!("callgrind.{name}"));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--instr-atstart=no"]);
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(program);
    (command, out)
}

async fn row(
    name: &str,
    part: &Part,
    (message, callers): (&Message, usize),
    out: &Path,
) -> Result<(), String> {
    let each = |calls: usize| calls.div_ceil(callers) as u64;
    let calls = async |calls: u64| {
        let slice = load::run(message, callers, Until::Calls(calls)).await?;
        let failed = || format!("{} of {} calls failed", slice.failures, slice.calls);
        if slice.failures == 0 { Ok(slice.calls) } else { Err(failed()) }
    };
    calls(each(CALLS.0)).await?;
    control(part, &["--instr=on"])?;
    let made = calls(each(CALLS.1)).await? + (callers * load::WARM) as u64;
    control(part, &["--instr=off"])?;
    control(part, &["--dump=calls"])?;
    let dump = out.with_file_name(format!("{}.1", out.file_name().unwrap_or_default().display()));
    let text = fs::read_to_string(&dump).map_err(|e| format!("`{}`: {e}", dump.display()))?;
    let Counted { all, sha } = counted(&text).ok_or("callgrind wrote what cannot be read")?;
    let (all, sha) = (all / made, sha / made);
    println!("| {callers} | {name} | {all} | {sha} | {} |", all - sha);
    Ok(())
}

fn control(part: &Part, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new("callgrind_control");
    let ended = command.args(words).arg(part.pid().to_string()).output();
    let ended = ended.map_err(|e| format!("`callgrind_control` does not start: {e}"))?;
    if ended.status.success() {
        return Ok(());
    }
    Err(format!("`callgrind_control` failed: {}", String::from_utf8_lossy(&ended.stderr)))
}

/// Sums a profile up. Its format: <https://valgrind.org/docs/manual/cl-format.html>. Names are told once,
/// with a number; the line after `calls=` is of the function that was called.
fn counted(text: &str) -> Option<Counted> {
    let (mut found, mut names) = (Counted::default(), std::collections::HashMap::new());
    let (mut is_sha, mut of_another) = (false, false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            let (number, told) = name.split_once(' ').unwrap_or((name, ""));
            let known = names.entry(number.to_owned()).or_insert(false);
            *known |= told.contains(SHA);
            if line.starts_with("fn=") {
                is_sha = *known;
            }
        } else if line.starts_with("calls=") {
            of_another = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
            let cost: u64 = line.split(' ').nth(1)?.parse().ok()?;
            if !std::mem::take(&mut of_another) {
                found.all += cost;
                found.sha += if is_sha { cost } else { 0 };
            }
        }
    }
    (found.all > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::{Counted, counted};

    #[test]
    fn what_a_function_did_itself_is_summed_up() {
        let text = "version: 1\nevents: Ir\n\nfl=(1) a.rs\nfn=(1) main\n16 400\ncfn=(2) sha2::sha256::soft::compress\n\
                    calls=2 0\n16 700\n+3 5\n\nfn=(2)\n51 600\n* 100\n\ntotals: 1105\n";
        assert_eq!(counted(text), Some(Counted { all: 1_105, sha: 700 }));
        assert_eq!(counted("events: Ir\n"), None);
        assert_eq!(counted("fn=(1) a\n1 x\n"), None);
    }
}
