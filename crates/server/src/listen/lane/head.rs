//! Heads of requests that the short way takes. Whatever could be read in two ways is not among them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};

use crate::front::endpoint;
use server_core::auth::Holder;
use server_core::error::ApiError;
use server_mcp::{Said, Scope};

/// The longest head that is read here, in bytes.
const LONGEST: usize = 16 << 10;
/// Fields of a head.
const FIELDS: usize = 64;
/// What every one of them begins with.
const START: &[u8] = b"POST /mcp";
/// Digits of a length.
const DIGITS: usize = 9;

/// What a head says.
pub(crate) struct Head {
    pub(crate) uri: Uri,
    /// The part behind `/mcp/`.
    pub(crate) source: Option<String>,
    pub(crate) scope: Result<Scope, ApiError>,
    /// Without the length, which is not the same each time.
    pub(crate) headers: HeaderMap,
    /// What was found of these headers needs not be looked for again.
    pub(crate) found: Found,
}

/// What was found of headers.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// For as long as the server runs.
    pub(crate) host: Fact,
    /// The same.
    pub(crate) media: Fact,
    /// Whose key it is.
    pub(crate) caller: Holder,
    /// What MCP's door asks of every request.
    pub(crate) said: Said,
}

/// Something that is found once.
#[derive(Debug, Default)]
pub(crate) struct Fact(AtomicBool);

impl Fact {
    /// Looks for it, unless it was found.
    pub(crate) fn or<E>(&self, look: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if !self.0.load(Ordering::Relaxed) {
            look()?;
            self.0.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A head that was read: another one with the same bytes, but for the length, says the same.
pub(super) struct Known {
    /// Up to the digits of the length, and from there on.
    parts: [Box<[u8]>; 2],
    head: Arc<Head>,
}

/// What came of reading.
#[derive(Debug)]
pub(super) enum Read {
    /// With the bytes of the head and of the body.
    Plain(Known, (usize, usize)),
    /// It may become one.
    Part,
    /// None that is read here.
    Other,
}

/// No more than may be shown: heads hold credentials.
impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("uri", &self.head.uri).finish_non_exhaustive()
    }
}

impl Known {
    pub(super) fn head(&self) -> Arc<Head> {
        Arc::clone(&self.head)
    }

    /// The bytes of the head and of the body, where `heard` begins with the same head.
    pub(super) fn fits(&self, heard: &[u8]) -> Option<(usize, usize)> {
        let [before, after] = &self.parts;
        let rest = heard.strip_prefix(&**before)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = rest.split_at_checked(digits)?;
        let length = length(number).filter(|_| rest.starts_with(after))?;
        Some((before.len() + digits + after.len(), length))
    }
}

/// Reads the head that `heard` begins with.
pub(super) fn read(heard: &[u8]) -> Read {
    let begins = heard.iter().zip(START).all(|(a, b)| a == b);
    if !begins {
        return Read::Other;
    }
    let mut room = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut room);
    match request.parse(heard) {
        Ok(httparse::Status::Complete(end)) if end <= LONGEST => {
            plain(heard, &request, end).unwrap_or(Read::Other)
        }
        Ok(httparse::Status::Partial) if heard.len() < LONGEST => Read::Part,
        Ok(_) | Err(_) => Read::Other,
    }
}

fn plain(heard: &[u8], request: &httparse::Request<'_, '_>, end: usize) -> Option<Read> {
    let head = heard.get(..end).filter(|head| has_plain_lines(head))?;
    if request.version != Some(1) || request.method != Some(Method::POST.as_str()) {
        return None;
    }
    let path = request.path.filter(|path| path.starts_with('/'))?;
    let uri = Uri::try_from(path).ok()?;
    let source = endpoint(uri.path())?;
    let source = (!source.is_empty()).then(|| source.to_owned());
    let mut headers = HeaderMap::with_capacity(request.headers.len());
    let mut digits = None;
    for field in request.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        if name == header::CONTENT_LENGTH {
            // Given twice, it is not for us to say which one holds.
            if digits.replace(field.value).is_some() {
                return None;
            }
        } else if is_of_the_connection(&name, field.value) {
            return None;
        } else {
            headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
        }
    }
    let digits = digits?;
    let length = length(digits)?;
    let at = (digits.as_ptr() as usize).checked_sub(head.as_ptr() as usize)?;
    let parts = [head.get(..at)?.into(), head.get(at + digits.len()..)?.into()];
    let scope = Scope::read(source.clone(), &uri);
    let found = Found::default();
    let known = Known { parts, head: Arc::new(Head { uri, source, scope, headers, found }) };
    Some(Read::Plain(known, (end, length)))
}

/// What says how the rest is to be read, but for the word that nothing changes.
fn is_of_the_connection(name: &HeaderName, value: &[u8]) -> bool {
    if *name == header::CONNECTION {
        return !value.eq_ignore_ascii_case(b"keep-alive");
    }
    [header::TRANSFER_ENCODING, header::EXPECT, header::UPGRADE, header::TE, header::TRAILER]
        .contains(name)
}

/// Each line ends in both characters, and none stands alone.
fn has_plain_lines(head: &[u8]) -> bool {
    let mut before = 0;
    head.iter().all(|byte| {
        let last = std::mem::replace(&mut before, *byte);
        (*byte == b'\n') == (last == b'\r')
    })
}

fn length(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > DIGITS {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + usize::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::{Known, Read, read};

    const PLAIN: &str =
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\nAccept: a\r\n\r\n";

    fn known(text: &str) -> (Known, (usize, usize)) {
        match read(text.as_bytes()) {
            Read::Plain(known, sizes) => (known, sizes),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn a_plain_head_is_read_and_known_again() {
        let (first, sizes) = known(PLAIN);
        assert_eq!(sizes, (PLAIN.len(), 12));
        let head = first.head();
        assert_eq!((head.headers.len(), head.uri.path()), (2, "/mcp"));
        let longer = PLAIN.replace("12", "1234") + "{}";
        assert_eq!(first.fits(longer.as_bytes()), Some((PLAIN.len() + 2, 1234)));
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
            assert_eq!(first.fits(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_not_all_there_is_waited_for() {
        for end in 0..PLAIN.len() {
            assert!(matches!(read(&PLAIN.as_bytes()[..end]), Read::Part), "{end}");
        }
        assert_eq!(known(&format!("{PLAIN}POST")).1, (PLAIN.len(), 12));
        let long = format!("POST /mcp HTTP/1.1\r\nA: {}", "a".repeat(1 << 20));
        assert!(matches!(read(long.as_bytes()), Read::Other));
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
            assert!(matches!(read(other.as_bytes()), Read::Other), "{other:?}");
        }
        // Positive control: what is as plain is taken.
        for same in ["Connection: Keep-Alive", "X-Own: b", "Accept:a", "Content-Lengths: 3"] {
            assert_eq!(known(&more(same)).1.1, 12, "{same}");
        }
    }
}
