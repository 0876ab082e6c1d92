//! Writes HTTP/1.1 responses: with a known length in one write, or chunked.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write as _};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use crate::MAX_COALESCED_BODY;
use crate::head_writer::write_field;
use crate::server_connection::{ServerConnection, is_peer_closed};
use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName};
use http::{Response, StatusCode};
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

/// Maximum capacity that is retained for the next response, in bytes.
const MAX_RETAINED_CAPACITY: usize = 64 << 10;

/// The `Date` of responses, formatted once a second.
#[derive(Debug, Default)]
pub(crate) struct DateHeader {
    second: u64,
    text: String,
}

impl DateHeader {
    /// Returns the text for a second since 1970.
    fn text_at(&mut self, second: u64) -> &str {
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
        }
        &self.text
    }
}

/// The next event of a body.
enum BodyEvent {
    Data(Bytes),
    /// No data yet: buffered data is written.
    Pending,
    End,
    /// The peer disconnected, or the body failed.
    Aborted,
}

impl<S: AsyncRead + AsyncWrite + Unpin, T> ServerConnection<S, T> {
    /// Writes one response. `unix_second` since 1970 is its date; `is_last` adds `connection:
    /// close`.
    ///
    /// # Errors
    /// Fails if the peer disconnected, or if the body failed.
    pub async fn write_response<B: Body<Data = Bytes>>(
        &mut self,
        response: Response<B>,
        unix_second: u64,
        is_last: bool,
    ) -> io::Result<()> {
        let (parts, body) = response.into_parts();
        self.write_buffer.clear();
        self.write_buffer.shrink_to(MAX_RETAINED_CAPACITY);
        write_head(&mut self.write_buffer, parts.status, &parts.headers);
        write_field(
            &mut self.write_buffer,
            "date",
            self.date_header.text_at(unix_second).as_bytes(),
        );
        if is_last {
            write_field(&mut self.write_buffer, "connection", b"close");
        }
        if matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            self.write_buffer.extend_from_slice(b"\r\n");
            return self.stream.write_all(&self.write_buffer).await;
        }
        if let Some(length) = body.size_hint().exact() {
            let mut digits = itoa::Buffer::new();
            let length = digits.format(length);
            write_field(&mut self.write_buffer, "content-length", length.as_bytes());
            self.write_buffer.extend_from_slice(b"\r\n");
            return self.write_sized_body(body).await;
        }
        self.write_buffer.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        self.write_chunked_body(body).await
    }

    /// Writes a body of a known length.
    async fn write_sized_body<B: Body<Data = Bytes>>(&mut self, body: B) -> io::Result<()> {
        let (mut body, mut large) = (pin!(body), Vec::new());
        loop {
            match poll_fn(|cx| poll_body_event(body.as_mut(), cx)).await {
                BodyEvent::Data(data)
                    if large.is_empty()
                        && self.write_buffer.len() + data.len() <= MAX_COALESCED_BODY =>
                {
                    self.write_buffer.extend_from_slice(&data);
                }
                BodyEvent::Data(data) => large.push(data),
                BodyEvent::Pending => {}
                BodyEvent::End if large.is_empty() => {
                    return self.stream.write_all(&self.write_buffer).await;
                }
                BodyEvent::End => break,
                BodyEvent::Aborted => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        let first = std::iter::once(&self.write_buffer[..]);
        let mut slices: Vec<_> =
            first.chain(large.iter().map(|data| &data[..])).map(IoSlice::new).collect();
        let mut remaining = slices.as_mut_slice();
        while !remaining.is_empty() {
            match self.stream.write_vectored(remaining).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut remaining, written),
            }
        }
        Ok(())
    }

    /// Writes a streamed body as chunks.
    async fn write_chunked_body<B: Body<Data = Bytes>>(&mut self, body: B) -> io::Result<()> {
        let mut body = pin!(body);
        let Self { stream, read_buffer, write_buffer: out, .. } = self;
        loop {
            let next = poll_fn(|cx| {
                poll_body_or_disconnect(stream, read_buffer, out.is_empty(), cx, body.as_mut())
            })
            .await;
            match next {
                BodyEvent::Data(data) if data.is_empty() => {}
                BodyEvent::Data(data) => {
                    write!(out, "{:x}\r\n", data.len())?;
                    out.extend_from_slice(&data);
                    out.extend_from_slice(b"\r\n");
                    if out.len() < MAX_COALESCED_BODY {
                        continue;
                    }
                }
                BodyEvent::Pending => {}
                BodyEvent::End => {
                    out.extend_from_slice(b"0\r\n\r\n");
                    return stream.write_all(out).await;
                }
                BodyEvent::Aborted => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            stream.write_all(out).await?;
            out.clear();
        }
    }
}

/// Polls the next event of `body`. While it is pending and nothing is buffered, polls for a
/// disconnect.
fn poll_body_or_disconnect<S: AsyncRead + Unpin, B: Body<Data = Bytes>>(
    stream: &mut S,
    read_buffer: &mut BytesMut,
    is_flushed: bool,
    cx: &mut Context<'_>,
    body: Pin<&mut B>,
) -> Poll<BodyEvent> {
    match poll_body_event(body, cx) {
        Poll::Ready(next) => Poll::Ready(next),
        Poll::Pending if !is_flushed => Poll::Ready(BodyEvent::Pending),
        Poll::Pending if is_peer_closed(stream, read_buffer, cx) => Poll::Ready(BodyEvent::Aborted),
        Poll::Pending => Poll::Pending,
    }
}

fn poll_body_event<B: Body<Data = Bytes>>(
    body: Pin<&mut B>,
    cx: &mut Context<'_>,
) -> Poll<BodyEvent> {
    body.poll_frame(cx).map(|frame| match frame {
        None => BodyEvent::End,
        // Trailers are of no use to anybody here.
        Some(Ok(frame)) => frame.into_data().map_or(BodyEvent::Pending, BodyEvent::Data),
        Some(Err(_)) => BodyEvent::Aborted,
    })
}

fn write_head(out: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(status.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(status.canonical_reason().unwrap_or("-").as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    for (name, value) in headers.iter().filter(|(name, _)| !is_managed_header(name)) {
        write_field(out, name.as_str(), value.as_bytes());
    }
}

/// Whether only the connection may write this header.
fn is_managed_header(name: &HeaderName) -> bool {
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::DATE]
        .contains(name)
}
