//! A session of the console over one connection, as a browser has it.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN, SET_COOKIE};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use serde_json::Value;

use crate::timed_request::{ReceivedAnswer, open_connection};

/// A signed-in session of one user.
pub(super) struct BrowserSession {
    pub(super) address: SocketAddr,
    pub(super) cookie: String,
    sender: SendRequest<Full<Bytes>>,
}

impl BrowserSession {
    /// Signs in with a key, by the form of the page.
    pub(super) async fn sign_in(address: SocketAddr, key: &str) -> Result<Self, String> {
        let sender = open_connection(address).await?;
        let mut session = Self { address, cookie: String::new(), sender };
        let form =
            session.send(session.request(Method::GET, "/ui/sign-in", String::new())?).await?;
        session.cookie = cookie_of(&form.headers).ok_or("the sign-in page sets no cookie")?;
        let page = String::from_utf8_lossy(&form.body).into_owned();
        let token = page.split_once("name=\"form_token\" value=\"");
        let token = token.and_then(|(_, rest)| rest.split_once('"')).map(|(token, _)| token);
        let token = token.ok_or("the sign-in page has no token")?;
        let body = format!("form_token={token}&key={key}&next=%2Fui");
        let posted = session.send(session.request(Method::POST, "/ui/sign-in", body)?).await?;
        if posted.status != StatusCode::SEE_OTHER {
            return Err(format!("signing in got {}: {}", posted.status, posted.body_start()));
        }
        session.cookie = cookie_of(&posted.headers).ok_or("signing in sets no cookie")?;
        Ok(session)
    }

    /// Gets a page that is there.
    pub(super) async fn get(&mut self, path: &str) -> Result<ReceivedAnswer, String> {
        let answer = self.send(self.request(Method::GET, path, String::new())?).await?;
        if answer.status != StatusCode::OK {
            return Err(format!("{path}: {}: {}", answer.status, answer.body_start()));
        }
        Ok(answer)
    }

    /// Opens a stream of events on a connection of its own.
    pub(super) async fn open_stream(&self, path: &str) -> Result<Incoming, String> {
        let mut sender = open_connection(self.address).await?;
        let request = self.request(Method::GET, path, String::new())?;
        let response = sender.send_request(request).await.map_err(|e| format!("{path}: {e}"))?;
        if response.status() != StatusCode::OK {
            return Err(format!("{path}: {}", response.status()));
        }
        Ok(response.into_body())
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Request<Full<Bytes>>, String> {
        Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(ORIGIN, format!("http://{}", self.address))
            .header(COOKIE, &self.cookie)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| format!("{path}: {e}"))
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<ReceivedAnswer, String> {
        // The server closes a connection that was idle.
        if self.sender.is_closed() {
            self.sender = open_connection(self.address).await?;
        }
        send_request(&mut self.sender, request).await
    }
}

/// Sends a JSON body with a bearer key; returns the status.
pub(super) async fn post_json(
    address: SocketAddr,
    path: &str,
    authorization: &str,
    body: &Value,
) -> Result<StatusCode, String> {
    let request = Request::post(path)
        .header(HOST, address.to_string())
        .header(AUTHORIZATION, authorization)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .map_err(|e| format!("{path}: {e}"))?;
    let mut sender = open_connection(address).await?;
    Ok(send_request(&mut sender, request).await?.status)
}

async fn send_request(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<ReceivedAnswer, String> {
    let lost = |e: hyper::Error| e.to_string();
    sender.ready().await.map_err(lost)?;
    let (head, body) = sender.send_request(request).await.map_err(lost)?.into_parts();
    let body = body.collect().await.map_err(lost)?.to_bytes();
    Ok(ReceivedAnswer { status: head.status, headers: head.headers, body })
}

/// The first cookie that is set, as `NAME=VALUE`.
fn cookie_of(headers: &HeaderMap) -> Option<String> {
    let line = headers.get(SET_COOKIE)?.to_str().ok()?;
    Some(line.split(';').next().unwrap_or_default().to_owned())
}
