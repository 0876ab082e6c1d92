//! Command-line options of the benchmarks.

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench call [OPTIONS]

  --seconds S      length of one slice (1.5); the targets take turns, slice by slice
  --rounds N       turns of each target for each number of callers (10)
  --callers A,B    numbers of callers (1,16,64)
  --instructions   as the first: only how many instructions Toolkeep's own process needs for a call,
                   counted by valgrind's callgrind; takes --callers N (16)
  --around         without Toolkeep: only what stands around it
  --peers          other gateways beside it, which are installed for that (PyPI: fastmcp,
                   mcp-contextforge-gateway)
  --write          also write the report, docs/reference/benchmarks.md, and with --peers
                   docs/reference/benchmarks-peers.md
  --shipped        what `cargo xtask release` built, Toolkeep and what stands beside it; with --write
                   docs/reference/benchmarks-shipped.md";

/// Options of one `bench call` run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallOptions {
    pub(crate) slice: Duration,
    pub(crate) rounds: usize,
    pub(crate) callers: Vec<usize>,
    /// The binary to measure; the task passes it.
    pub(crate) toolkeep: Option<PathBuf>,
    /// Folder with the installed gateways; the task passes it.
    pub(crate) peers: Option<PathBuf>,
    /// The file of the report; the task passes it.
    pub(crate) write: Option<PathBuf>,
}

impl CallOptions {
    /// Parses the options from the command line.
    pub(crate) fn parse_flags(flags: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            slice: Duration::from_millis(1500),
            rounds: 10,
            callers: vec![1, 16, 64],
            toolkeep: None,
            peers: None,
            write: None,
        };
        for pair in flags.chunks(2) {
            let [flag, value] = pair else { return Err(USAGE.to_owned()) };
            options.set_flag(flag, value)?;
        }
        Ok(options)
    }

    fn set_flag(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let bad = || format!("`{value}` does not fit {flag}\n\n{USAGE}");
        match flag {
            "--seconds" => {
                let seconds: f64 = value.parse().map_err(|_| bad())?;
                let in_range = (0.1..=60.0).contains(&seconds);
                self.slice = in_range.then(|| Duration::from_secs_f64(seconds)).ok_or_else(bad)?;
            }
            "--rounds" => {
                let rounds = value.parse().ok().filter(|n| (1..=100).contains(n));
                self.rounds = rounds.ok_or_else(bad)?;
            }
            "--callers" => {
                let one = |word: &str| word.parse().ok().filter(|n| (1..=1024).contains(n));
                self.callers = value.split(',').map(one).collect::<Option<_>>().ok_or_else(bad)?;
            }
            "--toolkeep" => self.toolkeep = Some(PathBuf::from(value)),
            "--peers" => self.peers = Some(PathBuf::from(value)),
            "--write" => self.write = Some(PathBuf::from(value)),
            _ => return Err(format!("`{flag}` is no option\n\n{USAGE}")),
        }
        Ok(())
    }
}

/// Parses `--toolkeep` and `--tools`; returns `None` for any other flag.
pub(crate) fn binary_and_tools<'a>(flags: &[&'a str], tools: usize) -> Option<(&'a Path, usize)> {
    let (mut binary, mut tools) = (None, tools);
    for pair in flags.chunks(2) {
        match pair {
            ["--toolkeep", path] => binary = Some(Path::new(*path)),
            ["--tools", number] => tools = number.parse().ok()?,
            _ => return None,
        }
    }
    Some((binary?, tools))
}

/// The flags `--toolkeep PATH` and, optionally, `--write FILE` for the report.
pub(crate) struct ReportFlags<'a> {
    pub(crate) binary: &'a str,
    pub(crate) file: Option<&'a str>,
}

impl<'a> ReportFlags<'a> {
    /// Parses the flags; returns `None` for any other word.
    pub(crate) fn from_words(args: &[&'a str]) -> Option<Self> {
        let (mut binary, mut file) = (None, None);
        for pair in args.chunks(2) {
            match pair {
                ["--toolkeep", path] => binary = Some(*path),
                ["--write", path] => file = Some(*path),
                _ => return None,
            }
        }
        Some(Self { binary: binary?, file })
    }
}

#[cfg(test)]
mod tests {
    use super::CallOptions;

    #[test]
    fn what_is_given_is_taken() {
        let options = CallOptions::parse_flags(&["--callers", "1,8", "--seconds", "0.5"]).unwrap();
        assert_eq!(options.callers, [1, 8]);
        assert_eq!(options.slice.as_millis(), 500);
        assert_eq!(options.rounds, 10);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for flags in [
            &["--callers", "1,x"][..],
            &["--rounds", "0"],
            &["--seconds", "NaN"],
            &["--rounds"],
            &["--fast", "1"],
        ] {
            assert!(CallOptions::parse_flags(flags).is_err(), "{flags:?}");
        }
    }
}
