//! Answers as bytes of HTTP/1.1: of a known length in one write, or in chunks as they come.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write as _};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName};
use http::{Response, StatusCode};
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tool::Wall;

use super::{Lane, gone};

/// Bytes that go out together with their head; what is larger is not copied.
const TOGETHER: usize = 16 << 10;
/// Room that is kept for the next answer, in bytes.
const KEPT: usize = 64 << 10;

/// The second that answers are dated with.
#[derive(Debug, Default)]
pub(super) struct Date {
    second: u64,
    text: String,
}

impl Date {
    pub(super) fn is(&mut self, wall: Wall) {
        let second = wall.0 / 1_000;
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
        }
    }
}

/// What a body does next.
enum Next {
    Data(Bytes),
    /// Nothing yet: what is there is to go out.
    Nothing,
    End,
    /// Nobody reads it any more, or it broke off.
    Gone,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lane<S> {
    /// Writes one answer; the `last` one says so.
    pub(super) async fn say<B: Body<Data = Bytes>>(
        &mut self,
        response: Response<B>,
        last: bool,
    ) -> io::Result<()> {
        let (parts, body) = response.into_parts();
        self.out.clear();
        self.out.shrink_to(KEPT);
        start(&mut self.out, parts.status, &parts.headers);
        field(&mut self.out, "date", self.date.text.as_bytes());
        if last {
            field(&mut self.out, "connection", b"close");
        }
        if matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            self.out.extend_from_slice(b"\r\n");
            return self.stream.write_all(&self.out).await;
        }
        if let Some(length) = body.size_hint().exact() {
            field(&mut self.out, "content-length", itoa::Buffer::new().format(length).as_bytes());
            self.out.extend_from_slice(b"\r\n");
            return self.whole(body).await;
        }
        self.out.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        self.chunks(body).await
    }

    /// A body of a known length.
    async fn whole<B: Body<Data = Bytes>>(&mut self, body: B) -> io::Result<()> {
        let (mut body, mut large) = (pin!(body), Vec::new());
        loop {
            match poll_fn(|cx| frame(body.as_mut(), cx)).await {
                Next::Data(data) if large.is_empty() && self.out.len() + data.len() <= TOGETHER => {
                    self.out.extend_from_slice(&data);
                }
                Next::Data(data) => large.push(data),
                Next::Nothing => {}
                Next::End if large.is_empty() => return self.stream.write_all(&self.out).await,
                Next::End => break,
                Next::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        let first = std::iter::once(&self.out[..]);
        let mut slices: Vec<_> =
            first.chain(large.iter().map(|data| &data[..])).map(IoSlice::new).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            match self.stream.write_vectored(left).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut left, written),
            }
        }
        Ok(())
    }

    /// A body that goes out as it comes.
    async fn chunks<B: Body<Data = Bytes>>(&mut self, body: B) -> io::Result<()> {
        let mut body = pin!(body);
        let Self { stream, heard, out, .. } = self;
        loop {
            let next =
                poll_fn(|cx| heard_or(stream, heard, out.is_empty(), cx, body.as_mut())).await;
            match next {
                Next::Data(data) if data.is_empty() => {}
                Next::Data(data) => {
                    write!(out, "{:x}\r\n", data.len())?;
                    out.extend_from_slice(&data);
                    out.extend_from_slice(b"\r\n");
                    if out.len() < TOGETHER {
                        continue;
                    }
                }
                Next::Nothing => {}
                Next::End => {
                    out.extend_from_slice(b"0\r\n\r\n");
                    return stream.write_all(out).await;
                }
                Next::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            stream.write_all(out).await?;
            out.clear();
        }
    }
}

/// The next part of `body`; where there is none yet, and nothing to write, as long as the other side is
/// there.
fn heard_or<S: AsyncRead + Unpin, B: Body<Data = Bytes>>(
    stream: &mut S,
    heard: &mut BytesMut,
    written: bool,
    cx: &mut Context<'_>,
    body: Pin<&mut B>,
) -> Poll<Next> {
    match frame(body, cx) {
        Poll::Ready(next) => Poll::Ready(next),
        Poll::Pending if !written => Poll::Ready(Next::Nothing),
        Poll::Pending if gone(stream, heard, cx) => Poll::Ready(Next::Gone),
        Poll::Pending => Poll::Pending,
    }
}

fn frame<B: Body<Data = Bytes>>(body: Pin<&mut B>, cx: &mut Context<'_>) -> Poll<Next> {
    body.poll_frame(cx).map(|frame| match frame {
        None => Next::End,
        // Trailers are of no use to anybody here.
        Some(Ok(frame)) => frame.into_data().map_or(Next::Nothing, Next::Data),
        Some(Err(_)) => Next::Gone,
    })
}

fn start(out: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(status.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(status.canonical_reason().unwrap_or("-").as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    for (name, value) in headers.iter().filter(|(name, _)| !is_ours(name)) {
        field(out, name.as_str(), value.as_bytes());
    }
}

/// What only the connection says.
fn is_ours(name: &HeaderName) -> bool {
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::DATE]
        .contains(name)
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
