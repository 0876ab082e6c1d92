//! Programs that ended and were never stored, for those who ask later: the last few, and of each root key
//! fewer still, so that none pushes out everybody's.

use std::collections::VecDeque;

use serde_json::Value;
use tool::CallId;

use crate::keep::Kept;
use crate::program::Program;

/// How many there are.
const ALL: usize = 256;
/// How many of one root key.
const EACH: usize = 64;
/// Their bytes in memory, about.
const BYTES: usize = 32 << 20;

/// The last few, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Lately {
    programs: VecDeque<(Kept, usize)>,
    bytes: usize,
}

impl Lately {
    pub(crate) fn push(&mut self, kept: &Kept) {
        let (caller, size) = (&kept.program.caller, size_of(&kept.program));
        if size > BYTES {
            return;
        }
        let same = |(it, _): &(Kept, usize)| {
            let other = &it.program.caller;
            other.org == caller.org && other.root_key() == caller.root_key()
        };
        if self.programs.iter().filter(|it| same(it)).count() >= EACH
            && let Some(oldest) = self.programs.iter().position(same)
        {
            self.remove(oldest);
        }
        while self.programs.len() >= ALL || self.bytes + size > BYTES {
            self.remove(0);
        }
        self.bytes += size;
        self.programs.push_back((kept.clone(), size));
    }

    fn remove(&mut self, place: usize) {
        if let Some((_, size)) = self.programs.remove(place) {
            self.bytes -= size;
        }
    }

    pub(crate) fn find(&self, id: CallId) -> Option<&Kept> {
        self.all().find(|kept| kept.program.id == id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Kept> {
        self.programs.iter().rev().map(|(kept, _)| kept)
    }
}

/// Bytes of a program that has ended, about.
fn size_of(program: &Program) -> usize {
    let texts = [Some(&program.printed), program.observation.as_ref(), program.error.as_ref()];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    let lists = 128 * (program.calls.len() + program.waves.len());
    1_024 + texts + lists + program.result.as_ref().map_or(0, size)
}

fn size(value: &Value) -> usize {
    let own = size_of_val(value);
    own + match value {
        Value::String(text) => text.len(),
        Value::Array(all) => all.iter().map(size).sum(),
        Value::Object(all) => all.iter().map(|(key, it)| 32 + key.len() + size(it)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
