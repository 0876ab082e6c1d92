//! Sanitized progress, client requests and task messages of a running call.

use std::time::Duration;

use tool::executor::{Ask, Progress, Task, Unanswered};
use tool::{Boxed, Call, Json};

use super::{fit, text};

/// Sanitizes progress and client requests of one call on their way to the client.
pub(crate) struct Words<'a> {
    pub(crate) progress: &'a dyn Progress,
    pub(crate) ask: Option<&'a dyn Ask>,
    pub(crate) task: Option<&'a dyn Task>,
}

impl Progress for Words<'_> {
    fn report(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let message = message.map(text);
        self.progress.report(done, total, message.as_deref());
    }

    fn wanted(&self) -> bool {
        self.progress.wanted()
    }

    fn notify(&self, method: &str, params: &Json) {
        self.progress.notify(method, &fit(params.clone()));
    }
}

impl Ask for Words<'_> {
    fn ask<'a>(&'a self, method: &'a str, params: Json) -> Boxed<'a, Result<Json, Unanswered>> {
        let held = self.task.filter(|task| task.held().is_some());
        match held.map(|task| task as &dyn Ask).or(self.ask) {
            Some(ask) => ask.ask(method, fit(params)),
            None => Box::pin(std::future::ready(Err(Unanswered::Gone))),
        }
    }
}

impl Task for Words<'_> {
    fn hold(&self, call: &Call) -> bool {
        self.task.is_some_and(|task| task.hold(call))
    }

    fn held(&self) -> Option<Duration> {
        self.task.and_then(Task::held)
    }

    fn tell(&self, line: &str) {
        if let Some(task) = self.task {
            task.tell(&text(line));
        }
    }
}
