//! Measured targets: their processes, the requests sent to them and the resulting figures.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::histogram::LatencyHistogram;
use crate::load_generator::{self, SliceEnd};
use crate::system_stats;
use crate::timed_request::TimedRequest;

/// Longest time for a helper process to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A running process, terminated on drop.
#[derive(Debug)]
pub(crate) struct HelperProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl HelperProcess {
    /// Starts `bench part WORDS` and waits for its address.
    pub(crate) fn start_helper(args: &[&str]) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|e| format!("who am I: {e}"))?;
        let mut command = Command::new(program);
        command.arg("part").args(args);
        Self::spawn_announced(&mut command)
    }

    /// Starts `command`, a helper process of this program, and waits for its address.
    pub(crate) fn spawn_announced(command: &mut Command) -> Result<Self, String> {
        Self::spawn_and_find(command, |line| line.strip_prefix("listening ")?.parse().ok())
    }

    /// Starts `command` and waits for the output line with its address.
    fn spawn_and_find(
        command: &mut Command,
        address: impl Fn(&str) -> Option<SocketAddr>,
    ) -> Result<Self, String> {
        let name = command.get_program().display().to_string();
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut part = Self::spawn_at(command.stdout(Stdio::piped()), nowhere)?;
        let out = part.child.stdout.take();
        let mut lines = out.into_iter().flat_map(|out| BufReader::new(out).lines());
        let told = lines.find_map(|line| address(&line.ok()?));
        part.address =
            told.ok_or_else(|| format!("`{name}` ended before it printed its address"))?;
        Ok(part)
    }

    /// Starts `command`, which will serve `address`.
    pub(crate) fn spawn_at(command: &mut Command, address: SocketAddr) -> Result<Self, String> {
        let name = command.get_program().display().to_string();
        let child = command.stdin(Stdio::null()).spawn();
        Ok(Self { child: child.map_err(|e| format!("`{name}`: {e}"))?, address })
    }

    /// Returns whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM and waits for the end, so that a profiler can write its data.
    fn request_end(&mut self) {
        let asked = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let asked = asked.map(|pid| rustix::process::kill_process(pid, Signal::TERM));
        let begun = Instant::now();
        while asked == Some(Ok(())) && !self.has_ended() && begun.elapsed() < END_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        self.request_end();
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A target of calls, with its processes.
#[derive(Debug, Clone)]
pub(crate) struct MeasuredTarget {
    pub(crate) name: String,
    pub(crate) message: TimedRequest,
    /// The target's own process, for CPU time and memory.
    pub(crate) own_pid: u32,
    /// All processes on the path of a call, including the target's own.
    pub(crate) chain_pids: Vec<u32>,
}

/// Measurements of one slice of one target.
#[derive(Debug, Clone)]
pub(crate) struct SliceSample {
    pub(crate) rate: f64,
    pub(crate) calls: u64,
    pub(crate) failures: u64,
    pub(crate) latencies: LatencyHistogram,
    /// CPU time of the target's own process.
    pub(crate) own_cpu: Duration,
    /// CPU time of all processes on the path of a call.
    pub(crate) chain_cpu: Duration,
    /// CPU time of these processes and the callers.
    pub(crate) total_cpu: Duration,
    /// Share of the machine used by unrelated processes.
    pub(crate) foreign_share: f64,
}

impl MeasuredTarget {
    /// Measures one slice of calls.
    pub(crate) async fn measure_slice(
        &self,
        callers: usize,
        slice: Duration,
    ) -> Result<SliceSample, String> {
        let callers_pid = std::process::id();
        let chain =
            |pids: &[u32]| pids.iter().map(|pid| system_stats::process_cpu(*pid)).sum::<Duration>();
        let before = (
            system_stats::system_busy(),
            system_stats::process_cpu(self.own_pid),
            chain(&self.chain_pids),
            system_stats::process_cpu(callers_pid),
        );
        let begun = std::time::Instant::now();
        let found =
            load_generator::run_slice(&self.message, callers, SliceEnd::Time(slice)).await?;
        let elapsed = begun.elapsed();
        let own = system_stats::process_cpu(self.own_pid).saturating_sub(before.1);
        let chain = chain(&self.chain_pids).saturating_sub(before.2);
        let whole = chain + system_stats::process_cpu(callers_pid).saturating_sub(before.3);
        let foreign = system_stats::system_busy().saturating_sub(before.0).saturating_sub(whole);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(SliceSample {
            rate: found.rate(),
            calls: found.calls,
            failures: found.failures,
            latencies: found.latencies,
            own_cpu: own,
            chain_cpu: chain,
            total_cpu: whole,
            foreign_share: foreign.as_secs_f64() / elapsed.as_secs_f64() / cores as f64,
        })
    }
}

/// All slices of one target at one number of callers.
#[derive(Debug)]
pub(crate) struct TargetSeries {
    pub(crate) target: String,
    pub(crate) callers: usize,
    pub(crate) samples: Vec<SliceSample>,
    /// Resident memory at the end and peak memory, in MiB.
    pub(crate) memory: (f64, f64),
    /// Instructions of the whole machine per call, if they can be counted.
    pub(crate) instructions: Option<f64>,
}

impl TargetSeries {
    pub(crate) fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.rate).collect()
    }

    pub(crate) fn total_failures(&self) -> u64 {
        self.samples.iter().map(|sample| sample.failures).sum()
    }

    pub(crate) fn quantile(&self, fraction: f64) -> Duration {
        let mut all = LatencyHistogram::default();
        self.samples.iter().for_each(|sample| all.merge(&sample.latencies));
        all.quantile(fraction)
    }

    /// Returns the CPU time per call in microseconds, of the times that `time` selects.
    pub(crate) fn cpu_per_call(&self, time: impl Fn(&SliceSample) -> Duration) -> f64 {
        let calls: u64 = self.samples.iter().map(|sample| sample.calls).sum();
        let used: Duration = self.samples.iter().map(time).sum();
        used.as_secs_f64() * 1e6 / calls.max(1) as f64
    }
}

/// Measures all targets in turn, slice by slice, with a different first target each round, so that
/// a slow phase of the machine affects all targets.
pub(crate) async fn measure_in_turn(
    targets: &[MeasuredTarget],
    callers: usize,
    slice: Duration,
    rounds: usize,
) -> Result<Vec<TargetSeries>, String> {
    let mut samples = vec![Vec::new(); targets.len()];
    for round in 0..rounds {
        let order = (0..targets.len()).map(|place| (place + round) % targets.len());
        for index in order {
            let (Some(target), Some(list)) = (targets.get(index), samples.get_mut(index)) else {
                continue;
            };
            let sample = target.measure_slice(callers, slice).await?;
            println!("{callers:>4} callers  {:<28} {:>9.0} calls/s", target.name, sample.rate);
            list.push(sample);
        }
    }
    let series = |(target, samples): (&MeasuredTarget, Vec<SliceSample>)| TargetSeries {
        target: target.name.clone(),
        callers,
        samples,
        memory: system_stats::process_memory(target.own_pid),
        instructions: None,
    };
    Ok(targets.iter().zip(samples).map(series).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Duration, LatencyHistogram, SliceSample, TargetSeries};

    /// Builds a series of 16 callers on a machine that is half used by other processes.
    pub(crate) fn sample_series(target: &str, rates: &[f64]) -> TargetSeries {
        let sample = |rate: &f64| SliceSample {
            rate: *rate,
            calls: 1000,
            failures: 0,
            latencies: LatencyHistogram::default(),
            own_cpu: Duration::from_millis(10),
            chain_cpu: Duration::from_millis(30),
            total_cpu: Duration::from_millis(40),
            foreign_share: 0.5,
        };
        TargetSeries {
            target: target.to_owned(),
            callers: 16,
            samples: rates.iter().map(sample).collect(),
            memory: (9.0, 10.0),
            instructions: None,
        }
    }
}
