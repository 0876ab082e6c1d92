//! What is measured: a process, what is sent to it, and its figures.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::histogram::Histogram;
use crate::load::{self, Until};
use crate::machine;
use crate::message::Message;

/// How long a part may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A part that runs. It is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Part {
    /// Starts `bench part WORDS` and waits for its address.
    pub(crate) fn start(words: &[&str]) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|e| format!("who am I: {e}"))?;
        let mut command = Command::new(program);
        command.arg("part").args(words);
        Self::telling(&mut command)
    }

    /// Starts `command`, a part of this program, and waits for its address.
    pub(crate) fn telling(command: &mut Command) -> Result<Self, String> {
        Self::spawn(command, |line| line.strip_prefix("listening ")?.parse().ok())
    }

    /// Starts `command` and waits for the line that tells its address.
    fn spawn(
        command: &mut Command,
        address: impl Fn(&str) -> Option<SocketAddr>,
    ) -> Result<Self, String> {
        let name = command.get_program().display().to_string();
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut part = Self::at(command.stdout(Stdio::piped()), nowhere)?;
        let out = part.child.stdout.take();
        let mut lines = out.into_iter().flat_map(|out| BufReader::new(out).lines());
        let told = lines.find_map(|line| address(&line.ok()?));
        part.address = told.ok_or_else(|| format!("`{name}` ended before it told its address"))?;
        Ok(part)
    }

    /// Starts `command`, which will serve `address`.
    pub(crate) fn at(command: &mut Command, address: SocketAddr) -> Result<Self, String> {
        let name = command.get_program().display().to_string();
        let child = command.stdin(Stdio::null()).spawn();
        Ok(Self { child: child.map_err(|e| format!("`{name}`: {e}"))?, address })
    }

    /// Whether it has ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Lets it end by itself, and waits a while: one that is watched for a profile writes it then.
    fn ask_to_end(&mut self) {
        let asked = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let asked = asked.map(|pid| rustix::process::kill_process(pid, Signal::TERM));
        let begun = Instant::now();
        while asked == Some(Ok(())) && !self.ended() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.ask_to_end();
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Something to send calls to.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) message: Message,
    /// The process whose time and memory are its own.
    pub(crate) own: u32,
    /// Every process that a call passes, its own included.
    pub(crate) chain: Vec<u32>,
}

/// What one slice of one target showed.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) rate: f64,
    pub(crate) calls: u64,
    pub(crate) failures: u64,
    pub(crate) latencies: Histogram,
    /// CPU time of the target's own process.
    pub(crate) own: Duration,
    /// Of every process that a call passes.
    pub(crate) chain: Duration,
    /// Of the chain and the callers.
    pub(crate) whole: Duration,
    /// Share of the machine that went to processes that are no part of this.
    pub(crate) foreign: f64,
}

impl Target {
    /// Measures one slice.
    pub(crate) async fn measure(&self, callers: usize, slice: Duration) -> Result<Sample, String> {
        let callers_pid = std::process::id();
        let chain = |pids: &[u32]| pids.iter().map(|pid| machine::cpu(*pid)).sum::<Duration>();
        let before = (
            machine::busy(),
            machine::cpu(self.own),
            chain(&self.chain),
            machine::cpu(callers_pid),
        );
        let begun = std::time::Instant::now();
        let found = load::run(&self.message, callers, Until::Time(slice)).await?;
        let elapsed = begun.elapsed();
        let own = machine::cpu(self.own).saturating_sub(before.1);
        let chain = chain(&self.chain).saturating_sub(before.2);
        let whole = chain + machine::cpu(callers_pid).saturating_sub(before.3);
        let foreign = machine::busy().saturating_sub(before.0).saturating_sub(whole);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Sample {
            rate: found.rate(),
            calls: found.calls,
            failures: found.failures,
            latencies: found.latencies,
            own,
            chain,
            whole,
            foreign: foreign.as_secs_f64() / elapsed.as_secs_f64() / cores as f64,
        })
    }
}

/// All slices of one target at one number of callers.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) target: String,
    pub(crate) callers: usize,
    pub(crate) samples: Vec<Sample>,
    /// MiB: resident at the end, and the most it ever was.
    pub(crate) memory: (f64, f64),
    /// Instructions of the whole machine for one call, where they can be counted.
    pub(crate) instructions: Option<f64>,
}

impl Series {
    pub(crate) fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.rate).collect()
    }

    pub(crate) fn failures(&self) -> u64 {
        self.samples.iter().map(|sample| sample.failures).sum()
    }

    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let mut all = Histogram::default();
        self.samples.iter().for_each(|sample| all.merge(&sample.latencies));
        all.quantile(share)
    }

    /// Microseconds of CPU for one call, of what `time` picks.
    pub(crate) fn cpu(&self, time: impl Fn(&Sample) -> Duration) -> f64 {
        let calls: u64 = self.samples.iter().map(|sample| sample.calls).sum();
        let used: Duration = self.samples.iter().map(time).sum();
        used.as_secs_f64() * 1e6 / calls.max(1) as f64
    }
}

/// Measures all targets in turn, slice by slice, beginning with another one each round: a machine
/// that is slow for a while is slow for all of them.
pub(crate) async fn in_turn(
    targets: &[Target],
    callers: usize,
    slice: Duration,
    rounds: usize,
) -> Result<Vec<Series>, String> {
    let mut samples = vec![Vec::new(); targets.len()];
    for round in 0..rounds {
        let order = (0..targets.len()).map(|place| (place + round) % targets.len());
        for index in order {
            let (Some(target), Some(list)) = (targets.get(index), samples.get_mut(index)) else {
                continue;
            };
            let sample = target.measure(callers, slice).await?;
            println!("{callers:>4} callers  {:<28} {:>9.0} calls/s", target.name, sample.rate);
            list.push(sample);
        }
    }
    let series = |(target, samples): (&Target, Vec<Sample>)| Series {
        target: target.name.clone(),
        callers,
        samples,
        memory: machine::memory(target.own),
        instructions: None,
    };
    Ok(targets.iter().zip(samples).map(series).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Duration, Histogram, Sample, Series};

    /// Of 16 callers, on a machine half of which others use.
    pub(crate) fn series(target: &str, rates: &[f64]) -> Series {
        let sample = |rate: &f64| Sample {
            rate: *rate,
            calls: 1000,
            failures: 0,
            latencies: Histogram::default(),
            own: Duration::from_millis(10),
            chain: Duration::from_millis(30),
            whole: Duration::from_millis(40),
            foreign: 0.5,
        };
        Series {
            target: target.to_owned(),
            callers: 16,
            samples: rates.iter().map(sample).collect(),
            memory: (9.0, 10.0),
            instructions: None,
        }
    }
}
