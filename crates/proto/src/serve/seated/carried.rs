//! One connection, carried by one task: it reads, runs the short calls and writes what they answer, so
//! that nothing is spawned and no other task is woken for them.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, FutureExt as _};
use futures_util::stream::{FuturesUnordered, Stream as _};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bell::{Bell, CALLS, LINE};
use super::message_budget::MessageBudget;
use super::{Ways, long, short};
use crate::serve::{ALIVE, Boxed, STREAMS};

/// Time to shake hands.
const PATIENCE: Duration = Duration::from_secs(10);
/// What may come on a connection, and on one stream, before somebody reads it.
const WINDOW: u32 = 1 << 20;
/// Bytes of one frame.
const FRAME: u32 = 16 << 10;
/// Bytes of the headers of one call.
const HEADERS: u32 = 16 << 10;
/// Bytes of an answer in parts that wait on a stream before its next part is asked for.
const UNSENT: usize = 400 << 10;
/// Streams of a connection that were reset for a fault of the client's before the connection is cut.
const FAULTS: usize = 1024;
/// Streams that the client has reset before they were looked at, and before the connection is cut.
const RESETS: usize = 20;
/// How often in a row one connection goes on before others have their turn.
const ROUNDS: usize = 16;

/// What the connection's calls have in common.
pub(super) struct Here {
    pub(super) ways: Arc<Ways>,
    /// What the server remembers of it.
    pub(super) connection: Option<crate::serve::Connection>,
    /// Whether the client has sent anything since somebody asked.
    pub(super) heard: AtomicBool,
    /// Of messages that have not arrived in full.
    pub(super) unfinished: MessageBudget,
}

impl Here {
    pub(super) fn hears(&self) {
        self.heard.store(true, Ordering::Relaxed);
    }
}

/// What a future of the connection ended with.
enum Event {
    /// A call is answered, or its client gone.
    Ended,
    /// No new calls are wanted.
    Stopping,
    /// The client does not answer.
    Silent,
}

/// Serves one connection until it ends, or `stop` fires and its calls are done.
pub(in crate::serve) async fn serve<T: AsyncRead + AsyncWrite + Unpin>(
    stream: T,
    ways: Arc<Ways>,
    stop: CancellationToken,
) -> Result<(), String> {
    let shaking = tokio::time::timeout(PATIENCE, settings().handshake(stream));
    let shaken = tokio::select! {
        shaken = shaking => shaken.map_err(|_| "it shook hands for too long".to_owned())?,
        () = stop.cancelled() => return Ok(()),
    };
    let mut connection = shaken.map_err(|error| error.to_string())?;
    let (kept, heard) = (ways.door.tools.connected(), AtomicBool::new(false));
    let unfinished = MessageBudget::default();
    let here = Arc::new(Here { ways, connection: kept, heard, unfinished });
    let (mut running, tasks) = (FuturesUnordered::new(), TaskTracker::new());
    let silence: Boxed<Event> = Box::pin(silent(connection.ping_pong(), Arc::clone(&here)));
    let stopping: Boxed<Event> = Box::pin(async move {
        stop.cancelled().await;
        Event::Stopping
    });
    running.extend([Either::Left(silence), Either::Left(stopping)]);
    let begin = move |request: Request<RecvStream>, respond: SendResponse<Bytes>| {
        here.hears();
        if !short::is_short(&request) {
            // It may be large, or go on for long. It hears of the connection's end from its stream.
            drop(tasks.spawn(long::answer(Arc::clone(&here), request, respond)));
            return None;
        }
        // A call that breaks takes no other one along: its stream is reset.
        let call = AssertUnwindSafe(short::answer(Arc::clone(&here), request, respond));
        Some(call.catch_unwind().map(|_| Event::Ended))
    };
    let (bell, line, calls) = Bell::hung();
    let mut carried = Carried { connection, running, begin, bell, line, calls };
    std::future::poll_fn(|cx| carried.poll(cx)).await
}

/// As hyper's server has it.
fn settings() -> Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_frame_size(FRAME)
        .max_header_list_size(HEADERS)
        .max_concurrent_streams(STREAMS)
        .max_send_buffer_size(UNSENT)
        .max_local_error_reset_streams(Some(FAULTS))
        .max_pending_accept_reset_streams(RESETS);
    builder
}

/// Asks again and again; ends where neither an answer nor anything else comes.
async fn silent(pings: Option<PingPong>, here: Arc<Here>) -> Event {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        tokio::time::sleep(ALIVE).await;
        here.heard.store(false, Ordering::Relaxed);
        let mut pong = pin!(pings.ping(Ping::opaque()));
        loop {
            match tokio::time::timeout(ALIVE, pong.as_mut()).await {
                Ok(Ok(_)) => break,
                // Its answer may wait behind what it sends.
                Err(_) if here.heard.swap(false, Ordering::Relaxed) => {}
                Ok(Err(_)) | Err(_) => return Event::Silent,
            }
        }
    }
}

struct Carried<T, F, N> {
    connection: Connection<T, Bytes>,
    /// The short calls, and what is waited for beside them.
    running: FuturesUnordered<Either<Boxed<Event>, F>>,
    begin: N,
    bell: Arc<Bell>,
    line: Waker,
    calls: Waker,
}

impl<T, F, N> Carried<T, F, N>
where
    T: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Event>,
    N: FnMut(Request<RecvStream>, SendResponse<Bytes>) -> Option<F>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.bell.begin(cx.waker());
        for _ in 0..ROUNDS {
            let Some(rung) = self.bell.heard() else { return Poll::Pending };
            // Calls first: what they answer goes out with the line's turn.
            if rung & CALLS != 0 {
                self.go_on()?;
            }
            if rung & LINE != 0
                && let Poll::Ready(ended) = self.accept()
            {
                return Poll::Ready(ended);
            }
        }
        self.bell.pause();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Lets the calls go on that can.
    fn go_on(&mut self) -> Result<(), String> {
        let mut cx = Context::from_waker(&self.calls);
        while let Poll::Ready(Some(event)) = Pin::new(&mut self.running).poll_next(&mut cx) {
            match event {
                Event::Ended => {}
                Event::Stopping => {
                    self.connection.graceful_shutdown();
                    // Which says so to nobody.
                    self.line.wake_by_ref();
                }
                Event::Silent => {
                    self.connection.abrupt_shutdown(Reason::NO_ERROR);
                    // It is told if it can be told at once.
                    let told = self.connection.poll_closed(&mut Context::from_waker(&self.line));
                    drop(told);
                    return Err("the client fell silent".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Reads, writes, and begins the calls that came; ready where the connection has ended.
    fn accept(&mut self) -> Poll<Result<(), String>> {
        let mut began = false;
        let ended = loop {
            let mut cx = Context::from_waker(&self.line);
            let accepted = pin!(self.connection.accept()).poll(&mut cx);
            match accepted {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    if let Some(call) = (self.begin)(request, respond) {
                        self.running.push(Either::Right(call));
                        began = true;
                    }
                }
                Poll::Ready(ended) => break ended.transpose(),
                Poll::Pending => {
                    if began {
                        self.go_on()?;
                    }
                    return Poll::Pending;
                }
            }
        };
        Poll::Ready(ended.map(drop).map_err(|error| error.to_string()))
    }
}
