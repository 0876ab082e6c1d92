//! One input, read by this crate and by hyper.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use http1::{
    ClientConnection, EncodedRequest, NextRequest, RequestHead, RequestRules, ResponseStart,
    ServerConnection, write_request_target,
};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use tokio::io::AsyncReadExt as _;

use crate::scripted_stream::{ScriptedStream, run, run_polled};

/// A message as its reader understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// Method and target, or status.
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// The length is what the body has; in requests it stands nowhere else here.
    pub(crate) fn request(
        method: &Method,
        uri: &http::Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Self {
        let fields = fields(headers).filter(|(name, _)| name != header::CONTENT_LENGTH.as_str());
        Self { start: format!("{method} {uri}"), headers: fields.collect(), body: body.to_vec() }
    }

    /// A length is compared as the number that it is, given once.
    pub(crate) fn response(
        status: StatusCode,
        headers: &HeaderMap,
        length: Option<u64>,
        body: &[u8],
    ) -> Self {
        let mut headers: Vec<_> = fields(headers).collect();
        for (name, value) in &mut headers {
            let number = std::str::from_utf8(value).ok().and_then(|it| it.parse::<u64>().ok());
            if name == header::CONTENT_LENGTH.as_str()
                && let Some(number) = number
            {
                *value = number.to_string().into_bytes();
            }
        }
        let length = length.map(|length| length.to_string().into_bytes());
        headers.extend(length.map(|length| (header::CONTENT_LENGTH.to_string(), length)));
        headers.sort_by(|a, b| a.0.cmp(&b.0));
        headers.dedup_by(|a, b| a == b && a.0 == header::CONTENT_LENGTH.as_str());
        Self { start: status.as_str().to_owned(), headers, body: body.to_vec() }
    }
}

fn fields(headers: &HeaderMap) -> impl Iterator<Item = (String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
}

/// A reader of requests: what it takes, and the bytes that it leaves.
pub(crate) type Requests = (Vec<Message>, Vec<u8>);

/// As this crate reads requests. Within a runtime, for its timers.
pub(crate) fn our_requests(input: &[u8], step: usize) -> Requests {
    let accept = |head: RequestHead| Some(head);
    let idle_timeout = Duration::from_secs(10);
    let rules = RequestRules {
        request_prefix: b"POST /",
        accept_head: accept,
        max_body_bytes: 1 << 20,
        idle_timeout,
    };
    let mut connection = ServerConnection::new(ScriptedStream::new_client(input, step), rules);
    let mut messages = Vec::new();
    let mut stopping = pin!(pending::<()>());
    loop {
        match run(connection.next_request(stopping.as_mut())).expect("nobody is waited for") {
            NextRequest::Ready(head, body) => {
                let RequestHead { method, uri, headers } = &*head;
                messages.push(Message::request(method, uri, headers, &body));
            }
            NextRequest::Fallback => break,
            NextRequest::Closed => return (messages, Vec::new()),
        }
    }
    let mut rest = Vec::new();
    let mut io = connection.into_io();
    run(io.read_to_end(&mut rest)).expect("nobody is waited for").unwrap();
    (messages, rest)
}

/// As hyper reads requests, set up as the server does.
pub(crate) fn hyper_requests(input: &[u8], step: usize) -> Vec<Message> {
    let messages = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&messages);
    let service = service_fn(move |request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (parts, body) = request.into_parts();
            if let Ok(body) = body.collect().await {
                let (method, uri) = (&parts.method, &parts.uri);
                let body = body.to_bytes();
                seen.borrow_mut().push(Message::request(method, uri, &parts.headers, &body));
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .header_read_timeout(None)
        .half_close(true)
        .max_headers(64)
        .serve_connection(ScriptedStream::new_client(input, step), service);
    // However it ends: what was seen counts.
    drop(run(connection));
    messages.take()
}

/// A reader of responses: what it takes before it stops, and why it stops where it does before the end.
pub(crate) type Responses = (Vec<Message>, Option<String>);

/// As this crate reads responses, each to one request; `is_head` where those are HEAD.
pub(crate) fn our_responses(parts: &[Vec<u8>], is_head: bool, step: usize) -> Responses {
    let mut connection = ClientConnection::new(ScriptedStream::new_server(parts, step));
    let mut messages = Vec::new();
    for _ in parts {
        if !connection.is_reusable() {
            return (messages, Some("the connection serves no more".to_owned()));
        }
        let method = method(is_head);
        let mut text = method.as_str().as_bytes().to_vec();
        write_request_target(&mut text, &"/".parse().unwrap());
        let request = EncodedRequest::from_head(text, &method, Bytes::new());
        let ResponseStart { head, mut framing, content_length, .. } =
            match run(connection.send_request(&request)) {
                Some(Ok(answer)) => answer,
                Some(Err(failed)) => return (messages, Some(failed.error.to_string())),
                None => return (messages, Some("stuck".to_owned())),
            };
        let mut body = Vec::new();
        loop {
            match run_polled(|cx| connection.poll_body(&mut framing, cx)) {
                Some(Some(Ok(part))) => body.extend_from_slice(&part),
                Some(Some(Err(error))) => return (messages, Some(error.to_string())),
                Some(None) => break,
                None => return (messages, Some("stuck".to_owned())),
            }
        }
        messages.push(Message::response(head.status, &head.headers, content_length, &body));
    }
    (messages, None)
}

fn method(is_head: bool) -> Method {
    if is_head { Method::HEAD } else { Method::GET }
}

/// As hyper reads them.
pub(crate) fn hyper_responses(parts: &[Vec<u8>], is_head: bool, step: usize) -> Responses {
    let script = ScriptedStream::new_server(parts, step);
    let shaken = run(hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(script));
    let (mut sender, mut connection) = shaken.expect("nobody is waited for").unwrap();
    let mut ended = false;
    // Nobody else drives it.
    let mut drive = |cx: &mut std::task::Context<'_>| {
        if !ended {
            ended = Pin::new(&mut connection).poll(cx).is_ready();
        }
    };
    let mut messages = Vec::new();
    for _ in parts {
        let ready = run_polled(|cx| {
            drive(cx);
            sender.poll_ready(cx)
        });
        if !matches!(ready, Some(Ok(()))) {
            return (messages, Some("the connection serves no more".to_owned()));
        }
        let request = Request::builder().method(method(is_head)).uri("/");
        let mut answer = pin!(sender.send_request(request.body(Empty::new()).unwrap()));
        let answer = run(poll_fn(|cx| {
            drive(cx);
            answer.as_mut().poll(cx)
        }));
        let response = match answer {
            Some(Ok(response)) => response,
            Some(Err(error)) => return (messages, Some(error.to_string())),
            None => return (messages, Some("stuck".to_owned())),
        };
        let (head, mut incoming) = response.into_parts();
        let mut body = Vec::new();
        loop {
            let frame = run_polled(|cx| {
                drive(cx);
                let frame = Pin::new(&mut incoming).poll_frame(cx);
                if frame.is_pending() {
                    drive(cx);
                }
                frame
            });
            match frame {
                Some(Some(Ok(frame))) => {
                    body.extend_from_slice(&frame.into_data().unwrap_or_default());
                }
                Some(Some(Err(error))) => return (messages, Some(error.to_string())),
                Some(None) => break,
                None => return (messages, Some("stuck".to_owned())),
            }
        }
        messages.push(Message::response(head.status, &head.headers, None, &body));
    }
    (messages, None)
}
