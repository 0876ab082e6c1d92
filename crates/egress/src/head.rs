//! Heads of responses: read by httparse, and held to one reading of how long their bodies are.

use std::mem::MaybeUninit;
use std::sync::Arc;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::framing::{Fault, Framing};
use super::received::Said;

/// The longest head, in bytes.
pub(super) const LONGEST: usize = 64 << 10;
/// What is said of a longer one.
pub(super) const TOO_LARGE: Fault = Fault::Not("its head is too large");
/// Fields of a head.
const FIELDS: usize = 100;

/// What a head says.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) said: Arc<Said>,
    pub(super) framing: Framing,
    /// Whether the connection serves on.
    pub(super) keeps: bool,
}

impl Head {
    /// Whether another one follows.
    pub(super) fn is_early(&self) -> bool {
        let status = self.said.status;
        status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// A head that was read: another one with the same bytes, but for the length, says the same.
#[derive(Debug)]
pub(super) struct Known {
    /// Up to the digits of the length, and from there on; all of it where there is none.
    parts: (Box<[u8]>, Option<Box<[u8]>>),
    said: Arc<Said>,
}

impl Known {
    /// `text` is the head, of which `length` is a part.
    fn of(text: &[u8], length: Option<&[u8]>, said: &Arc<Said>) -> Option<Self> {
        let said = Arc::clone(said);
        let Some(length) = length else { return Some(Self { parts: (text.into(), None), said }) };
        let at = length.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
        let (before, after) = (text.get(..at)?, text.get(at + length.len()..)?);
        Some(Self { parts: (before.into(), Some(after.into())), said })
    }

    /// The same as [`read`], where `heard` begins with this head.
    pub(super) fn fits(&self, heard: &[u8]) -> Option<(Head, usize)> {
        let (before, after) = &self.parts;
        let rest = heard.strip_prefix(&**before)?;
        let (framing, end) = if let Some(after) = after {
            let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (number, rest) = rest.split_at_checked(count)?;
            let length = digits(number).filter(|_| rest.starts_with(after))?;
            (Framing::of(length), before.len() + count + after.len())
        } else {
            (Framing::chunked(), before.len())
        };
        (end <= LONGEST).then(|| (Head { said: Arc::clone(&self.said), framing, keeps: true }, end))
    }
}

/// Whether a head may end in `heard`, of which so much was looked at before.
pub(super) fn may_end(heard: &[u8], looked: usize) -> bool {
    if looked == 0 {
        return !heard.is_empty();
    }
    let new = heard.get(looked.saturating_sub(3)..).unwrap_or_default();
    let mut lines = new.split(|byte| *byte == b'\n').skip(1);
    lines.any(|line| matches!(line, b"" | b"\r"))
}

/// Reads the head that `heard` begins with, and how many bytes it has; nothing where it is not all there.
/// `silent` where the request allows no body. `known` becomes this head, where it may come again.
pub(super) fn read(
    heard: &[u8],
    silent: bool,
    known: &mut Option<Known>,
) -> Result<Option<(Head, usize)>, Fault> {
    let mut room = [const { MaybeUninit::uninit() }; FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let end = match parser.parse_response_with_uninit_headers(&mut response, heard, &mut room) {
        Ok(httparse::Status::Complete(end)) if end <= LONGEST => end,
        Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
            return Err(TOO_LARGE);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Fault::Not("it is not HTTP")),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(Fault::Not("it has no status"))?;
    let old = response.version != Some(1);
    let mut fields = Fields::default();
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for field in response.headers.iter() {
        let unfit = || Fault::Not("it has a header that cannot be read");
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| unfit())?;
        fields.see(&name, field.value)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| unfit())?;
        headers.append(name, value);
    }
    let none = silent
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let framing = fields.framing(none, old)?;
    let twice = fields.chunked && fields.length.is_some();
    let keeps = !(old || fields.closes || twice || framing.ends_with_the_connection());
    let said = Arc::new(Said { status, headers });
    // What is framed in another way is left to be read each time.
    let length = fields.only.filter(|_| fields.length.is_some());
    if !none && keeps && (fields.chunked || length.is_some()) {
        *known = heard.get(..end).and_then(|text| Known::of(text, length, &said));
    }
    Ok(Some((Head { said, framing, keeps }, end)))
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
    fn see(&mut self, name: &HeaderName, value: &'h [u8]) -> Result<(), Fault> {
        if *name == header::CONTENT_LENGTH {
            let length = digits(value).ok_or(Fault::Not("it has a length that is none"))?;
            let before = self.length.replace(length);
            if before.is_some_and(|before| before != length) {
                return Err(Fault::Not("it has two lengths"));
            }
            self.only = before.is_none().then_some(value);
        } else if *name == header::TRANSFER_ENCODING {
            // None was asked for, so that no other can be meant; twice is not once.
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Fault::Not("it has a transfer coding that nobody asked for"));
            }
            self.chunked = true;
        } else if *name == header::CONNECTION {
            let mut words = value.split(|byte| *byte == b',');
            self.closes |= words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"));
        }
        Ok(())
    }

    /// RFC 9112, 6.3.
    fn framing(&self, none: bool, old: bool) -> Result<Framing, Fault> {
        Ok(match self.length {
            _ if none => Framing::Over,
            _ if self.chunked && old => {
                return Err(Fault::Not("it is HTTP/1.0, which has no transfer coding"));
            }
            _ if self.chunked => Framing::chunked(),
            Some(length) => Framing::of(length),
            None => Framing::Connection,
        })
    }
}

fn digits(value: &[u8]) -> Option<u64> {
    let plain = !value.is_empty() && value.len() < 19 && value.iter().all(u8::is_ascii_digit);
    plain.then(|| value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::{Framing, may_end, read};

    fn framing(fields: &str) -> Result<(String, bool), String> {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let (head, end) =
            read(text.as_bytes(), false, &mut None).map_err(|fault| fault.to_string())?.unwrap();
        assert_eq!(end, text.len());
        Ok((format!("{:?}", head.framing), head.keeps))
    }

    #[test]
    fn there_is_one_reading_of_a_length() {
        let same = |framing: &Framing, keeps| Ok((format!("{framing:?}"), keeps));
        for (fields, found, keeps) in [
            ("Content-Length: 5\r\n", Framing::Length(5), true),
            ("Content-Length: 5\r\ncontent-length: 5\r\n", Framing::Length(5), true),
            ("Content-Length: 0\r\n", Framing::Over, true),
            ("Content-Length: 5\r\nConnection: a, Close\r\n", Framing::Length(5), false),
            ("Transfer-Encoding: Chunked\r\n", Framing::chunked(), true),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Framing::chunked(), false),
            ("X: y\r\n", Framing::Connection, false),
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
            read(text.as_bytes(), false, &mut known).unwrap().unwrap();
            known
        };
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nA: b\r\n\r\n";
        let known = know(text).unwrap();
        for (digits, framing) in [("12", "Length(12)"), ("7", "Length(7)"), ("0", "Over")] {
            let again = text.replace("12", digits) + "{}";
            let (head, end) = known.fits(again.as_bytes()).unwrap();
            assert_eq!((format!("{:?}", head.framing), end), (framing.to_owned(), again.len() - 2));
            assert_eq!((head.said.headers["a"].as_bytes(), head.keeps), (&b"b"[..], true));
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
            assert!(known.fits(other.as_bytes()).is_none(), "{other:?}");
        }
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (head, end) = know(chunked).unwrap().fits(chunked.as_bytes()).unwrap();
        assert!(matches!(head.framing, Framing::Chunked(_)) && end == chunked.len());
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
            let (head, _) = read(text.as_bytes(), false, &mut None).unwrap().unwrap();
            assert!(matches!(head.framing, Framing::Over), "{status}");
        }
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert!(matches!(
            read(text.as_bytes(), true, &mut None).unwrap().unwrap().0.framing,
            Framing::Over
        ));
        let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(read(old.as_bytes(), false, &mut None).is_err());
        let old = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n";
        assert!(!read(old.as_bytes(), false, &mut None).unwrap().unwrap().0.keeps);
    }

    #[test]
    fn the_end_of_a_head_is_seen_wherever_it_was_cut() {
        let text = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
        for cut in 1..text.len() {
            assert!(may_end(text, cut), "{cut}");
            assert!(read(&text[..cut], false, &mut None).unwrap().is_none(), "{cut}");
        }
        assert!(!may_end(b"HTTP/1.1 200 OK\r\nA: bcdef", 20));
    }
}
