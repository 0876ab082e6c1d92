//! Server-sent events: a decoder as the HTML standard specifies, with a size limit for one event,
//! and an encoder for one message per event.

use std::collections::VecDeque;

use bytes::Bytes;

/// One event of a server-sent event stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Event type; `None` means `message`.
    pub event: Option<String>,
    /// Event data; its lines are joined with line feeds.
    pub data: Option<String>,
    /// Id from which a broken stream can be resumed.
    pub id: Option<String>,
    /// Reconnection delay in milliseconds.
    pub retry: Option<u64>,
}

/// Error: an event exceeds the size limit. The rest of the stream cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than is taken")]
pub struct TooLarge;

/// Encodes a message as one event.
pub fn event(message: &[u8]) -> Bytes {
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
pub struct Reader {
    most: usize,
    line: Vec<u8>,
    /// Whether the last part ended with a carriage return: a line feed that follows ends no line.
    after_return: bool,
    first: bool,
    event: Event,
    /// Bytes of the current event so far.
    size: usize,
    ready: VecDeque<Event>,
}

impl Reader {
    /// Creates a decoder for events of up to `most` bytes.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            line: Vec::new(),
            after_return: false,
            first: true,
            event: Event::default(),
            size: 0,
            ready: VecDeque::new(),
        }
    }

    /// Returns the next complete event.
    pub fn pop(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    /// Decodes the next part of the stream.
    ///
    /// # Errors
    /// [`TooLarge`] if an event exceeds the limit.
    pub fn feed(&mut self, mut part: &[u8]) -> Result<(), TooLarge> {
        if std::mem::take(&mut self.after_return) {
            part = part.strip_prefix(b"\n").unwrap_or(part);
        }
        while let Some(end) = part.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = part.split_at_checked(end).unwrap_or_default();
            self.add(line)?;
            self.line_ended();
            part = match rest.strip_prefix(b"\r\n") {
                Some(rest) => rest,
                None if rest == b"\r" => {
                    self.after_return = true;
                    &[]
                }
                None => rest.get(1..).unwrap_or_default(),
            };
        }
        self.add(part)
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        self.size = self.size.saturating_add(bytes.len());
        if self.size > self.most {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn line_ended(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut text = &*line;
        if std::mem::take(&mut self.first) {
            text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        }
        if text.is_empty() {
            self.size = 0;
            let event = std::mem::take(&mut self.event);
            if event != Event::default() {
                self.ready.push_back(event);
            }
            return;
        }
        if text.starts_with(b":") {
            // A comment keeps the connection open and is not part of an event.
            self.size = self.size.saturating_sub(line.len());
            return;
        }
        let colon = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
        let (name, value) = text.split_at_checked(colon).unwrap_or_default();
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        self.field(name, &String::from_utf8_lossy(value));
    }

    fn field(&mut self, name: &[u8], value: &str) {
        match name {
            b"data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.event.data = Some(value.to_owned()),
            },
            b"event" => self.event.event = Some(value.to_owned()),
            b"id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            b"retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.event.retry = value.parse().ok();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Reader, TooLarge};

    fn events(parts: &[&[u8]]) -> Vec<Event> {
        let mut reader = Reader::new(1000);
        for part in parts {
            reader.feed(part).unwrap();
        }
        std::iter::from_fn(|| reader.pop()).collect()
    }

    fn data(text: &str) -> Event {
        Event { data: Some(text.to_owned()), ..Event::default() }
    }

    #[test]
    fn fields_lines_and_comments_of_the_standard() {
        let text = b"\xEF\xBB\xBF: hi\n\ndata: a\ndata:  b\ndata\n\nid: 7\nevent: message\nretry: 30\nother: x\nodd\ndata:{}\n\n\nretry: soon\n\n";
        let second = Event {
            id: Some("7".to_owned()),
            event: Some("message".to_owned()),
            retry: Some(30),
            ..data("{}")
        };
        assert_eq!(events(&[text]), [data("a\n b\n"), second]);
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["{}", "{\n \"a\":\r\n1}", ""] {
            let event = super::event(text.as_bytes());
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
        let mut reader = Reader::new(20);
        for _ in 0..100 {
            reader.feed(b": keep alive\ndata: 12345\n\n").unwrap();
        }
        assert_eq!(reader.feed(b"data: 1234567890\ndata: 1"), Err(TooLarge));
        let mut endless = Reader::new(20);
        let error = (0..100).find_map(|_| endless.feed(b"xxxxxxx").err());
        assert_eq!(error, Some(TooLarge));
    }
}
