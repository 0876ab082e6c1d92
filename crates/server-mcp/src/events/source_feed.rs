//! The events of one subscription, read from a source by a stream or by polls, whichever it offers.

use std::collections::VecDeque;
use std::time::Duration;

use mcp::error_codes;
use tokio::time::{Instant, sleep_until, timeout_at};
use tool::call_outcome::CallFailure;
use tool::{ErrorCode, Json};

use super::feed_slots::{FeedSlot, NO_SLOT};
use super::source_calls::{SourceStream, StreamEnd, StreamMessage, poll_source};
use super::source_page::SourceEvent;
use super::source_subscription::{SourcePosition, SourceSubscription};
use crate::McpServerState;

/// Delay before a source is asked again after a failure: at first, and at most.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// Time after which a stream that breaks counts as the first one that does.
const STEADY_TIME: Duration = Duration::from_mins(1);
/// Shortest time between two polls for one webhook.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Time without a message after which a stream counts as broken: three heartbeats of the extension.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
/// Maximum number of events of one poll: a page of the largest ones fits the results of calls (4 MiB).
const PAGE_EVENTS: usize = 12;

/// One item of a feed: an event, or a change of the subscription.
#[derive(Debug)]
pub(super) enum FeedItem {
    /// The feed begins, or goes on after a gap.
    Active {
        is_truncated: bool,
    },
    Event(SourceEvent),
    /// A failure of the source after which the feed goes on.
    Error(Json),
    /// The source ended the subscription.
    Terminated(Json),
    /// The source, or the policy, refuses the subscription.
    Refused(CallFailure),
}

/// How events are read.
#[derive(Debug)]
enum FeedReader {
    Stream(Option<OpenStream>),
    /// Events of the last poll, with the source's cursor after the last of them.
    Poll(VecDeque<SourceEvent>, Option<String>),
}

/// A stream of the source, with its place among those of the source.
#[derive(Debug)]
struct OpenStream {
    messages: SourceStream,
    _slot: FeedSlot,
    /// When the source last sent something: a reader that gives up waiting does not begin anew.
    heard_at: Instant,
    /// Whether the position moved since the opening.
    has_moved: bool,
}

/// Reads the events of one subscription. It opens a broken stream anew at its position.
#[derive(Debug)]
pub(super) struct SourceFeed {
    state: McpServerState,
    pub(super) subscription: SourceSubscription,
    position: SourcePosition,
    reader: FeedReader,
    /// Whether anything was returned: a failure before is for the client.
    has_begun: bool,
    opened_at: Instant,
    not_before: Instant,
    retry_delay: Duration,
}

/// Whether a failure ends a subscription.
fn is_final(failure: &CallFailure) -> bool {
    let codes = [
        error_codes::NOT_FOUND,
        error_codes::FORBIDDEN,
        error_codes::UNSUPPORTED,
        error_codes::INVALID_PARAMS,
        error_codes::METHOD_NOT_FOUND,
    ];
    let of_source = failure.rpc_error.as_ref().is_some_and(|error| codes.contains(&error.code));
    let codes = [
        ErrorCode::UnknownTool,
        ErrorCode::Denied,
        ErrorCode::ApprovalRequired,
        ErrorCode::InvalidArguments,
    ];
    of_source || codes.contains(&failure.code)
}

impl SourceFeed {
    fn new(
        state: &McpServerState,
        subscription: SourceSubscription,
        (position, reader): (SourcePosition, FeedReader),
    ) -> Self {
        let now = Instant::now();
        Self {
            state: state.clone(),
            subscription,
            position,
            reader,
            has_begun: false,
            opened_at: now,
            not_before: now,
            retry_delay: RETRY_DELAY.0,
        }
    }

    /// Creates a feed that reads a stream.
    pub(super) fn by_stream(
        state: &McpServerState,
        subscription: SourceSubscription,
        position: SourcePosition,
    ) -> Self {
        Self::new(state, subscription, (position, FeedReader::Stream(None)))
    }

    /// Creates a feed that polls.
    pub(super) fn by_polls(
        state: &McpServerState,
        subscription: SourceSubscription,
        position: SourcePosition,
    ) -> Self {
        Self::new(state, subscription, (position, FeedReader::Poll(VecDeque::new(), None)))
    }

    /// The source's cursor after everything that was returned.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.position.cursor.as_deref()
    }

    /// Takes over the caller's rights as they are now. Returns false if it may no longer read the events,
    /// or no longer in this way.
    pub(super) fn renew_access(&mut self) -> bool {
        if !self.subscription.renew_access(&self.state) {
            return false;
        }
        let usable = self.subscription.usable_delivery(&self.state);
        match &self.reader {
            FeedReader::Stream(_) => usable.has_push,
            FeedReader::Poll(..) => usable.has_poll,
        }
    }

    /// Notes that its reader has begun without a word of the source.
    pub(super) fn mark_begun(&mut self) {
        self.has_begun = true;
    }

    /// Stops reading until the next item is requested.
    pub(super) fn pause(&mut self) {
        if let FeedReader::Stream(stream) = &mut self.reader
            && stream.take().is_some()
        {
            // Without a cursor, nothing is replayed.
            self.position.is_truncated |= self.position.cursor.is_none();
        }
    }

    /// Takes the note that events are missing before the next one.
    pub(super) fn take_truncation(&mut self) -> bool {
        std::mem::take(&mut self.position.is_truncated)
    }

    /// Returns the next item. Cancel-safe.
    pub(super) async fn next_item(&mut self) -> FeedItem {
        let item = match &self.reader {
            FeedReader::Stream(_) => self.next_of_stream().await,
            FeedReader::Poll(..) => self.next_of_polls().await,
        };
        self.has_begun = true;
        item
    }

    /// Notes a failure. Returns it if it ends the subscription.
    fn note_failure(&mut self, failure: CallFailure) -> Option<FeedItem> {
        if !self.has_begun || is_final(&failure) {
            return Some(FeedItem::Refused(failure));
        }
        self.retry_later();
        None
    }

    /// Waits longer after each failure, so that a source cannot make this server call it all the time.
    fn retry_later(&mut self) {
        if self.opened_at.elapsed() >= STEADY_TIME {
            self.retry_delay = RETRY_DELAY.0;
        }
        self.not_before = Instant::now() + self.retry_delay;
        self.retry_delay = self.retry_delay.saturating_mul(2).min(RETRY_DELAY.1);
    }

    async fn next_of_stream(&mut self) -> FeedItem {
        loop {
            let FeedReader::Stream(open) = &mut self.reader else { return self.gap() };
            let Some(stream) = open else {
                sleep_until(self.not_before).await;
                match self.open_stream() {
                    Ok(stream) => self.reader = FeedReader::Stream(Some(stream)),
                    Err(failure) => {
                        if let Some(refused) = self.note_failure(failure) {
                            return refused;
                        }
                    }
                }
                continue;
            };
            let due = stream.heard_at + IDLE_LIMIT;
            let message = timeout_at(due, stream.messages.next_message()).await;
            let has_moved = stream.has_moved;
            if matches!(message, Ok(Ok(_))) {
                stream.heard_at = Instant::now();
            } else {
                *open = None;
                self.position.is_truncated |= self.has_begun && self.position.cursor.is_none();
            }
            let item = match message {
                Ok(Ok(message)) => self.take_message(message),
                Ok(Err(StreamEnd::Failed(failure))) => self.note_failure(failure),
                // A source that sends faster than it is read goes on from where the reader is.
                Ok(Err(StreamEnd::Overtaken)) if has_moved => {
                    self.not_before = Instant::now() + RETRY_DELAY.0;
                    None
                }
                Ok(Err(StreamEnd::Overtaken | StreamEnd::Ended)) | Err(_) => {
                    self.retry_later();
                    None
                }
            };
            if let Some(item) = item {
                return item;
            }
        }
    }

    fn open_stream(&mut self) -> Result<OpenStream, CallFailure> {
        self.opened_at = Instant::now();
        let (subscription, slots) = (&self.subscription, &self.state.mcp_components.feed_slots);
        let slot = slots.take_slot(&subscription.principal, &subscription.events.source);
        let slot = slot.ok_or_else(|| CallFailure::new(ErrorCode::Busy, NO_SLOT))?;
        Ok(OpenStream {
            messages: SourceStream::open(&self.state, subscription, &self.position),
            _slot: slot,
            heard_at: self.opened_at,
            has_moved: false,
        })
    }

    /// Takes over the position of a message, and returns what of it is for the reader.
    fn take_message(&mut self, message: StreamMessage) -> Option<FeedItem> {
        match message {
            StreamMessage::Active { cursor, is_truncated } => {
                self.move_to(cursor);
                let is_truncated = std::mem::take(&mut self.position.is_truncated) || is_truncated;
                // A stream that was opened anew without a gap is the same for the reader.
                (is_truncated || !self.has_begun).then_some(FeedItem::Active { is_truncated })
            }
            StreamMessage::Event(event) => {
                self.move_to(event.cursor.clone());
                Some(FeedItem::Event(event))
            }
            StreamMessage::Heartbeat(cursor) => {
                self.move_to(cursor);
                None
            }
            StreamMessage::Error(error) => Some(FeedItem::Error(error)),
            StreamMessage::Terminated(error) => Some(FeedItem::Terminated(error)),
        }
    }

    /// A maximum age counts for the first request alone.
    fn move_to(&mut self, cursor: Option<String>) {
        self.position.max_age_ms = None;
        if cursor.is_none() || cursor == self.position.cursor {
            return;
        }
        self.position.cursor = cursor;
        if let FeedReader::Stream(Some(stream)) = &mut self.reader {
            stream.has_moved = true;
        }
    }

    fn gap(&mut self) -> FeedItem {
        FeedItem::Active { is_truncated: self.take_truncation() }
    }

    async fn next_of_polls(&mut self) -> FeedItem {
        loop {
            let FeedReader::Poll(queue, after) = &mut self.reader else { return self.gap() };
            if let Some(event) = queue.pop_front() {
                let cursor = after.clone().filter(|_| queue.is_empty());
                self.move_to(cursor);
                return FeedItem::Event(event);
            }
            sleep_until(self.not_before).await;
            self.opened_at = Instant::now();
            let polled =
                poll_source(&self.state, &self.subscription, (&self.position, PAGE_EVENTS)).await;
            let page = match polled {
                Ok(page) => page,
                Err(failure) => match self.note_failure(failure) {
                    Some(refused) => return refused,
                    None => continue,
                },
            };
            self.retry_delay = RETRY_DELAY.0;
            // A source that does not move on gets no more polls for saying that it has more.
            let moves_on = page.cursor.is_some() && page.cursor != self.position.cursor;
            let wait = Duration::from_millis(page.next_poll_ms).max(MIN_POLL_INTERVAL);
            let polls_on = page.has_more && moves_on && !page.events.is_empty();
            self.not_before = Instant::now() + if polls_on { Duration::ZERO } else { wait };
            if page.events.is_empty() {
                self.move_to(page.cursor.clone());
            } else if page.cursor.is_none() {
                // The position before these events would bring them again.
                self.position.cursor = None;
            }
            self.reader = FeedReader::Poll(page.events.into(), page.cursor);
            if page.is_truncated || std::mem::take(&mut self.position.is_truncated) {
                return FeedItem::Active { is_truncated: true };
            }
        }
    }
}
