//! What a request over HTTP is answered with: one message, or a stream that ends with one.

use std::sync::Arc;

use ::mcp::Message;
use egress::{Body, Received};
use http::{HeaderValue, StatusCode};
use tool::Limits;

use super::endpoint::SESSION;
use super::reply::Media;
use super::stream::Stream;
use super::{Endpoint, reply};
use crate::exchange::{Event, Spoiled};
use crate::fail::HttpFault;
use crate::link::{Link, Unanswered};
use tool::display_text::shown;

/// The answer to one request.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The session it opens.
    pub(crate) session: Option<HeaderValue>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Whole(Option<Event>),
    Stream(Box<Stream>),
}

impl Answer {
    /// Reads the head of a response, and all of it where it is one message.
    pub(super) async fn of(
        endpoint: &Endpoint,
        response: Received,
        (id, greets): (i64, bool),
    ) -> Result<Self, HttpFault> {
        let session = response.headers().get(SESSION).cloned();
        let status = response.status();
        let kind = match reply::media(&response) {
            _ if !status.is_success() => {
                // Boxed: not to be carried by what is accepted.
                let error = Box::pin(reply::refused(response, greets)).await?;
                Kind::Whole(Some(Event::Answered(Err(error))))
            }
            Media::Events => {
                Kind::Stream(Box::new(Stream::new(response.into_body(), endpoint.most)))
            }
            Media::Json => Kind::Whole(Some(whole(response.into_body(), endpoint.most, id).await?)),
            Media::Other if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
                reply::rest(response.into_body()).await;
                return Err(no_answer());
            }
            Media::Other => return Err(reply::unexpected(&response)),
        };
        Ok(Self { session, kind })
    }

    /// Whether it is a refusal that speaks of the session: servers that forgot one should answer 404, and
    /// many answer 400 with these words.
    pub(super) fn forgot_session(&self) -> bool {
        let Kind::Whole(Some(Event::Answered(Err(error)))) = &self.kind else { return false };
        let said = error.message.to_ascii_lowercase();
        ["session", "not initialized"].iter().any(|word| said.contains(word))
    }

    /// What comes next.
    pub(crate) async fn next(&mut self, link: &Arc<Link>, id: i64) -> Result<Event, Unanswered> {
        match &mut self.kind {
            Kind::Whole(answer) => answer.take().ok_or(Unanswered::Lost),
            // Boxed: not to be carried by answers that are no streams.
            Kind::Stream(stream) => Box::pin(stream.next(link, id)).await,
        }
    }
}

async fn whole(body: Body, most: usize, id: i64) -> Result<Event, HttpFault> {
    let body = reply::bounded(body, most).await?;
    let limits = Limits { bytes: most, ..Limits::DOCUMENT };
    match Message::read(body.clone(), limits) {
        Ok(Message::Response(answer)) => {
            let of = answer.id.as_ref().map(::mcp::Id::as_number);
            if of.is_some_and(|of| of != Some(id)) {
                return Err(HttpFault::malformed("answered another request".to_owned()));
            }
            Ok(Event::Answered(answer.result))
        }
        Ok(Message::Request(_) | Message::Notification(_)) => Err(no_answer()),
        Err(fault) => {
            if let Some((of, spoiled)) = Spoiled::read(&body, &fault).filter(|(of, _)| *of == id) {
                tracing::debug!(of, "an answer that does not pass the check");
                return Ok(Event::Spoiled(spoiled));
            }
            let why = shown(&fault.to_string(), 200);
            Err(HttpFault::malformed(format!("answered with what is no MCP message: {why}")))
        }
    }
}

fn no_answer() -> HttpFault {
    HttpFault::malformed("answered a request with no answer".to_owned())
}
