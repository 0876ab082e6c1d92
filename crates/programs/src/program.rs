//! A program as it is kept: all that it needs to go on elsewhere.

use identity::{Narrowing, Principal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{CallId, Caller, Interface, Wall};

use crate::script::{Came, Mode, Waves};
use crate::steps::Planned;

/// Text that a program prints, in bytes; what is more is left out.
const PRINTED: usize = 256 << 10;

/// Calls that a program may make, whatever it asks for. The tool's schema says the same.
const MOST_CALLS: usize = 1_000;

/// What is to run.
#[derive(Debug, Clone)]
pub struct Begin {
    /// The script; empty where there are steps.
    pub code: String,
    /// Calls as data, in place of a script.
    pub steps: Vec<Planned>,
    /// Names that have a value at its start.
    pub inputs: Map<String, Value>,
    /// How its calls follow each other.
    pub mode: Mode,
    /// Whether calls with effects may run beside each other, in waves.
    pub parallel_mutations: bool,
    /// Calls that it may make; 1,000 at most.
    pub most_calls: usize,
}

/// How far a program came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It runs, or its process ended while it did and it can go on.
    Running,
    /// It waits for a held call; nothing of it runs.
    Waiting,
    /// Nobody decided in time about a call of it. It was not made; it is asked for anew where the caller
    /// resumes the program.
    Paused,
    /// It came to its end.
    Succeeded,
    /// It ended with an exception, or was not allowed to run.
    Failed,
    /// Its caller gave it up.
    Cancelled,
    /// It did not come to its end in the time that programs have.
    Expired,
    /// The process ended while a call of it ran: whether that had its effect, nobody knows.
    Unknown,
}

impl State {
    /// Whether nothing will come of it any more.
    pub(crate) const fn has_ended(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting | Self::Paused)
    }
}

/// Where a program stands, so that it goes on from there and repeats nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum At {
    /// Python, at one call.
    Python {
        /// As the interpreter wrote it.
        state: String,
        /// The functions that its script can call.
        functions: Vec<String>,
        call: AtCall,
    },
    /// Waves, in one of them.
    Waves(Box<AtWave>),
}

/// How far the call came at which Python stopped.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AtCall {
    /// It waits for a person.
    Held(Making),
    /// It is about to be made, or is.
    Making(Making),
    /// It was made, and this came of it.
    Came(Came),
}

/// A call that is being made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Making {
    /// The id it has, or will have.
    pub(crate) call: CallId,
    /// The function, as the script calls it.
    pub(crate) function: String,
    pub(crate) args: Map<String, Value>,
}

/// How far waves came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AtWave {
    pub(crate) plan: Waves,
    pub(crate) values: Map<String, Value>,
    /// The value of the last call of the script.
    pub(crate) last: Value,
    pub(crate) wave: usize,
    /// Steps of this wave that have ended.
    pub(crate) done: Vec<usize>,
    /// Steps that wait, with their calls.
    pub(crate) held: Vec<(usize, CallId)>,
    /// Steps with effects whose calls are being made.
    pub(crate) making: Vec<(usize, CallId)>,
}

/// One call of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Called {
    pub(crate) index: usize,
    pub(crate) tool: String,
    pub(crate) call: CallId,
    /// Whether it went well; nothing while it waits.
    pub(crate) success: Option<bool>,
    pub(crate) elapsed_ms: u64,
}

/// One wave that ran.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wave {
    pub(crate) tools: Vec<String>,
    pub(crate) elapsed_ms: u64,
    pub(crate) parallel_mutations: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Narrowed {
    read_only: bool,
    no_web: bool,
    task_type: Option<String>,
}

impl From<Narrowed> for Narrowing {
    fn from(it: Narrowed) -> Self {
        Self { read_only: it.read_only, no_web: it.no_web, task_type: it.task_type }
    }
}

/// A program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The id of the call that began it.
    pub(crate) id: CallId,
    pub(crate) caller: Caller,
    /// What the caller took from itself.
    pub(crate) narrowed: Narrowed,
    pub(crate) door: Interface,
    pub(crate) created: Wall,
    pub(crate) state: State,
    pub(crate) code: String,
    pub(crate) inputs: Map<String, Value>,
    pub(crate) mode: Mode,
    pub(crate) used: Mode,
    pub(crate) fallback: bool,
    pub(crate) parallel_mutations: bool,
    pub(crate) most_calls: usize,
    pub(crate) calls: Vec<Called>,
    pub(crate) waves: Vec<Wave>,
    pub(crate) printed: String,
    /// Spec 3's text of a turn, where the program was waves.
    pub(crate) observation: Option<String>,
    pub(crate) at: Option<At>,
    pub(crate) result: Option<Value>,
    pub(crate) error: Option<String>,
    pub(crate) ended: Option<Wall>,
    pub(crate) elapsed_ms: u64,
}

impl Program {
    pub(crate) fn new(
        (who, id, door): (&Principal, CallId, Interface),
        begin: Begin,
        created: Wall,
    ) -> Self {
        let Narrowing { read_only, no_web, task_type } = who.rights().narrowing().clone();
        let Begin { code, steps: _, inputs, mode, parallel_mutations, most_calls } = begin;
        Self {
            id,
            caller: who.caller().clone(),
            narrowed: Narrowed { read_only, no_web, task_type },
            door,
            created,
            state: State::Running,
            code,
            inputs,
            mode,
            used: mode,
            fallback: false,
            parallel_mutations,
            most_calls: most_calls.min(MOST_CALLS),
            calls: Vec::new(),
            waves: Vec::new(),
            printed: String::new(),
            observation: None,
            at: None,
            result: None,
            error: None,
            ended: None,
            elapsed_ms: 0,
        }
    }

    /// Whether this is its caller, by whichever credential the principal was made.
    pub(crate) fn is_of(&self, who: &Caller) -> bool {
        let Caller { org, subject, key, .. } = who;
        *org == self.caller.org && *subject == self.caller.subject && *key == self.caller.key
    }

    /// Whether nothing will come of it any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.has_ended()
    }

    /// The held calls that it waits for.
    pub(crate) fn waits_for(&self) -> Vec<CallId> {
        match &self.at {
            Some(At::Python { call: AtCall::Held(held), .. }) => vec![held.call],
            None | Some(At::Python { .. }) => Vec::new(),
            Some(At::Waves(at)) => at.held.iter().map(|(_, call)| *call).collect(),
        }
    }

    pub(crate) fn waits(&mut self, at: At) {
        self.state = State::Waiting;
        self.at = Some(at);
    }

    /// It waits for its caller: nobody decided in time about calls of these tools.
    pub(crate) fn pauses(&mut self, at: At, tools: &[String]) {
        self.state = State::Paused;
        self.at = Some(at);
        let tools = tools.join("`, `");
        self.error = Some(format!(
            "nobody decided about `{tools}` in time: resume the program to ask for it again"
        ));
    }

    /// It runs again.
    pub(crate) fn goes_on(&mut self) {
        self.state = State::Running;
        self.error = None;
    }

    pub(crate) fn ends(&mut self, now: Wall, state: State, came: Result<Value, String>) {
        self.state = state;
        self.ended = Some(now);
        // What it would go on with is not needed any more, and may be large.
        self.at = None;
        self.code = String::new();
        self.inputs = Map::new();
        match came {
            Ok(value) => self.result = Some(value),
            Err(error) => self.error = Some(error),
        }
    }

    /// It came to more than can be stored.
    pub(crate) fn loses_its_result(&mut self, bytes: usize) {
        self.state = State::Failed;
        self.result = None;
        self.observation = None;
        self.error = Some(format!(
            "it came to its end, but to {bytes} bytes, which is too much to be stored"
        ));
    }

    /// A call that was never made is none.
    pub(crate) fn forgets(&mut self, call: CallId) {
        self.calls.retain(|it| it.call != call);
    }

    pub(crate) fn prints(&mut self, text: &str) {
        let room = PRINTED.saturating_sub(self.printed.len());
        self.printed.push_str(cut(text, room));
    }

    pub(crate) fn observes(&mut self, text: &str) {
        self.observation = Some(cut(text, PRINTED).to_owned());
    }

    /// The place of a call among those of the program: of one that is made, the next.
    pub(crate) fn index_of(&self, call: CallId) -> usize {
        self.calls.iter().position(|it| it.call == call).unwrap_or(self.calls.len())
    }

    /// Notes what a call came to; one that waited is noted anew.
    pub(crate) fn notes(&mut self, tool: &str, (call, success): (CallId, Option<bool>), ms: u64) {
        if let Some(known) = self.calls.iter_mut().find(|it| it.call == call) {
            known.success = success;
            known.elapsed_ms += ms;
            return;
        }
        let index = self.calls.len();
        let tool = tool.to_owned();
        self.calls.push(Called { index, tool, call, success, elapsed_ms: ms });
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}
