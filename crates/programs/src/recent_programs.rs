//! Recent programs: programs that ended without being stored, bounded in total and for each root
//! key.

use std::collections::VecDeque;

use serde_json::Value;
use tool::CallId;

use crate::program_state::ProgramState;
use crate::program_store::StoredProgram;

/// Maximum number of recent programs.
const MAX_RECENT_PROGRAMS: usize = 256;
/// Maximum number of recent programs of one root key.
const MAX_RECENT_PER_CALLER: usize = 64;
/// Approximate maximum size in memory, in bytes.
const MAX_RECENT_BYTES: usize = 32 << 20;

/// Recently ended programs, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RecentPrograms {
    programs: VecDeque<(StoredProgram, usize)>,
    bytes: usize,
}

impl RecentPrograms {
    pub(crate) fn push_program(&mut self, stored: &StoredProgram) {
        let (caller, size) = (&stored.program.caller, program_size(&stored.program));
        if size > MAX_RECENT_BYTES {
            return;
        }
        let same = |(it, _): &(StoredProgram, usize)| {
            let other = &it.program.caller;
            other.org == caller.org && other.limit_key_id() == caller.limit_key_id()
        };
        if self.programs.iter().filter(|it| same(it)).count() >= MAX_RECENT_PER_CALLER
            && let Some(oldest) = self.programs.iter().position(same)
        {
            self.remove_at(oldest);
        }
        while self.programs.len() >= MAX_RECENT_PROGRAMS || self.bytes + size > MAX_RECENT_BYTES {
            self.remove_at(0);
        }
        self.bytes += size;
        self.programs.push_back((stored.clone(), size));
    }

    fn remove_at(&mut self, position: usize) {
        if let Some((_, size)) = self.programs.remove(position) {
            self.bytes -= size;
        }
    }

    pub(crate) fn find_program(&self, id: CallId) -> Option<&StoredProgram> {
        self.iter_programs().find(|kept| kept.program.id == id)
    }

    pub(crate) fn iter_programs(&self) -> impl Iterator<Item = &StoredProgram> {
        self.programs.iter().rev().map(|(kept, _)| kept)
    }
}

/// Estimates the size of an ended program, in bytes.
fn program_size(program: &ProgramState) -> usize {
    let texts = [Some(&program.output), program.observation.as_ref(), program.error.as_ref()];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    let lists = 128 * (program.calls.len() + program.waves.len());
    1_024 + texts + lists + program.result.as_ref().map_or(0, value_size)
}

fn value_size(value: &Value) -> usize {
    let base_size = size_of_val(value);
    base_size
        + match value {
            Value::String(text) => text.len(),
            Value::Array(all) => all.iter().map(value_size).sum(),
            Value::Object(all) => all.iter().map(|(key, it)| 32 + key.len() + value_size(it)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}
