//! The stream on which a server of before 2026-07-28 speaks without being asked.

use std::sync::Arc;
use std::time::Duration;

use ::mcp::sse;
use ::mcp::{Message, Notification, Request, code};
use egress::Body;
use http::{HeaderValue, StatusCode};
use tokio::time::{Instant, sleep};
use tool::Limits;

use super::reply;
use super::stream::{endpoint, reply_to};
use crate::ears::Heard;
use crate::exchange::{Event, nobodys};
use crate::link::{Link, Unanswered};
use crate::noise::Verdict;
use crate::question::is_passed_on;

/// A stream that ended is opened again no sooner than this, and no later than that.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Listens for as long as the connection lasts, or until the server says that it has no such stream.
pub(crate) async fn listen(link: Arc<Link>) {
    tokio::select! {
        () = link.over() => {}
        () = listening(&link) => {}
    }
}

async fn listening(link: &Arc<Link>) {
    let Some(endpoint) = endpoint(link) else { return };
    let (mut wait, mut of) = (AGAIN.0, endpoint.seat().number);
    let mut heard = Hearing { last: None, pause: None };
    loop {
        let since = Instant::now();
        let seat = endpoint.seat();
        if seat.number != of {
            // Ids of events are of one session.
            (of, heard.last) = (seat.number, None);
        }
        if let Ok(response) = endpoint.get(&seat, heard.last.as_ref()).await {
            let status = response.status();
            let streams = status.is_success() && reply::media(&response) == reply::Media::Events;
            if streams {
                heard.hear(response.into_body(), link, endpoint.most).await;
            } else {
                reply::rest(response.into_body()).await;
                if status == StatusCode::NOT_FOUND && seat.session {
                    // Where that fails, the next call tells.
                    drop(link.renew(seat.number).await);
                } else if status.is_client_error() && !wait_for(status) || status.is_success() {
                    // 405, and whatever else means that there is none.
                    return;
                }
            }
        }
        wait = if since.elapsed() > AGAIN.1 { AGAIN.0 } else { wait };
        sleep(heard.pause.unwrap_or(wait).clamp(AGAIN.0, AGAIN.1)).await;
        wait = wait.saturating_mul(2).min(AGAIN.1);
    }
}

/// A question goes to the call it belongs to, or is refused.
async fn question_of(link: &Link, question: Request) -> Result<(), Unanswered> {
    if !is_passed_on(&question.method) {
        return reply_to(&question, link).await;
    }
    let id = question.id.clone();
    let (beside, audience) = (&link.shared.end.beside, &link.shared.audience);
    if beside.has_calls() {
        audience.note_question();
    }
    let call = beside.addressee(question.params.as_ref(), audience);
    if let Some(Ok(())) = call.map(|call| beside.tell_to(call, Event::Asked(question))) {
        return Ok(());
    }
    link.reply(&id, &Err(nobodys())).await
}

fn notice_of(link: &Link, notice: Notification) {
    let (beside, audience) = (&link.shared.end.beside, &link.shared.audience);
    // Lossy on purpose, as everywhere.
    drop(match link.shared.ears.hear(notice) {
        Heard::Progressed(call, progress) => beside.tell_to(call, Event::Progressed(progress)),
        Heard::Logged(notice) => {
            let Some(call) = beside.addressee(notice.params.as_ref(), audience) else {
                return audience.log(&notice);
            };
            beside.tell_to(call, Event::Noticed(notice))
        }
        Heard::Withdrawn(id) => return beside.withdraw(&id),
        Heard::Acknowledged(..) | Heard::Quiet => Ok(()),
    });
}

fn wait_for(status: StatusCode) -> bool {
    matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

struct Hearing {
    last: Option<HeaderValue>,
    pause: Option<Duration>,
}

impl Hearing {
    async fn hear(&mut self, mut body: Body, link: &Arc<Link>, most: usize) {
        let mut reader = sse::Reader::new(most);
        while let Ok(Some(part)) = body.chunk().await {
            if reader.feed(&part).is_err() {
                return;
            }
            while let Some(event) = reader.pop() {
                if self.event(event, link, most).await.is_none() {
                    return;
                }
            }
        }
    }

    async fn event(&mut self, event: sse::Event, link: &Arc<Link>, most: usize) -> Option<()> {
        if let Some(id) = event.id {
            self.last = HeaderValue::from_str(&id).ok().filter(|id| !id.is_empty());
        }
        if let Some(pause) = event.retry {
            self.pause = Some(Duration::from_millis(pause));
        }
        let ours = matches!(event.event.as_deref(), None | Some("" | "message"));
        let Some(data) = event.data.filter(|data| ours && !data.trim().is_empty()) else {
            return Some(());
        };
        match Message::read(data.clone(), Limits { bytes: most, ..Limits::DOCUMENT }) {
            Ok(Message::Notification(notice)) => notice_of(link, notice),
            Ok(Message::Request(question)) => question_of(link, question).await.ok()?,
            Err(fault) if fault.error.code == code::PARSE_ERROR => {
                let verdict = link.shared.noise.line(data.as_bytes(), &fault.to_string());
                if let Verdict::Enough(_) = verdict {
                    return None;
                }
            }
            Ok(Message::Response(_)) | Err(_) => {}
        }
        Some(())
    }
}
