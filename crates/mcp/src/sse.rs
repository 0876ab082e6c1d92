//! Server-sent events: a decoder as the HTML standard specifies, with a size limit for one event,
//! and an encoder for one message per event.

use std::collections::VecDeque;

use bytes::Bytes;

/// One event of a server-sent event stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Event type; `None` means `message`.
    pub event_type: Option<String>,
    /// Event data; its lines are joined with line feeds.
    pub data: Option<String>,
    /// Id from which a broken stream can be resumed.
    pub id: Option<String>,
    /// Reconnection delay in milliseconds.
    pub retry_ms: Option<u64>,
}

/// Error: an event exceeds the size limit. The rest of the stream cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is too large")]
pub struct EventTooLarge;

/// Encodes a message as one event.
pub fn encode_event(message: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(message.len() + 10);
    for (index, line) in message.split(|byte| *byte == b'\n').enumerate() {
        text.extend_from_slice(if index == 0 { b"data: " } else { b"\ndata: " });
        text.extend(line.iter().filter(|byte| **byte != b'\r'));
    }
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// A comment line that keeps an idle stream open.
pub const KEEP_ALIVE: &str = ":\n\n";

/// Decoder that is fed with parts of a stream and yields events.
#[derive(Debug)]
pub struct SseDecoder {
    max_event_bytes: usize,
    line: Vec<u8>,
    /// Whether the last part ended with a carriage return: a line feed that follows ends no line.
    is_after_carriage_return: bool,
    is_first_line: bool,
    event: SseEvent,
    /// Bytes of the current event so far.
    event_bytes: usize,
    ready_events: VecDeque<SseEvent>,
}

impl SseDecoder {
    /// Creates a decoder for events of up to `max_bytes` bytes.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_event_bytes: max_bytes,
            line: Vec::new(),
            is_after_carriage_return: false,
            is_first_line: true,
            event: SseEvent::default(),
            event_bytes: 0,
            ready_events: VecDeque::new(),
        }
    }

    /// Returns the next complete event.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.ready_events.pop_front()
    }

    /// Decodes the next part of the stream.
    ///
    /// # Errors
    /// [`EventTooLarge`] if an event exceeds the limit.
    pub fn feed_bytes(&mut self, mut bytes: &[u8]) -> Result<(), EventTooLarge> {
        if std::mem::take(&mut self.is_after_carriage_return) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at_checked(end).unwrap_or_default();
            self.push_bytes(line)?;
            self.end_line();
            bytes = match rest.strip_prefix(b"\r\n") {
                Some(rest) => rest,
                None if rest == b"\r" => {
                    self.is_after_carriage_return = true;
                    &[]
                }
                None => rest.get(1..).unwrap_or_default(),
            };
        }
        self.push_bytes(bytes)
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        self.event_bytes = self.event_bytes.saturating_add(bytes.len());
        if self.event_bytes > self.max_event_bytes {
            return Err(EventTooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut content = &*line;
        if std::mem::take(&mut self.is_first_line) {
            content = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content);
        }
        if content.is_empty() {
            self.event_bytes = 0;
            let event = std::mem::take(&mut self.event);
            if event != SseEvent::default() {
                self.ready_events.push_back(event);
            }
            return;
        }
        if content.starts_with(b":") {
            // A comment keeps the connection open and is not part of an event.
            self.event_bytes = self.event_bytes.saturating_sub(line.len());
            return;
        }
        let colon = content.iter().position(|byte| *byte == b':').unwrap_or(content.len());
        let (name, value) = content.split_at_checked(colon).unwrap_or_default();
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        self.set_field(name, &String::from_utf8_lossy(value));
    }

    fn set_field(&mut self, name: &[u8], value: &str) {
        match name {
            b"data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.event.data = Some(value.to_owned()),
            },
            b"event" => self.event.event_type = Some(value.to_owned()),
            b"id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            b"retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.event.retry_ms = value.parse().ok();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EventTooLarge, SseDecoder, SseEvent};

    fn events(parts: &[&[u8]]) -> Vec<SseEvent> {
        let mut reader = SseDecoder::new(1000);
        for part in parts {
            reader.feed_bytes(part).unwrap();
        }
        std::iter::from_fn(|| reader.next_event()).collect()
    }

    fn data(text: &str) -> SseEvent {
        SseEvent { data: Some(text.to_owned()), ..SseEvent::default() }
    }

    #[test]
    fn fields_lines_and_comments_of_the_standard() {
        let text = b"\xEF\xBB\xBF: hi\n\ndata: a\ndata:  b\ndata\n\nid: 7\nevent: message\nretry: 30\nother: x\nodd\ndata:{}\n\n\nretry: soon\n\n";
        let second = SseEvent {
            id: Some("7".to_owned()),
            event_type: Some("message".to_owned()),
            retry_ms: Some(30),
            ..data("{}")
        };
        assert_eq!(events(&[text]), [data("a\n b\n"), second]);
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["{}", "{\n \"a\":\r\n1}", ""] {
            let event = super::encode_event(text.as_bytes());
            assert_eq!(events(&[&event]), [data(&text.replace('\r', ""))]);
        }
        assert_eq!(events(&[super::KEEP_ALIVE.as_bytes()]), []);
    }

    #[test]
    fn any_cut_and_any_line_end_reads_the_same() {
        let text = b"data: 1\r\n\r\ndata: 2\r\rdata: 3\n\ndata: lost";
        let whole = events(&[text]);
        assert_eq!(whole, [data("1"), data("2"), data("3")]);
        for cut in 0..text.len() {
            let (a, b) = text.split_at(cut);
            assert_eq!(events(&[a, b]), whole, "{cut}");
        }
        let bytes: Vec<_> = text.chunks(1).collect();
        assert_eq!(events(&bytes), whole);
    }

    #[test]
    fn one_event_is_bounded_and_comments_do_not_count() {
        let mut reader = SseDecoder::new(20);
        for _ in 0..100 {
            reader.feed_bytes(b": keep alive\ndata: 12345\n\n").unwrap();
        }
        assert_eq!(reader.feed_bytes(b"data: 1234567890\ndata: 1"), Err(EventTooLarge));
        let mut endless = SseDecoder::new(20);
        let error = (0..100).find_map(|_| endless.feed_bytes(b"xxxxxxx").err());
        assert_eq!(error, Some(EventTooLarge));
    }
}
