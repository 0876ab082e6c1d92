//! The comparison: the same message, or ours leaves it. Nothing else is allowed, and what is left is counted.

use std::collections::BTreeMap;

use crate::readers::{Requests, Responses, hyper_requests, hyper_responses};

/// What a comparison came to.
#[derive(Debug, Default)]
pub(crate) struct DifferenceCount {
    pub(crate) inputs: usize,
    /// Messages that both read, and read as the same.
    pub(crate) same: usize,
    /// Inputs of which ours takes all.
    pub(crate) whole: usize,
    /// Why ours stopped where hyper goes on, or hands over.
    pub(crate) left: BTreeMap<String, usize>,
    /// Inputs that were read in two ways.
    pub(crate) differing: Vec<String>,
}

impl DifferenceCount {
    /// Holds what a reader of requests took, and what hyper makes of the rest, against what hyper makes of all.
    pub(crate) fn requests(&mut self, input: &[u8], step: usize, (ours, rest): Requests) {
        self.inputs += 1;
        let all = hyper_requests(input, step);
        let count = ours.len();
        let mut joined = ours;
        if rest.is_empty() {
            self.whole += 1;
        } else {
            *self.left.entry("passed on to hyper".to_owned()).or_default() += 1;
            joined.extend(hyper_requests(&rest, step));
        }
        if joined == all {
            self.same += count;
        } else {
            self.differs(&[input.to_vec()], &format!("{joined:?}"), &format!("{all:?}"));
        }
    }

    /// The same of responses: what ours takes, hyper takes as well.
    pub(crate) fn responses(
        &mut self,
        parts: &[Vec<u8>],
        (is_head, step): (bool, usize),
        (ours, reason): Responses,
    ) {
        self.inputs += 1;
        let (all, stopped) = hyper_responses(parts, is_head, step);
        if !all.starts_with(&ours) {
            self.differs(parts, &format!("{ours:?} {reason:?}"), &format!("{all:?} {stopped:?}"));
            return;
        }
        self.same += ours.len();
        self.whole += usize::from(ours.len() == parts.len());
        if all.len() > ours.len() {
            *self.left.entry(reason.unwrap_or_default()).or_default() += 1;
        }
    }

    fn differs(&mut self, input: &[Vec<u8>], ours: &str, hyper: &str) {
        let text: Vec<_> = input.iter().map(|part| part.escape_ascii().to_string()).collect();
        let cut = |text: &str| text.chars().take(1_000).collect::<String>();
        let told = format!("{}\nours  {}\nhyper {}", text.join("\n  then "), cut(ours), cut(hyper));
        self.differing.push(told);
    }

    /// Fails where anything was read in two ways.
    pub(crate) fn assert_no_differences(&self, what: &str) {
        let Self { inputs, same, whole, left, differing } = self;
        println!(
            "{what}: {inputs} inputs, {same} messages the same, {whole} read whole, {} read in two ways",
            differing.len()
        );
        for (reason, count) in left {
            println!("  left by ours: {count} {reason}");
        }
        assert!(differing.is_empty(), "{}", differing[..differing.len().min(5)].join("\n\n"));
    }
}
