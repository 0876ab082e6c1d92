//! Parsing of response heads with httparse, with exactly one interpretation of the body length.

use std::mem::MaybeUninit;
use std::sync::Arc;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::body_framing::BodyFraming;
use crate::cached_head::CachedHead;
use crate::decimal::parse_decimal;
use crate::error::ProtocolError;

/// Maximum size of a head, in bytes.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// The error for a larger head.
pub(crate) const HEAD_TOO_LARGE: ProtocolError = ProtocolError::Invalid(
    "its header section is too \
    large",
);
/// Maximum number of fields of a head.
const MAX_FIELDS: usize = 100;

/// Status and headers of a response.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status code, which may be an error.
    pub status: StatusCode,
    /// All headers except the `Content-Length` that frames the body, so that heads with another
    /// length share the rest.
    pub headers: HeaderMap,
}

/// The cache of a connection's last head.
pub(crate) type CachedResponse = CachedHead<Arc<ResponseHead>>;

/// A parsed head, the framing of its body and whether the connection persists.
#[derive(Debug)]
pub struct ResponseStart {
    /// The head, shared with other responses of the connection that have the same head.
    pub head: Arc<ResponseHead>,
    /// The framing of the body.
    pub framing: BodyFraming,
    /// The length that frames the body; it is not among the headers.
    pub content_length: Option<u64>,
    /// Whether the connection persists after this response.
    pub keeps_alive: bool,
}

impl ResponseStart {
    /// Whether the response is interim (1xx), so that another head follows.
    pub(crate) fn is_interim(&self) -> bool {
        let status = self.head.status;
        status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// Like [`parse_head`], for a buffer that begins with the cached head.
pub(crate) fn match_cached(
    cached: &CachedResponse,
    buffer: &[u8],
) -> Option<(ResponseStart, usize)> {
    let found = cached.match_prefix(buffer).filter(|found| found.size <= MAX_HEAD_BYTES)?;
    let content_length = found.content_length;
    let framing = content_length.map_or_else(BodyFraming::new_chunked, BodyFraming::from_length);
    let head = Arc::clone(cached.value());
    Some((ResponseStart { head, framing, content_length, keeps_alive: true }, found.size))
}

/// Whether a head may end in `buffer`. Skips the bytes that were scanned before.
pub(crate) fn may_contain_end(buffer: &[u8], scanned_bytes: usize) -> bool {
    if scanned_bytes == 0 {
        return !buffer.is_empty();
    }
    let new = buffer.get(scanned_bytes.saturating_sub(3)..).unwrap_or_default();
    let mut lines = new.split(|byte| *byte == b'\n').skip(1);
    lines.any(|line| matches!(line, b"" | b"\r"))
}

/// Parses the head at the start of `buffer` and returns it with its size, or `None` if it is
/// incomplete. `is_bodiless` says that the request allows no body. Stores the head in `cached` if
/// it may occur again.
pub(crate) fn parse_head(
    buffer: &[u8],
    is_bodiless: bool,
    cached: &mut Option<CachedResponse>,
) -> Result<Option<(ResponseStart, usize)>, ProtocolError> {
    let mut header_slots = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let end =
        match parser.parse_response_with_uninit_headers(&mut response, buffer, &mut header_slots) {
            Ok(httparse::Status::Complete(end)) if end <= MAX_HEAD_BYTES => end,
            Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
                return Err(HEAD_TOO_LARGE);
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(ProtocolError::Invalid("it is not HTTP")),
        };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(ProtocolError::Invalid("it has no status code"))?;
    let is_http10 = response.version != Some(1);
    let mut fields = FramingHeaders::default();
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for field in response.headers.iter() {
        let invalid_header = || ProtocolError::Invalid("it has an invalid header");
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| invalid_header())?;
        fields.observe_header(&name, field.value)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| invalid_header())?;
        headers.append(name, value);
    }
    let has_no_body = is_bodiless
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let framing = fields.resolve_framing(has_no_body, is_http10)?;
    let has_both_framings = fields.is_chunked && fields.length.is_some();
    let is_protocol_switch = status == StatusCode::SWITCHING_PROTOCOLS;
    let ends_connection = is_protocol_switch || framing.is_close_delimited();
    let keeps_alive =
        !(is_http10 || fields.closes_connection || has_both_framings || ends_connection);
    let content_length = fields.length.filter(|_| !has_no_body && !fields.is_chunked);
    if content_length.is_some() {
        headers.remove(header::CONTENT_LENGTH);
    }
    let head = Arc::new(ResponseHead { status, headers });
    // Heads with other framing are not cached.
    let length = fields.length_text.filter(|_| fields.length.is_some());
    if !has_no_body && keeps_alive && (fields.is_chunked || length.is_some()) {
        *cached =
            buffer.get(..end).and_then(|text| CachedHead::new(text, length, Arc::clone(&head)));
    }
    Ok(Some((ResponseStart { head, framing, content_length, keeps_alive }, end)))
}

/// The headers that decide body framing and persistence.
#[derive(Debug, Default)]
struct FramingHeaders<'h> {
    length: Option<u64>,
    /// The digits of the length, if the header occurs once.
    length_text: Option<&'h [u8]>,
    is_chunked: bool,
    closes_connection: bool,
}

impl<'h> FramingHeaders<'h> {
    fn observe_header(&mut self, name: &HeaderName, value: &'h [u8]) -> Result<(), ProtocolError> {
        if *name == header::CONTENT_LENGTH {
            let length = parse_decimal(value)
                .ok_or(ProtocolError::Invalid("it has an invalid content length"))?;
            let previous = self.length.replace(length);
            if previous.is_some_and(|before| before != length) {
                return Err(ProtocolError::Invalid("it has two content lengths"));
            }
            self.length_text = previous.is_none().then_some(value);
        } else if *name == header::TRANSFER_ENCODING {
            // The request asked for no other coding, and a repeated `chunked` is invalid.
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(ProtocolError::Invalid("it has an unsupported transfer coding"));
            }
            self.is_chunked = true;
        } else if *name == header::CONNECTION {
            let mut words = value.split(|byte| *byte == b',');
            self.closes_connection |=
                words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"));
        }
        Ok(())
    }

    /// Resolves the body framing (RFC 9112, 6.3).
    fn resolve_framing(
        &self,
        has_no_body: bool,
        is_http10: bool,
    ) -> Result<BodyFraming, ProtocolError> {
        Ok(match self.length {
            _ if has_no_body => BodyFraming::Complete,
            _ if self.is_chunked && is_http10 => {
                return Err(ProtocolError::Invalid("it is HTTP/1.0, which has no transfer coding"));
            }
            _ if self.is_chunked => BodyFraming::new_chunked(),
            Some(length) => BodyFraming::from_length(length),
            None => BodyFraming::UntilClose,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{match_cached, may_contain_end, parse_head};
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
            ("Transfer-Encoding: Chunked\r\n", BodyFraming::new_chunked(), true),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                BodyFraming::new_chunked(),
                false,
            ),
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
            assert!(may_contain_end(text, cut), "{cut}");
            assert!(parse_head(&text[..cut], false, &mut None).unwrap().is_none(), "{cut}");
        }
        assert!(!may_contain_end(b"HTTP/1.1 200 OK\r\nA: bcdef", 20));
    }
}
