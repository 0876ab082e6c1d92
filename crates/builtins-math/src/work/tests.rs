//! How the tests of the tools call them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tool::{Clock, Mono, Wall};

use super::{Answer, Run};
use crate::fields::Fields;

/// A clock that goes on by so many milliseconds each time it is looked at.
#[derive(Debug, Default)]
struct Stepping(AtomicU64, u64);

impl Clock for Stepping {
    fn wall(&self) -> Wall {
        Wall(0)
    }
    fn mono(&self) -> Mono {
        Mono(Duration::from_millis(self.0.fetch_add(self.1, Ordering::Relaxed)))
    }
}

/// A run that nothing stops.
pub(crate) fn endless() -> Run {
    let (stopped, clock) = (Arc::default(), Arc::new(Stepping::default()));
    Run { stopped, clock, until: Mono(Duration::MAX) }
}

/// A run whose time is over after it has asked `times` times.
pub(crate) fn short(times: u64) -> Run {
    let clock = Arc::new(Stepping(AtomicU64::new(0), 1));
    Run { stopped: Arc::default(), clock, until: Mono(Duration::from_millis(times)) }
}

/// A run that was given up.
pub(crate) fn given_up() -> Run {
    Run { stopped: Arc::new(AtomicBool::new(true)), ..endless() }
}

pub(crate) fn outcome(name: &str, args: &Value, run: &Run) -> Result<Answer, String> {
    let found = crate::TOOLS.iter().find(|(tool, _)| *tool == name);
    let (_, work) = found.unwrap_or_else(|| panic!("no tool {name}"));
    work(Fields::inside(args), run)
}

/// What a tool answers, read again from its JSON: a number that is not finite would be null there.
pub(crate) fn answer(name: &str, args: &Value) -> Value {
    let answer = outcome(name, args, &endless()).unwrap_or_else(|e| panic!("{name} {args}: {e}"));
    serde_json::from_str(&answer.value.to_string()).unwrap()
}

pub(crate) fn fault(name: &str, args: &Value) -> String {
    match outcome(name, args, &endless()) {
        Err(message) => message,
        Ok(answer) => panic!("{name} {args}: {}", answer.value),
    }
}
