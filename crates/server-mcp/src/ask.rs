//! Requests to a client of the handshake era while its call runs.

use std::sync::Arc;

use mcp::{sse, write};
use tool::executor::{Ask, ClientCan, Unanswered};
use tool::{Boxed, Json};

use super::client;
use super::live::Live;
use super::outlet::Outlet;

/// Maximum characters of a client's error message that are passed on.
const REFUSAL: usize = 512;

/// Sends the requests of one call to its client, over the streams of the session.
#[derive(Debug)]
pub(crate) struct Questions {
    pub(crate) live: Arc<Live>,
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) client: ClientCan,
}

impl Questions {
    async fn asked(&self, method: &str, params: Json) -> Result<Json, Unanswered> {
        if !client::answers(&self.client, method, &params) {
            return Err(Unanswered::Gone);
        }
        // The request is withdrawn once nobody waits for its response.
        let (question, answer) = self.live.ask().ok_or(Unanswered::Gone)?;
        let event = sse::event(&write::request(&question.id(), method, &params));
        if !self.outlet.sure(event.clone()) && !self.live.sure(event) {
            return Err(Unanswered::Gone);
        }
        let answered = answer.await.map_err(|_| Unanswered::Gone)?;
        drop(question);
        answered.map_err(|error| Unanswered::Refused {
            code: error.code,
            message: error.message.chars().take(REFUSAL).collect(),
        })
    }
}

impl Ask for Questions {
    fn ask<'a>(&'a self, method: &'a str, params: Json) -> Boxed<'a, Result<Json, Unanswered>> {
        Box::pin(self.asked(method, params))
    }
}
