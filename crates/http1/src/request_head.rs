//! Parsing of request heads that have exactly one interpretation. Other heads are left to hyper.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};

use crate::cached_head::CachedHead;
use crate::decimal::parse_decimal;

/// Maximum size of a head, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum number of fields of a head.
const MAX_FIELDS: usize = 64;
/// Maximum size of a body, in bytes.
const MAX_BODY_BYTES: u64 = 999_999_999;

/// Method, target and headers of a request.
#[derive(Debug)]
pub struct RequestHead {
    /// The request method.
    pub method: Method,
    /// The target, which begins with a slash.
    pub uri: Uri,
    /// All headers except `Content-Length`, which differs between requests.
    pub headers: HeaderMap,
}

/// The sizes of a head and of the body that follows it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageSize {
    pub(crate) head: usize,
    pub(crate) body: usize,
}

/// The result of parsing a head.
#[derive(Debug)]
pub(crate) enum HeadParse<T> {
    Complete(CachedHead<T>, MessageSize),
    /// More bytes may complete the head.
    Incomplete,
    /// The head is not parsed here.
    Unsupported,
}

/// Returns the sizes of a message if `buffer` begins with the cached head.
pub(crate) fn match_cached<T>(cached: &CachedHead<T>, buffer: &[u8]) -> Option<MessageSize> {
    let found = cached.match_prefix(buffer)?;
    message_size(found.size, found.content_length?)
}

/// Parses the head at the start of `buffer`. Only a head with the given prefix is parsed. `accept`
/// decides whether the parsed head is taken and returns the value that is cached with it.
pub(crate) fn parse_head<T>(
    buffer: &[u8],
    request_prefix: &[u8],
    accept: impl FnOnce(RequestHead) -> Option<T>,
) -> HeadParse<T> {
    let has_prefix = buffer.iter().zip(request_prefix).all(|(a, b)| a == b);
    if !has_prefix {
        return HeadParse::Unsupported;
    }
    let mut header_slots = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut header_slots);
    match request.parse(buffer) {
        Ok(httparse::Status::Complete(end)) if end <= MAX_HEAD_BYTES => {
            accept_head(buffer, &request, end, accept).unwrap_or(HeadParse::Unsupported)
        }
        Ok(httparse::Status::Partial) if buffer.len() < MAX_HEAD_BYTES => HeadParse::Incomplete,
        Ok(_) | Err(_) => HeadParse::Unsupported,
    }
}

fn accept_head<T>(
    buffer: &[u8],
    request: &httparse::Request<'_, '_>,
    end: usize,
    accept: impl FnOnce(RequestHead) -> Option<T>,
) -> Option<HeadParse<T>> {
    let head = buffer.get(..end).filter(|head| has_only_crlf(head))?;
    if request.version != Some(1) {
        return None;
    }
    let method = Method::from_bytes(request.method?.as_bytes()).ok()?;
    let path = request.path.filter(|path| path.starts_with('/'))?;
    let uri = Uri::try_from(path).ok()?;
    let mut headers = HeaderMap::with_capacity(request.headers.len());
    let mut digits = None;
    for field in request.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        if name == header::CONTENT_LENGTH {
            // With two lengths, readers could choose different ones.
            if digits.replace(field.value).is_some() {
                return None;
            }
        } else if changes_framing(&name, field.value) {
            return None;
        } else {
            headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
        }
    }
    let digits = digits?;
    let size = message_size(end, parse_decimal(digits)?)?;
    let value = accept(RequestHead { method, uri, headers })?;
    Some(HeadParse::Complete(CachedHead::new(head, Some(digits), value)?, size))
}

fn message_size(head: usize, length: u64) -> Option<MessageSize> {
    let body = usize::try_from(length).ok().filter(|_| length <= MAX_BODY_BYTES)?;
    Some(MessageSize { head, body })
}

/// Whether a field changes framing or connection handling. `keep-alive` changes nothing.
fn changes_framing(name: &HeaderName, value: &[u8]) -> bool {
    if *name == header::CONNECTION {
        return !value.eq_ignore_ascii_case(b"keep-alive");
    }
    [header::TRANSFER_ENCODING, header::EXPECT, header::UPGRADE, header::TE, header::TRAILER]
        .contains(name)
}

/// Whether all line ends are CR LF, without a bare CR or LF.
fn has_only_crlf(head: &[u8]) -> bool {
    let mut before = 0;
    head.iter().all(|byte| {
        let last = std::mem::replace(&mut before, *byte);
        (*byte == b'\n') == (last == b'\r')
    })
}

#[cfg(test)]
mod tests {
    use super::{HeadParse, MessageSize, RequestHead, match_cached};
    use crate::cached_head::CachedHead;

    const PLAIN: &str =
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\nAccept: a\r\n\r\n";

    /// As the server takes them: `/mcp` and no other path.
    fn read(buffer: &[u8]) -> HeadParse<RequestHead> {
        super::parse_head(buffer, b"POST /mcp", |head| (head.uri.path() == "/mcp").then_some(head))
    }

    fn known(text: &str) -> (CachedHead<RequestHead>, (usize, usize)) {
        match read(text.as_bytes()) {
            HeadParse::Complete(known, size) => (known, (size.head, size.body)),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn a_plain_head_is_read_and_known_again() {
        let (first, sizes) = known(PLAIN);
        assert_eq!(sizes, (PLAIN.len(), 12));
        let head = first.value();
        assert_eq!((head.headers.len(), head.uri.path()), (2, "/mcp"));
        let longer = PLAIN.replace("12", "1234") + "{}";
        let size = MessageSize { head: PLAIN.len() + 2, body: 1234 };
        assert_eq!(match_cached(&first, longer.as_bytes()), Some(size));
        for other in [
            PLAIN.replace("12", ""),
            PLAIN.replace("12", "+2"),
            PLAIN.replace("12", "1234567890"),
            PLAIN.replace("12", "1 2"),
            PLAIN.replace("12", "12, 12"),
            PLAIN.replace("Accept: a", "Accept: b"),
            PLAIN.replace("Accept: a", "Transfer-Encoding: chunked"),
            PLAIN.replace("localhost", "127.0.0.1"),
            PLAIN.trim_end().to_owned(),
        ] {
            assert_eq!(match_cached(&first, other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_not_all_there_is_waited_for() {
        for end in 0..PLAIN.len() {
            assert!(matches!(read(&PLAIN.as_bytes()[..end]), HeadParse::Incomplete), "{end}");
        }
        assert_eq!(known(&format!("{PLAIN}POST")).1, (PLAIN.len(), 12));
        let long = format!("POST /mcp HTTP/1.1\r\nA: {}", "a".repeat(1 << 20));
        assert!(matches!(read(long.as_bytes()), HeadParse::Unsupported));
    }

    #[test]
    fn whatever_could_be_read_in_two_ways_is_left_alone() {
        let more = |line: &str| PLAIN.replace("Accept: a\r\n", &format!("{line}\r\n"));
        let mut others: Vec<String> = [
            "Content-Length: 12",
            "content-length: 13",
            "Transfer-Encoding: chunked",
            "transfer-encoding: x",
            "Transfer-Encoding : chunked",
            "Expect: 100-continue",
            "Upgrade: h2c",
            "Connection: close",
            "Connection: keep-alive, upgrade",
            "TE: trailers",
            "Trailer: x",
            "A: b\r\n folded: c",
            "A\u{0}: b",
            "A: b\u{0}",
            ": b",
            "A b: c",
            "A: b\nB: c",
            "A: b\rB: c",
        ]
        .map(more)
        .into();
        others.extend([
            PLAIN.replace("Content-Length: 12\r\n", ""),
            PLAIN.replace("12", "-1"),
            PLAIN.replace("12", "0x1"),
            PLAIN.replace("12", "5, 5"),
            PLAIN.replace("1.1", "1.0"),
            PLAIN.replace("POST ", "POST  "),
            PLAIN.replace("POST", "GET"),
            PLAIN.replace("/mcp", "http://localhost/mcp"),
            PLAIN.replace("/mcp", "/mcp/a%2fb"),
            PLAIN.replace("/mcp", "/mcpx"),
            PLAIN.replace("/mcp", "/v1/calls"),
            PLAIN.replace("\r\n", "\n"),
            format!("\r\n{PLAIN}"),
            PLAIN.replace("Host", "Host "),
        ]);
        for other in others {
            assert!(matches!(read(other.as_bytes()), HeadParse::Unsupported), "{other:?}");
        }
        // Positive control: what is as plain is taken.
        for same in ["Connection: Keep-Alive", "X-Own: b", "Accept:a", "Content-Lengths: 3"] {
            assert_eq!(known(&more(same)).1.1, 12, "{same}");
        }
    }
}
