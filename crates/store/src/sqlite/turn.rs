//! The worker thread of the store: runs jobs in order and batches adjacent writes.

use tokio::sync::{mpsc, oneshot};
use tool::Version;

use super::sql::{Error, Put};
use super::table::Table;

/// Maximum number of writes per transaction.
const TOGETHER: usize = 64;

/// Jobs of the worker thread.
pub(super) enum Job {
    Put(Put, Reply<Version>),
    Other(Box<dyn FnOnce(&mut Table) + Send>),
}

type Reply<T> = oneshot::Sender<Result<T, Error>>;
pub(super) type Answer<T> = oneshot::Receiver<Result<T, Error>>;

/// Runs jobs until all senders are gone. Adjacent writes form one transaction.
pub(super) fn work(table: &mut Table, queue: &mut mpsc::Receiver<Job>) {
    let mut next = queue.blocking_recv();
    while let Some(job) = next {
        next = None;
        match job {
            Job::Other(work) => work(table),
            Job::Put(first, reply) => {
                let (mut puts, mut replies) = (vec![first], vec![reply]);
                while puts.len() < TOGETHER && next.is_none() {
                    match queue.try_recv() {
                        Ok(Job::Put(put, reply)) => {
                            puts.push(put);
                            replies.push(reply);
                        }
                        Ok(other) => next = Some(other),
                        Err(_) => break,
                    }
                }
                put(table, &puts, replies);
            }
        }
        next = next.or_else(|| queue.blocking_recv());
    }
}

/// Writes a batch. A reply that cannot be sent has no reader; the work is done all the same.
fn put(table: &mut Table, puts: &[Put], replies: Vec<Reply<Version>>) {
    match table.put_all(puts) {
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
                put(table, std::slice::from_ref(one), vec![reply]);
            }
        }
    }
}
