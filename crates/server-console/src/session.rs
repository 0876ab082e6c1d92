//! The session of a request: who signed in, with the rights of now.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use gateway::CatalogView;
use identity::Principal;
use server_core::authentication::resume_principal;
use server_core::request_restrictions::restrict_from_request;
use tool::{CallerType, ErrorCode, Secret};

use crate::ConsoleState;
use crate::error_page::PageError;
use crate::session_cookie::ConsoleCookie;
use crate::session_store::form_token;

/// The session that a request belongs to. A handler that takes it is only called with a valid one.
#[derive(Debug, Clone)]
pub(crate) struct ConsoleSession {
    /// The principal of the session's user, as narrowed by the request.
    pub(crate) principal: Principal,
    /// The token of the session.
    pub(crate) token: Secret,
}

impl ConsoleSession {
    /// Finds the session of the request's cookie. `None` without a cookie, and if the session,
    /// its key or the sign-in with an issuer has ended.
    ///
    /// # Errors
    /// Returns an error if the state of the key is unknown.
    pub(crate) fn find(
        state: &ConsoleState,
        headers: &HeaderMap,
    ) -> Result<Option<Self>, PageError> {
        let Some(token) = ConsoleCookie::Session.read(headers) else { return Ok(None) };
        let clock = &state.server.components.clock;
        let Some(user) = state.sessions.find_user(token, clock.monotonic_now()) else {
            return Ok(None);
        };
        match resume_principal(&state.server, &user, clock.wall_now()) {
            Ok(principal) => Ok(Some(Self { principal, token: Secret::new(token) })),
            Err(error) if error.code() == ErrorCode::Unauthenticated => {
                state.sessions.end_session(token);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the principal as it is now; `None` once the session or its key has ended. Does not
    /// prolong the session.
    pub(crate) fn current_principal(&self, state: &ConsoleState) -> Option<Principal> {
        let clock = &state.server.components.clock;
        let user = state.sessions.peek_user(self.token.expose(), clock.monotonic_now())?;
        let current = resume_principal(&state.server, &user, clock.wall_now()).ok()?;
        let restrictions = self.principal.rights_class().restrictions();
        Some(current.with_restrictions(restrictions))
    }

    /// Returns the tools that the principal may call itself.
    pub(crate) fn tool_view(&self, state: &ConsoleState) -> Arc<CatalogView> {
        state.server.components.gateway.view_for(&self.principal, CallerType::Direct)
    }

    /// Returns the token for the forms of this session.
    pub(crate) fn form_token(&self) -> String {
        form_token(self.token.expose())
    }
}

impl FromRequestParts<ConsoleState> for ConsoleSession {
    type Rejection = PageError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &ConsoleState,
    ) -> Result<Self, PageError> {
        let found = Self::find(state, &parts.headers)?;
        let session = found.ok_or_else(|| PageError::signed_out(&parts.method, &parts.uri))?;
        let request = (&parts.headers, &parts.uri);
        let principal = restrict_from_request(&state.server, session.principal, request)?;
        Ok(Self { principal, ..session })
    }
}
