//! The reading task of a pipe: each line to whom it belongs.

use std::io;
use std::sync::Arc;

use ::mcp::{Fault, Id, Message, Request, Response, RpcError, write};
use bytes::Bytes;
use sandbox::process::{Line, Lines, OverlongLine};
use tokio::sync::mpsc;
use tool::{Json, Limits};

use super::{Broken, Reader, Waiting};
use crate::ears::Heard;
use crate::exchange::{Event, Spoiled, nobodys, not_answered};
use crate::link::Shared;
use crate::noise::Verdict;
use crate::question::is_passed_on;

/// One pipe's reading end.
pub(super) struct Reading {
    lines: Lines<Reader>,
    sorting: Sorting,
}

/// Where lines go.
struct Sorting {
    limits: Limits,
    out: mpsc::WeakSender<Bytes>,
    waiting: Arc<Waiting>,
    shared: Shared,
}

/// Whether to read on.
type On = Option<()>;

impl Reading {
    pub(super) fn new(
        reader: Reader,
        longest: usize,
        (out, waiting): (mpsc::WeakSender<Bytes>, Arc<Waiting>),
        shared: Shared,
    ) -> Self {
        let limits = Limits { bytes: longest, ..Limits::DOCUMENT };
        let sorting = Sorting { limits, out, waiting, shared };
        Self { lines: Lines::new(reader, longest, OverlongLine::PassOver), sorting }
    }

    /// Reads until the end of the connection.
    pub(super) async fn run(self) {
        let Self { mut lines, sorting } = self;
        let reading = async { while sorting.line(lines.next().await).await.is_some() {} };
        tokio::select! {
            () = reading => {}
            () = sorting.shared.end.over.cancelled() => {}
        }
        sorting.waiting.abandon();
    }
}

impl Sorting {
    async fn line(&self, line: io::Result<Line>) -> On {
        match line {
            Ok(Line::Whole(line) | Line::Rest(line)) if line.is_empty() => Some(()),
            Ok(Line::Whole(line) | Line::Rest(line)) => {
                match Message::read(line.clone(), self.limits) {
                    Ok(message) => {
                        self.shared.noise.quiet();
                        self.message(message).await
                    }
                    Err(fault) => self.unreadable(&line, &fault),
                }
            }
            Ok(Line::TooLong(bytes)) => {
                let verdict = self.shared.noise.too_long(bytes);
                // The only one that waits: it was its answer, as far as anyone can tell.
                if let Some(id) = self.waiting.only() {
                    let limit = self.limits.bytes;
                    let why = format!(
                        "a message of {bytes} bytes is longer than the limit of {limit}; raise `max_message` of the \
                         source"
                    );
                    self.settle(id, Err(RpcError::new(0, why)));
                }
                self.heard(verdict)
            }
            Ok(Line::End) => None,
            Err(error) => {
                self.shared.end.broken(Broken::Io(error.to_string()));
                None
            }
        }
    }

    async fn message(&self, message: Message) -> On {
        match message {
            Message::Response(Response { id, result }) => {
                let id = id.as_ref().and_then(Id::as_number);
                // An error that names no request is the only one's that waits, where all that ever did
                // were of one caller.
                let only = || self.waiting.only().filter(|_| !self.shared.audience.is_shared());
                if let Some(id) = id.or_else(only) {
                    self.settle(id, result);
                }
                Some(())
            }
            Message::Request(request) => self.asked(request).await,
            Message::Notification(notice) => {
                let told = match self.shared.ears.hear(notice) {
                    Heard::Progressed(id, progress) => {
                        (self.waiting.of(id), Event::Progressed(progress))
                    }
                    Heard::Acknowledged(id, notice) => {
                        (self.waiting.of(id), Event::Noticed(notice))
                    }
                    Heard::Logged(notice) => {
                        let call = self.waiting.addressee(notice.params.as_ref());
                        if call.is_none() {
                            self.shared.audience.log(&notice);
                        }
                        (call, Event::Noticed(notice))
                    }
                    Heard::Withdrawn(id) => {
                        for waiter in self.waiting.calls() {
                            drop(waiter.tell(Event::Withdrawn(id.clone())));
                        }
                        return Some(());
                    }
                    Heard::Quiet => return Some(()),
                };
                if let (Some(waiter), event) = told {
                    // Lossy on purpose: a server that tells too much waits for nobody.
                    drop(waiter.tell(event));
                }
                Some(())
            }
        }
    }

    fn settle(&self, id: i64, answer: Result<Json, RpcError>) {
        if let Some(waiter) = self.waiting.take(id) {
            // There is a place for it; and nobody listens where the caller gave up.
            drop(waiter.events.try_send(Event::Answered(answer)));
        }
    }

    /// A question goes to the call it belongs to, or is refused.
    async fn asked(&self, request: Request) -> On {
        if request.method == "ping" {
            return self.reply(write::result(&request.id, &Json::empty())).await;
        }
        if !is_passed_on(&request.method) {
            let error = not_answered(&request.method);
            return self.reply(write::error(Some(&request.id), &error)).await;
        }
        let (id, params) = (request.id.clone(), request.params.as_ref());
        if !self.waiting.calls().is_empty() {
            self.shared.audience.note_question();
        }
        let call = self.waiting.addressee(params);
        let sent = call.map(|waiter| waiter.tell(Event::Asked(request)));
        if matches!(sent, Some(Ok(()))) {
            return Some(());
        }
        self.reply(write::error(Some(&id), &nobodys())).await
    }

    /// Waits for a place, so that answers to questions do not pile up.
    async fn reply(&self, message: Bytes) -> On {
        self.out.upgrade()?.send(message).await.ok()
    }

    /// What is no message may still be an answer that cannot be passed on.
    fn unreadable(&self, line: &Bytes, fault: &Fault) -> On {
        let spoiled = Spoiled::read(line, fault);
        if let Some((id, spoiled)) = spoiled
            && let Some(waiter) = self.waiting.take(id)
        {
            drop(waiter.events.try_send(Event::Spoiled(spoiled)));
            return Some(());
        }
        let verdict = self.shared.noise.line(line, &fault.to_string());
        self.heard(verdict)
    }

    fn heard(&self, verdict: Verdict) -> On {
        match verdict {
            Verdict::Bear => Some(()),
            Verdict::Enough(why) => {
                self.shared.end.broken(Broken::Noise(why));
                None
            }
        }
    }
}
