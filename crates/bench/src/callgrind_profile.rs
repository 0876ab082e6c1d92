//! `bench call --instructions`: instructions per call of one process, counted by valgrind's
//! callgrind.
//!
//! The count excludes the kernel and does not depend on the machine's load or counters. Valgrind
//! lacks the SHA-256 instructions of the processor, so programs compute it in software, about
//! twenty times slower. That part is counted separately, by its function.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::load_generator::{self, SliceEnd};
use crate::options::USAGE;
use crate::target::HelperProcess;
use crate::timed_request::TimedRequest;
use crate::toolkeep_process::ToolkeepServer;

/// Number of warm-up calls and of counted calls, of all callers.
const CALL_COUNTS: (usize, usize) = (2_000, 8_000);
/// Function whose instructions are counted separately.
const SHA_FUNCTION: &str = "sha2::sha256::soft";

/// Instruction counts of one process.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct InstructionCounts {
    total: u64,
    /// The part of SHA-256 in software.
    sha256: u64,
}

/// Counts the instructions and prints the result.
pub(crate) async fn run_callgrind(flags: &[&str], folder: &Path) -> Result<(), String> {
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
    let upstream = HelperProcess::start_helper(&["upstream", "4"])?;
    println!("| callers | target | instructions/call | of them SHA-256 in software | others |");
    println!("| ---: | --- | ---: | ---: | ---: |");
    let program = std::env::current_exe().map_err(|e| format!("who am I: {e}"))?;
    let (mut pass, out) = callgrind_command(&program, folder, "pass");
    pass.args(["part", "pass", &upstream.address.to_string()]);
    let pass = HelperProcess::spawn_announced(&mut pass)?;
    print_row("bare proxy", &pass, (&TimedRequest::tool_call(pass.address, "echo"), callers), &out)
        .await?;
    drop(pass);
    if let Some(binary) = binary {
        let (command, out) = callgrind_command(&binary, folder, "toolkeep");
        let toolkeep =
            ToolkeepServer::start_with_upstream(command, upstream.address, folder).await?;
        let message =
            TimedRequest::tool_call(toolkeep.process.address, toolkeep.tool_name("echo")?);
        let message = message.with_headers(&toolkeep.headers);
        print_row("Toolkeep, reads only", &toolkeep.process, (&message, callers), &out).await?;
    }
    Ok(())
}

/// Builds the command for `program` under callgrind with counting off, and the path of its output.
fn callgrind_command(program: &Path, folder: &Path, name: &str) -> (Command, PathBuf) {
    let out = folder.join(format!("callgrind.{name}"));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--instr-atstart=no"]);
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(program);
    (command, out)
}

async fn print_row(
    name: &str,
    part: &HelperProcess,
    (message, callers): (&TimedRequest, usize),
    out: &Path,
) -> Result<(), String> {
    let each = |calls: usize| calls.div_ceil(callers) as u64;
    let calls = async |calls: u64| {
        let slice = load_generator::run_slice(message, callers, SliceEnd::Calls(calls)).await?;
        let failed = || format!("{} of {} calls failed", slice.failures, slice.calls);
        if slice.failures == 0 { Ok(slice.calls) } else { Err(failed()) }
    };
    calls(each(CALL_COUNTS.0)).await?;
    control_callgrind(part, &["--instr=on"])?;
    let made = calls(each(CALL_COUNTS.1)).await? + (callers * load_generator::WARMUP_CALLS) as u64;
    control_callgrind(part, &["--instr=off"])?;
    control_callgrind(part, &["--dump=calls"])?;
    let dump = out.with_file_name(format!("{}.1", out.file_name().unwrap_or_default().display()));
    let text = fs::read_to_string(&dump).map_err(|e| format!("`{}`: {e}", dump.display()))?;
    let InstructionCounts { total: all, sha256: sha } =
        sum_profile(&text).ok_or("callgrind wrote what cannot be read")?;
    let (all, sha) = (all / made, sha / made);
    println!("| {callers} | {name} | {all} | {sha} | {} |", all - sha);
    Ok(())
}

fn control_callgrind(part: &HelperProcess, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new("callgrind_control");
    let ended = command.args(words).arg(part.pid().to_string()).output();
    let ended = ended.map_err(|e| format!("`callgrind_control` does not start: {e}"))?;
    if ended.status.success() {
        return Ok(());
    }
    Err(format!("`callgrind_control` failed: {}", String::from_utf8_lossy(&ended.stderr)))
}

/// Sums up a profile in the format of <https://valgrind.org/docs/manual/cl-format.html>. A name is
/// spelled out once, with a number; the line after `calls=` belongs to the called function.
fn sum_profile(text: &str) -> Option<InstructionCounts> {
    let (mut found, mut names) = (InstructionCounts::default(), std::collections::HashMap::new());
    let (mut is_sha, mut of_another) = (false, false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            let (number, told) = name.split_once(' ').unwrap_or((name, ""));
            let known = names.entry(number.to_owned()).or_insert(false);
            *known |= told.contains(SHA_FUNCTION);
            if line.starts_with("fn=") {
                is_sha = *known;
            }
        } else if line.starts_with("calls=") {
            of_another = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
            let cost: u64 = line.split(' ').nth(1)?.parse().ok()?;
            if !std::mem::take(&mut of_another) {
                found.total += cost;
                found.sha256 += if is_sha { cost } else { 0 };
            }
        }
    }
    (found.total > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::{InstructionCounts, sum_profile};

    #[test]
    fn what_a_function_did_itself_is_summed_up() {
        let text = "version: 1\nevents: Ir\n\nfl=(1) a.rs\nfn=(1) main\n16 400\ncfn=(2) sha2::sha256::soft::compress\n\
                    calls=2 0\n16 700\n+3 5\n\nfn=(2)\n51 600\n* 100\n\ntotals: 1105\n";
        assert_eq!(sum_profile(text), Some(InstructionCounts { total: 1_105, sha256: 700 }));
        assert_eq!(sum_profile("events: Ir\n"), None);
        assert_eq!(sum_profile("fn=(1) a\n1 x\n"), None);
    }
}
