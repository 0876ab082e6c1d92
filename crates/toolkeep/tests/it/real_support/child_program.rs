//! Programs that a test runs next to the server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use crate::support::server_process::READY_LIMIT;

/// A program; killed when dropped.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    /// Starts it. Its output is read to the end, so that it never blocks on a full pipe.
    pub(crate) fn start(command: &mut Command) -> Self {
        let program = command.get_program().to_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let lines = read_lines(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for the first JSON object that it prints.
    pub(crate) fn json(&self) -> Value {
        loop {
            let line = self.lines.recv_timeout(READY_LIMIT).expect("a line of JSON");
            if let Ok(value @ Value::Object(_)) = serde_json::from_str(&line) {
                return value;
            }
        }
    }
}

impl Program {
    /// Waits for a line that contains `words`; `false` if it ends or times out first.
    pub(crate) fn has_line(&self, words: &str) -> bool {
        self.find_line(words).is_some()
    }

    /// The first line that holds `words`, from here on.
    pub(crate) fn find_line(&self, words: &str) -> Option<String> {
        std::iter::from_fn(|| self.lines.recv_timeout(READY_LIMIT).ok())
            .find(|line| line.contains(words))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Program {
    /// Asks it to end, and waits until it has.
    pub(crate) fn stop_program(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success(), "it ends well");
    }
}

fn read_lines(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // Nobody may listen any more; the pipe is still read.
            let _unheard = sender.send(line);
        }
    });
    receiver
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
