//! Persistent state of a program: everything it needs to resume in another process.

use identity::{Principal, RequestRestrictions};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{CallId, Caller, Interface, WallTime};

use crate::interpreter::{CallValue, ExecutionMode, WavePlan};
use crate::step_plan::ProgramStep;

/// Maximum length of a program's output, in bytes. The rest is dropped.
const MAX_OUTPUT_BYTES: usize = 256 << 10;

/// Maximum number of calls of a program, as in the tool's schema.
const MAX_CALLS: usize = 1_000;

/// Request to run a program.
#[derive(Debug, Clone)]
pub struct ProgramRequest {
    /// The script; empty for a program of steps.
    pub code: String,
    /// Calls as data, in place of a script.
    pub steps: Vec<ProgramStep>,
    /// Names that have a value at its start.
    pub inputs: Map<String, Value>,
    /// How its calls follow each other.
    pub execution_mode: ExecutionMode,
    /// Whether calls with side effects may run concurrently in waves.
    pub parallel_mutations: bool,
    /// Maximum number of calls; at most 1,000.
    pub max_calls: usize,
}

/// Origin of a program: the call that starts it.
#[derive(Debug, Clone, Copy)]
pub struct CallOrigin<'a> {
    /// Caller with its rights.
    pub principal: &'a Principal,
    /// Id of the call.
    pub call_id: CallId,
    /// Interface by which the call arrived.
    pub interface: Interface,
}

/// Status of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProgramStatus {
    /// It runs, or its process ended and it can resume.
    Running,
    /// It waits for a pending call; no step runs.
    #[serde(rename = "waiting")]
    PendingApproval,
    /// The approval of a call expired. The call was not made, and is requested again when the
    /// caller resumes the program.
    Paused,
    /// It completed without an error.
    Succeeded,
    /// It ended with an exception, or was not allowed to run.
    Failed,
    /// Its caller gave it up.
    Cancelled,
    /// It exceeded its maximum age.
    Expired,
    /// The process ended while a call ran; whether the call had its effect is unknown.
    Unknown,
}

impl ProgramStatus {
    /// Returns whether this is a final state.
    pub(crate) const fn has_ended(self) -> bool {
        !matches!(self, Self::Running | Self::PendingApproval | Self::Paused)
    }
}

/// Checkpoint from which a program resumes without repeating calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Checkpoint {
    /// Python, at one call.
    Python {
        /// As the interpreter wrote it.
        state: String,
        /// The functions that its script can call.
        functions: Vec<String>,
        call: CallPhase,
    },
    /// Position within a wave of steps.
    Waves(Box<WaveCheckpoint>),
}

/// Phase of the call at which a script stopped.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallPhase {
    /// The call waits for approval.
    #[serde(rename = "held")]
    PendingApproval(ScriptCall),
    /// The call is about to start, or runs.
    #[serde(rename = "making")]
    InFlight(ScriptCall),
    /// The call returned this value.
    #[serde(rename = "came")]
    Returned(CallValue),
}

/// A call of a script that is about to run or in flight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ScriptCall {
    /// ID of the call, assigned before it starts.
    pub(crate) call: CallId,
    /// The function, as the script calls it.
    pub(crate) function: String,
    pub(crate) args: Map<String, Value>,
}

/// Checkpoint of wave execution.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WaveCheckpoint {
    pub(crate) plan: WavePlan,
    pub(crate) values: Map<String, Value>,
    /// The value of the last call of the script.
    #[serde(rename = "last")]
    pub(crate) last_value: Value,
    #[serde(rename = "wave")]
    pub(crate) wave_index: usize,
    /// Steps of this wave that have ended.
    #[serde(rename = "done")]
    pub(crate) completed_steps: Vec<usize>,
    /// Steps whose calls wait for approval.
    #[serde(rename = "held")]
    pub(crate) pending_steps: Vec<StepCall>,
    /// Steps with side effects whose calls run.
    #[serde(rename = "making")]
    pub(crate) in_flight_steps: Vec<StepCall>,
}

/// Call of a step, stored as an array of the step's position and the call's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(usize, CallId)", into = "(usize, CallId)")]
pub(crate) struct StepCall {
    pub(crate) step: usize,
    pub(crate) call: CallId,
}

impl From<(usize, CallId)> for StepCall {
    fn from((step, call): (usize, CallId)) -> Self {
        Self { step, call }
    }
}

impl From<StepCall> for (usize, CallId) {
    fn from(it: StepCall) -> Self {
        (it.step, it.call)
    }
}

/// One call of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProgramCall {
    pub(crate) index: usize,
    pub(crate) tool: String,
    pub(crate) call: CallId,
    /// Whether the call succeeded; `None` while it is pending.
    pub(crate) success: Option<bool>,
    pub(crate) elapsed_ms: u64,
}

/// One wave that ran.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WaveRecord {
    pub(crate) tools: Vec<String>,
    pub(crate) elapsed_ms: u64,
    pub(crate) parallel_mutations: bool,
}

/// Persistent state of one program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProgramState {
    /// ID of the call that started the program.
    pub(crate) id: CallId,
    pub(crate) caller: Caller,
    /// Restrictions that the caller applied to its own request.
    #[serde(rename = "narrowed")]
    pub(crate) restrictions: RequestRestrictions,
    #[serde(rename = "door")]
    pub(crate) interface: Interface,
    #[serde(rename = "created")]
    pub(crate) created_at: WallTime,
    pub(crate) state: ProgramStatus,
    pub(crate) code: String,
    pub(crate) inputs: Map<String, Value>,
    pub(crate) mode: ExecutionMode,
    #[serde(rename = "used")]
    pub(crate) effective_mode: ExecutionMode,
    #[serde(rename = "fallback")]
    pub(crate) fell_back_to_sequential: bool,
    pub(crate) parallel_mutations: bool,
    #[serde(rename = "most_calls")]
    pub(crate) max_calls: usize,
    pub(crate) calls: Vec<ProgramCall>,
    pub(crate) waves: Vec<WaveRecord>,
    #[serde(rename = "printed")]
    pub(crate) output: String,
    /// The research registry's text of a turn, for programs with waves.
    pub(crate) observation: Option<String>,
    #[serde(rename = "at")]
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) result: Option<Value>,
    pub(crate) error: Option<String>,
    #[serde(rename = "ended")]
    pub(crate) ended_at: Option<WallTime>,
    pub(crate) elapsed_ms: u64,
}

impl ProgramState {
    pub(crate) fn new(origin: CallOrigin<'_>, request: ProgramRequest, created: WallTime) -> Self {
        let ProgramRequest {
            code,
            steps: _,
            inputs,
            execution_mode: mode,
            parallel_mutations,
            max_calls: most_calls,
        } = request;
        let CallOrigin { principal, call_id, interface } = origin;
        Self {
            id: call_id,
            caller: principal.caller().clone(),
            restrictions: principal.rights_class().restrictions().clone(),
            interface,
            created_at: created,
            state: ProgramStatus::Running,
            code,
            inputs,
            mode,
            effective_mode: mode,
            fell_back_to_sequential: false,
            parallel_mutations,
            max_calls: most_calls.min(MAX_CALLS),
            calls: Vec::new(),
            waves: Vec::new(),
            output: String::new(),
            observation: None,
            checkpoint: None,
            result: None,
            error: None,
            ended_at: None,
            elapsed_ms: 0,
        }
    }

    /// Returns whether `caller` started this program, by organisation, subject and key.
    pub(crate) fn is_owned_by(&self, caller: &Caller) -> bool {
        self.caller.has_credential_of(caller)
    }

    /// Returns whether the program is in a final state.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.has_ended()
    }

    /// Returns the pending calls of the checkpoint.
    pub(crate) fn pending_calls(&self) -> Vec<CallId> {
        match &self.checkpoint {
            Some(Checkpoint::Python { call: CallPhase::PendingApproval(held), .. }) => {
                vec![held.call]
            }
            None | Some(Checkpoint::Python { .. }) => Vec::new(),
            Some(Checkpoint::Waves(at)) => at.pending_steps.iter().map(|it| it.call).collect(),
        }
    }

    pub(crate) fn wait_for_approval(&mut self, checkpoint: Checkpoint) {
        self.state = ProgramStatus::PendingApproval;
        self.checkpoint = Some(checkpoint);
    }

    /// Pauses the program for its caller, because approvals for these tools expired.
    pub(crate) fn pause_program(&mut self, checkpoint: Checkpoint, tools: &[String]) {
        self.state = ProgramStatus::Paused;
        self.checkpoint = Some(checkpoint);
        let tools = tools.join("`, `");
        self.error = Some(format!(
            "the approval of `{tools}` expired: resume the program to request it again"
        ));
    }

    /// Marks the program as running again.
    pub(crate) fn mark_running(&mut self) {
        self.state = ProgramStatus::Running;
        self.error = None;
    }

    pub(crate) fn finish_program(
        &mut self,
        now: WallTime,
        state: ProgramStatus,
        result: Result<Value, String>,
    ) {
        self.state = state;
        self.ended_at = Some(now);
        // Not needed any more, and possibly large.
        self.checkpoint = None;
        self.code = String::new();
        self.inputs = Map::new();
        match result {
            Ok(value) => self.result = Some(value),
            Err(error) => self.error = Some(error),
        }
    }

    /// Replaces a result that is too large to store by an error.
    pub(crate) fn drop_result(&mut self, bytes: usize) {
        self.state = ProgramStatus::Failed;
        self.result = None;
        self.observation = None;
        self.error =
            Some(format!("it completed, but its result of {bytes} bytes is too large to store"));
    }

    /// Removes the entry of a call that was never made.
    pub(crate) fn remove_call(&mut self, call: CallId) {
        self.calls.retain(|it| it.call != call);
    }

    pub(crate) fn append_output(&mut self, text: &str) {
        let room = MAX_OUTPUT_BYTES.saturating_sub(self.output.len());
        self.output.push_str(truncate_text(text, room));
    }

    pub(crate) fn set_observation(&mut self, text: &str) {
        self.observation = Some(truncate_text(text, MAX_OUTPUT_BYTES).to_owned());
    }

    /// Returns the index of a call in the program; for a new call, the next index.
    pub(crate) fn call_index(&self, call: CallId) -> usize {
        self.calls.iter().position(|it| it.call == call).unwrap_or(self.calls.len())
    }

    /// Records the result of a call, and updates the entry of one that was pending.
    pub(crate) fn record_call(
        &mut self,
        tool: &str,
        (call, success): (CallId, Option<bool>),
        elapsed_ms: u64,
    ) {
        if let Some(known) = self.calls.iter_mut().find(|it| it.call == call) {
            known.success = success;
            known.elapsed_ms += elapsed_ms;
            return;
        }
        let index = self.calls.len();
        let tool = tool.to_owned();
        self.calls.push(ProgramCall { index, tool, call, success, elapsed_ms });
    }
}

fn truncate_text(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}
