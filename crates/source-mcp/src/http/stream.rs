//! The events of one request's response, until its answer, over as many breaks as a server allows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::mcp::sse::{self, TooLarge};
use ::mcp::{Era, Id, Message, Request, Response, RpcError};
use bytes::Bytes;
use egress::Body;
use futures_util::FutureExt as _;
use http::HeaderValue;
use tokio::time::{sleep, timeout};
use tool::{Json, Limits};

use super::{Endpoint, reply};
use crate::ears::Heard;
use crate::exchange::{Event, Spoiled, not_answered};
use crate::fail::HttpFault;
use crate::link::{Link, Unanswered, Wire};
use crate::noise::Verdict;
use crate::question::is_passed_on;

/// A server may ask for a pause before its stream is resumed: between these two.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));
/// A stream is resumed so often.
const RESUMED: u32 = 6;
/// Questions of the server on one stream.
const QUESTIONS: usize = 1_000;
/// How long the end of a stream may take whose answer has come, for its caller and in all.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The events of one response.
#[derive(Debug)]
pub(super) struct Stream {
    body: Option<Body>,
    reader: sse::Reader,
    most: usize,
    last: Option<HeaderValue>,
    pause: Option<Duration>,
    resumed: u32,
    questions: usize,
    /// A question that is ours to answer, until it is.
    owed: Option<Request>,
    /// The last event, kept while the rest is read.
    ended: Option<Event>,
}

impl Stream {
    pub(super) fn new(body: Body, most: usize) -> Self {
        Self {
            body: Some(body),
            reader: sse::Reader::new(most),
            most,
            last: None,
            pause: None,
            resumed: 0,
            questions: 0,
            owed: None,
            ended: None,
        }
    }

    /// What comes next.
    pub(super) async fn next(&mut self, link: &Arc<Link>, id: i64) -> Result<Event, Unanswered> {
        loop {
            self.settle(link).await?;
            if let Some(event) = self.ended.take() {
                return Ok(event);
            }
            while let Some(event) = self.reader.pop() {
                if let Some(event) = self.event(event, link, id).await? {
                    if !matches!(event, Event::Answered(_) | Event::Spoiled(_)) {
                        return Ok(event);
                    }
                    self.ended = Some(event);
                    self.drain(link).await;
                    return self.ended.take().ok_or(Unanswered::Lost);
                }
            }
            let part = match &mut self.body {
                Some(body) => body.chunk().await.ok().flatten(),
                None => None,
            };
            match part {
                Some(part) => self
                    .reader
                    .feed(&part)
                    .map_err(|TooLarge| Unanswered::Undelivered(HttpFault::too_large(self.most)))?,
                None => self.resume(link).await?,
            }
        }
    }

    /// An event that is of interest to the request's owner.
    async fn event(
        &mut self,
        event: sse::Event,
        link: &Arc<Link>,
        id: i64,
    ) -> Result<Option<Event>, Unanswered> {
        if let Some(at) = event.id {
            self.last = HeaderValue::from_str(&at).ok().filter(|at| !at.is_empty());
        }
        if let Some(pause) = event.retry {
            self.pause = Some(Duration::from_millis(pause).clamp(PAUSE.0, PAUSE.1));
        }
        let ours = matches!(event.event.as_deref(), None | Some("" | "message"));
        let Some(data) = event.data.filter(|data| ours && !data.trim().is_empty()) else {
            return Ok(None);
        };
        let limits = Limits { bytes: self.most, ..Limits::DOCUMENT };
        let data = Bytes::from(data);
        match Message::read(data.clone(), limits) {
            Ok(Message::Response(answer)) => Ok(answered(answer, id)),
            Ok(Message::Request(question)) => self.asked(question, link).await,
            Ok(Message::Notification(notice)) => Ok(match link.shared.ears.hear(notice) {
                Heard::Progressed(of, progress) if of == id => Some(Event::Progressed(progress)),
                Heard::Logged(notice) | Heard::Acknowledged(_, notice) => {
                    Some(Event::Noticed(notice))
                }
                Heard::Withdrawn(of) => Some(Event::Withdrawn(of)),
                Heard::Progressed(..) | Heard::Quiet => None,
            }),
            Err(fault) => match Spoiled::read(&data, &fault) {
                Some((of, spoiled)) if of == id => Ok(Some(Event::Spoiled(spoiled))),
                _ => match link.shared.noise.line(&data, &fault.to_string()) {
                    Verdict::Bear => Ok(None),
                    Verdict::Enough(why) => Err(Unanswered::Undelivered(HttpFault::malformed(why))),
                },
            },
        }
    }

    async fn asked(&mut self, question: Request, link: &Link) -> Result<Option<Event>, Unanswered> {
        self.questions += 1;
        if self.questions > QUESTIONS {
            let why = format!("asked more than {QUESTIONS} questions on one stream");
            return Err(Unanswered::Undelivered(HttpFault::malformed(why)));
        }
        if is_passed_on(&question.method) {
            return Ok(Some(Event::Asked(question)));
        }
        self.owed = Some(question);
        self.settle(link).await?;
        Ok(None)
    }

    /// What is owed stays until it is given, so that a dropped future loses nothing.
    async fn settle(&mut self, link: &Link) -> Result<(), Unanswered> {
        if let Some(question) = &self.owed {
            reply_to(question, link).await?;
            self.owed = None;
        }
        Ok(())
    }

    /// The stream broke off. What is left of it may be had, where the server gave its events ids.
    async fn resume(&mut self, link: &Link) -> Result<(), Unanswered> {
        self.body = None;
        let Wire::Http(endpoint) = &link.wire else { return Err(Unanswered::Lost) };
        loop {
            let last = self.last.clone().filter(|_| link.era() == Era::Handshake);
            let Some(last) = last.filter(|_| self.resumed < RESUMED) else {
                return Err(Unanswered::Lost);
            };
            let doubled = PAUSE.0.saturating_mul(1 << self.resumed);
            self.resumed += 1;
            sleep(self.pause.unwrap_or(doubled)).await;
            // Nobody there yet is no last word; a refusal is.
            let Ok(response) = endpoint.get(&endpoint.seat(), Some(&last)).await else { continue };
            if !response.status().is_success() || reply::media(&response) != reply::Media::Events {
                reply::rest(response.into_body()).await;
                return Err(Unanswered::Lost);
            }
            self.reader = sse::Reader::new(self.most);
            self.body = Some(response.into_body());
            return Ok(());
        }
    }

    /// Reads to the end, so that the connection serves the next request. It is mostly there already.
    async fn drain(&mut self, link: &Link) {
        let Some(mut body) = self.body.take() else { return };
        let Wire::Http(endpoint) = &link.wire else { return };
        let mut to_end = Box::pin(async move { while let Ok(Some(_)) = body.chunk().await {} });
        if to_end.as_mut().now_or_never().is_some() {
            return;
        }
        if !endpoint.lingers.load(Ordering::Relaxed) {
            if timeout(REST.0, to_end.as_mut()).await.is_ok() {
                return;
            }
            endpoint.lingering();
        }
        drop(link.shared.tasks.spawn(async move { drop(timeout(REST.1, to_end).await) }));
    }
}

fn answered(answer: Response, id: i64) -> Option<Event> {
    let Response { id: of, result } = answer;
    // An error without an id can only be this request's.
    let ours = match &of {
        Some(of) => of.as_number() == Some(id),
        None => result.is_err(),
    };
    ours.then_some(Event::Answered(result))
}

/// Answers a question that is nobody's but ours.
pub(super) async fn reply_to(question: &Request, link: &Link) -> Result<(), Unanswered> {
    let answer: Result<Json, RpcError> = match question.method.as_str() {
        "ping" => Ok(Json::empty()),
        method => Err(not_answered(method)),
    };
    let id: &Id = &question.id;
    link.reply(id, &answer).await
}

/// The endpoint of a connection that has one.
pub(super) fn endpoint(link: &Link) -> Option<&Endpoint> {
    match &link.wire {
        Wire::Http(endpoint) => Some(endpoint),
        Wire::Pipe(_) => None,
    }
}
