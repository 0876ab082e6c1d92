//! The worker thread of the store: runs jobs in order and batches adjacent writes.

use tokio::sync::{mpsc, oneshot};
use tool::Version;

use super::row_table::RowTable;
use super::statements::{StatementError, WriteRequest};

/// Maximum number of writes per transaction.
const MAX_BATCHED_WRITES: usize = 64;

/// Jobs of the worker thread.
pub(super) enum WorkerJob {
    Write(WriteRequest, ReplySender<Version>),
    Query(Box<dyn FnOnce(&mut RowTable) + Send>),
}

type ReplySender<T> = oneshot::Sender<Result<T, StatementError>>;
pub(super) type ReplyReceiver<T> = oneshot::Receiver<Result<T, StatementError>>;

/// Runs jobs until all senders are gone. Adjacent writes form one transaction.
pub(super) fn run_worker(table: &mut RowTable, queue: &mut mpsc::Receiver<WorkerJob>) {
    let mut next = queue.blocking_recv();
    while let Some(job) = next {
        next = None;
        match job {
            WorkerJob::Query(work) => work(table),
            WorkerJob::Write(first, reply) => {
                let (mut puts, mut replies) = (vec![first], vec![reply]);
                while puts.len() < MAX_BATCHED_WRITES && next.is_none() {
                    match queue.try_recv() {
                        Ok(WorkerJob::Write(put, reply)) => {
                            puts.push(put);
                            replies.push(reply);
                        }
                        Ok(other) => next = Some(other),
                        Err(_) => break,
                    }
                }
                write_and_reply(table, &puts, replies);
            }
        }
        next = next.or_else(|| queue.blocking_recv());
    }
}

/// Writes a batch. A reply that cannot be sent has no reader; the work is done all the same.
fn write_and_reply(
    table: &mut RowTable,
    puts: &[WriteRequest],
    replies: Vec<ReplySender<Version>>,
) {
    match table.write_batch(puts) {
        Ok(done) => {
            for (reply, done) in replies.into_iter().zip(done) {
                let _unheard = reply.send(done);
            }
        }
        Err(error) if puts.len() == 1 => {
            let reply = replies.into_iter().next();
            let _unheard = reply.map(|reply| reply.send(Err(error)));
        }
        // A write that is too large for the disk must not fail the others.
        Err(_) => {
            for (one, reply) in puts.iter().zip(replies) {
                write_and_reply(table, std::slice::from_ref(one), vec![reply]);
            }
        }
    }
}
