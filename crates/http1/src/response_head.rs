//! Heads of responses: parsed by httparse, and held to one interpretation of how long their bodies are.

use std::mem::MaybeUninit;
use std::sync::Arc;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::body_framing::BodyFraming;
use crate::cached_head::CachedHead;
use crate::decimal::parse_decimal;
use crate::error::ProtocolError;

/// The longest head, in bytes.
pub(crate) const MAX_HEAD: usize = 64 << 10;
/// The error of a longer one.
pub(crate) const HEAD_TOO_LARGE: ProtocolError = ProtocolError::Invalid("its head is too large");
/// Fields of a head.
const MAX_FIELDS: usize = 100;

/// Status and headers of a response.
#[derive(Debug)]
pub struct ResponseHead {
    /// Whatever it is.
    pub status: StatusCode,
    /// All of them, but for the length by which the body is framed: heads with another length share the
    /// rest.
    pub headers: HeaderMap,
}

/// The cache of a connection's last head.
pub(crate) type CachedResponse = CachedHead<Arc<ResponseHead>>;

/// A parsed head, and what follows from it.
#[derive(Debug)]
pub struct ResponseStart {
    /// Shared with other responses of the connection that have the same.
    pub head: Arc<ResponseHead>,
    /// Where its body ends.
    pub framing: BodyFraming,
    /// The length by which the body is framed; the headers do not have it.
    pub content_length: Option<u64>,
    /// Whether the connection serves on.
    pub keeps_alive: bool,
}

impl ResponseStart {
    /// Whether another head follows.
    pub(crate) fn is_interim(&self) -> bool {
        let status = self.head.status;
        status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// The same as [`parse_head`], where `buffer` begins with the cached head.
pub(crate) fn match_cached(
    cached: &CachedResponse,
    buffer: &[u8],
) -> Option<(ResponseStart, usize)> {
    let found = cached.match_prefix(buffer).filter(|found| found.size <= MAX_HEAD)?;
    let content_length = found.content_length;
    let framing = content_length.map_or_else(BodyFraming::chunked, BodyFraming::sized);
    let head = Arc::clone(cached.value());
    Some((ResponseStart { head, framing, content_length, keeps_alive: true }, found.size))
}

/// Whether a head may end in `buffer`, of which so much was looked at before.
pub(crate) fn may_end(buffer: &[u8], looked: usize) -> bool {
    if looked == 0 {
        return !buffer.is_empty();
    }
    let new = buffer.get(looked.saturating_sub(3)..).unwrap_or_default();
    let mut lines = new.split(|byte| *byte == b'\n').skip(1);
    lines.any(|line| matches!(line, b"" | b"\r"))
}

/// Parses the head that `buffer` begins with, and how many bytes it has; nothing where it is not all there.
/// `is_bodiless` where the request allows no body. `cached` becomes this head, where it may come again.
pub(crate) fn parse_head(
    buffer: &[u8],
    is_bodiless: bool,
    cached: &mut Option<CachedResponse>,
) -> Result<Option<(ResponseStart, usize)>, ProtocolError> {
    let mut room = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let end = match parser.parse_response_with_uninit_headers(&mut response, buffer, &mut room) {
        Ok(httparse::Status::Complete(end)) if end <= MAX_HEAD => end,
        Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
            return Err(HEAD_TOO_LARGE);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(ProtocolError::Invalid("it is not HTTP")),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(ProtocolError::Invalid("it has no status"))?;
    let old = response.version != Some(1);
    let mut fields = Fields::default();
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for field in response.headers.iter() {
        let unfit = || ProtocolError::Invalid("it has a header that cannot be read");
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| unfit())?;
        fields.see(&name, field.value)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| unfit())?;
        headers.append(name, value);
    }
    let none = is_bodiless
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let framing = fields.framing(none, old)?;
    let twice = fields.chunked && fields.length.is_some();
    let switches = status == StatusCode::SWITCHING_PROTOCOLS;
    let ends = switches || framing.ends_with_the_connection();
    let keeps_alive = !(old || fields.closes || twice || ends);
    let content_length = fields.length.filter(|_| !none && !fields.chunked);
    if content_length.is_some() {
        headers.remove(header::CONTENT_LENGTH);
    }
    let head = Arc::new(ResponseHead { status, headers });
    // What is framed in another way is left to be read each time.
    let length = fields.only.filter(|_| fields.length.is_some());
    if !none && keeps_alive && (fields.chunked || length.is_some()) {
        *cached =
            buffer.get(..end).and_then(|text| CachedHead::new(text, length, Arc::clone(&head)));
    }
    Ok(Some((ResponseStart { head, framing, content_length, keeps_alive }, end)))
}

/// What says where the body ends.
#[derive(Debug, Default)]
struct Fields<'h> {
    length: Option<u64>,
    /// As it stands, where it stands there once.
    only: Option<&'h [u8]>,
    chunked: bool,
    closes: bool,
}

impl<'h> Fields<'h> {
    fn see(&mut self, name: &HeaderName, value: &'h [u8]) -> Result<(), ProtocolError> {
        if *name == header::CONTENT_LENGTH {
            let length = parse_decimal(value)
                .ok_or(ProtocolError::Invalid("it has a length that is none"))?;
            let before = self.length.replace(length);
            if before.is_some_and(|before| before != length) {
                return Err(ProtocolError::Invalid("it has two lengths"));
            }
            self.only = before.is_none().then_some(value);
        } else if *name == header::TRANSFER_ENCODING {
            // None was asked for, so that no other can be meant; twice is not once.
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(ProtocolError::Invalid(
                    "it has a transfer coding that nobody asked for",
                ));
            }
            self.chunked = true;
        } else if *name == header::CONNECTION {
            let mut words = value.split(|byte| *byte == b',');
            self.closes |= words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"));
        }
        Ok(())
    }

    /// RFC 9112, 6.3.
    fn framing(&self, none: bool, old: bool) -> Result<BodyFraming, ProtocolError> {
        Ok(match self.length {
            _ if none => BodyFraming::Complete,
            _ if self.chunked && old => {
                return Err(ProtocolError::Invalid("it is HTTP/1.0, which has no transfer coding"));
            }
            _ if self.chunked => BodyFraming::chunked(),
            Some(length) => BodyFraming::sized(length),
            None => BodyFraming::UntilClose,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{match_cached, may_end, parse_head};
    use crate::body_framing::BodyFraming;

    fn framing(fields: &str) -> Result<(String, bool), String> {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let (head, end) = parse_head(text.as_bytes(), false, &mut None)
            .map_err(|error| error.to_string())?
            .unwrap();
        assert_eq!(end, text.len());
        Ok((format!("{:?}", head.framing), head.keeps_alive))
    }

    #[test]
    fn there_is_one_reading_of_a_length() {
        let same = |framing: &BodyFraming, keeps| Ok((format!("{framing:?}"), keeps));
        for (fields, found, keeps) in [
            ("Content-Length: 5\r\n", BodyFraming::Length(5), true),
            ("Content-Length: 5\r\ncontent-length: 5\r\n", BodyFraming::Length(5), true),
            ("Content-Length: 0\r\n", BodyFraming::Complete, true),
            ("Content-Length: 5\r\nConnection: a, Close\r\n", BodyFraming::Length(5), false),
            ("Transfer-Encoding: Chunked\r\n", BodyFraming::chunked(), true),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", BodyFraming::chunked(), false),
            ("X: y\r\n", BodyFraming::UntilClose, false),
        ] {
            assert_eq!(framing(fields), same(&found, keeps), "{fields}");
        }
        for fields in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: 5 6\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Transfer-Encoding: \u{b}chunked\r\n",
            "A: b\r\n folded\r\n",
        ] {
            assert!(framing(fields).is_err(), "{fields}");
        }
    }

    #[test]
    fn a_head_is_known_again_whatever_its_length() {
        let know = |text: &str| {
            let mut known = None;
            parse_head(text.as_bytes(), false, &mut known).unwrap().unwrap();
            known
        };
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nA: b\r\n\r\n";
        let known = know(text).unwrap();
        for (digits, framing) in [("12", "Length(12)"), ("7", "Length(7)"), ("0", "Complete")] {
            let again = text.replace("12", digits) + "{}";
            let (head, end) = match_cached(&known, again.as_bytes()).unwrap();
            assert_eq!((format!("{:?}", head.framing), end), (framing.to_owned(), again.len() - 2));
            assert_eq!((head.head.headers["a"].as_bytes(), head.keeps_alive), (&b"b"[..], true));
            // Its own length, and not that of the head before.
            let length = head.head.headers.get("content-length");
            assert_eq!((head.content_length, length), (digits.parse().ok(), None));
        }
        for other in [
            text.replace("12", ""),
            text.replace("12", "+1"),
            text.replace("12", "99999999999999999999"),
            text.replace("12", "1 2"),
            text.replace("200", "201"),
            text.replace("A: b", "A: c"),
            text.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\n"),
            text.trim_end().to_owned(),
        ] {
            assert!(match_cached(&known, other.as_bytes()).is_none(), "{other:?}");
        }
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (head, end) = match_cached(&know(chunked).unwrap(), chunked.as_bytes()).unwrap();
        assert!(matches!(head.framing, BodyFraming::Chunked(_)) && end == chunked.len());
        for once in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert!(know(once).is_none(), "{once:?}");
        }
    }

    #[test]
    fn what_has_no_body_has_none_whatever_it_says() {
        for status in ["204 x", "304 x", "103 x"] {
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
            let (head, _) = parse_head(text.as_bytes(), false, &mut None).unwrap().unwrap();
            assert!(matches!(head.framing, BodyFraming::Complete), "{status}");
        }
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert!(matches!(
            parse_head(text.as_bytes(), true, &mut None).unwrap().unwrap().0.framing,
            BodyFraming::Complete
        ));
        let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(parse_head(old.as_bytes(), false, &mut None).is_err());
        let old = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n";
        assert!(!parse_head(old.as_bytes(), false, &mut None).unwrap().unwrap().0.keeps_alive);
    }

    #[test]
    fn the_end_of_a_head_is_seen_wherever_it_was_cut() {
        let text = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
        for cut in 1..text.len() {
            assert!(may_end(text, cut), "{cut}");
            assert!(parse_head(&text[..cut], false, &mut None).unwrap().is_none(), "{cut}");
        }
        assert!(!may_end(b"HTTP/1.1 200 OK\r\nA: bcdef", 20));
    }
}
