//! `bench call`: one call, direct and through what stands between.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine;
use crate::message::Message;
use crate::options::{Options, USAGE};
use crate::peers::{self, Peers};
use crate::report::Report;
use crate::target::{Part, Series, Target, in_turn};
use crate::toolkeep::Toolkeep;
use crate::{callgrind, lists, perf};

/// Measures, prints, and writes where asked.
pub(crate) async fn run(flags: &[&str]) -> Result<(), String> {
    if flags.contains(&"--help") {
        println!("{USAGE}");
        return Ok(());
    }
    let folder = Folder::make()?;
    if let ["--instructions", rest @ ..] = flags {
        return callgrind::run(rest, &folder.0).await;
    }
    let options = Options::parse(flags)?;
    let counting = perf::available();
    let (calls, missing) = calls(&options, &folder.0, counting.is_ok()).await?;
    // Lists are no matter of the others.
    let lists = match &options.peers {
        Some(_) => Vec::new(),
        None => lists::run(&options, &folder.0).await?,
    };
    let report =
        Report { options: &options, machine: machine::describe(), counting, calls, missing, lists };
    let text = report.to_string();
    println!("\n{text}");
    if let Some(file) = &options.write {
        fs::write(file, text).map_err(|e| format!("`{}`: {e}", file.display()))?;
    }
    match report.failures() {
        0 => Ok(()),
        failures => {
            Err(format!("{failures} answers were not what was asked for; no figure above counts"))
        }
    }
}

/// A folder for the files of one run, gone with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn make() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("toolkeep-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| format!("`{}`: {e}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The names of the targets, as the report compares them.
pub(crate) const DIRECT: &str = "direct";
pub(crate) const PASS: &str = "bare proxy";

/// What was measured, and which peers were not.
type Found = (Vec<Series>, Vec<String>);

pub(crate) async fn calls(options: &Options, folder: &Path, count: bool) -> Result<Found, String> {
    let upstream = Part::start(&["upstream", "2"])?;
    let pass = Part::start(&["pass", &upstream.address.to_string()])?;
    let (behind, between) = (upstream.pid(), pass.pid());
    let direct = Message::call(upstream.address, "echo");
    let target = |name: &str, message: Message, own: u32, chain: &[u32]| Target {
        name: name.to_owned(),
        message,
        own,
        chain: chain.to_vec(),
    };
    let mut targets = vec![
        target(DIRECT, direct, behind, &[behind]),
        target(PASS, Message::call(pass.address, "echo"), between, &[between, behind]),
    ];
    let toolkeep = match &options.toolkeep {
        Some(binary) => {
            Some(Toolkeep::start(Command::new(binary), upstream.address, folder).await?)
        }
        None => None,
    };
    if let Some(toolkeep) = &toolkeep {
        let own = toolkeep.part.pid();
        for (name, tool) in
            [("Toolkeep, reads only", "echo"), ("Toolkeep, effects unknown", "echo_unknown")]
        {
            let message = Message::call(toolkeep.part.address, toolkeep.named(tool)?);
            targets.push(target(name, message.with(&toolkeep.headers), own, &[own, behind]));
        }
    }
    let peers = match &options.peers {
        Some(installs) => peers::start(installs, upstream.address, folder).await,
        None => Peers::default(),
    };
    for peer in &peers.running {
        let own = peer.part.pid();
        targets.push(target(peer.name, peer.message.clone(), own, &[own, behind]));
    }
    let mut all = Vec::new();
    for callers in &options.callers {
        let mut found = in_turn(&targets, *callers, options.slice, options.rounds).await?;
        for (series, target) in found.iter_mut().zip(&targets).filter(|_| count) {
            series.instructions = Some(perf::instructions(target, *callers, folder)?);
        }
        all.extend(found);
    }
    Ok((all, peers.missing))
}
