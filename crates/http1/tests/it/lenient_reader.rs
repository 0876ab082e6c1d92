//! Controls: readers that are lax where it is dangerous. A comparison that does not tell them from hyper
//! compares nothing.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

use crate::readers::{Message, Requests, Responses};

/// Reads requests by any `Content-Length`, the last one, as `str::parse` reads numbers, and by nothing else.
pub(crate) fn requests(input: &[u8]) -> Requests {
    let (mut messages, mut rest) = (Vec::new(), input);
    while let Some((message, size)) = request(rest) {
        messages.push(message);
        rest = &rest[size..];
    }
    (messages, rest.to_vec())
}

fn request(input: &[u8]) -> Option<(Message, usize)> {
    let mut room = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut room);
    let httparse::Status::Complete(end) = request.parse(input).ok()? else { return None };
    let method = Method::from_bytes(request.method?.as_bytes()).ok()?;
    let uri = Uri::try_from(request.path?).ok()?;
    let (headers, length) = fields(request.headers)?;
    let body = input.get(end..end + length)?;
    Some((Message::request(&method, &uri, &headers, body), end + length))
}

/// Reads responses likewise: chunks are a body to it, up to the end.
pub(crate) fn responses(parts: &[Vec<u8>]) -> Responses {
    let messages = parts.iter().map_while(|part| response(part)).collect();
    (messages, None)
}

fn response(input: &[u8]) -> Option<Message> {
    let mut room = [httparse::EMPTY_HEADER; 100];
    let mut response = httparse::Response::new(&mut room);
    let httparse::Status::Complete(end) = response.parse(input).ok()? else { return None };
    let status = StatusCode::from_u16(response.code?).ok()?;
    let (headers, length) = fields(response.headers)?;
    let body = input.get(end..)?;
    Some(Message::response(status, &headers, None, body.get(..length).unwrap_or(body)))
}

fn fields(parsed: &[httparse::Header<'_>]) -> Option<(HeaderMap, usize)> {
    let (mut headers, mut length) = (HeaderMap::new(), 0);
    for field in parsed {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        if name == http::header::CONTENT_LENGTH {
            length = std::str::from_utf8(field.value).ok()?.trim().parse().ok()?;
        }
        headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
    }
    Some((headers, length))
}
