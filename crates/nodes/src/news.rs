//! What servers that share a registry tell each other beside it: that a tool was written, that a node lives,
//! that a node is no longer where it was.
//!
//! A word is never the truth. One of a tool has its record read; one of a place only takes away what is
//! remembered; and none counts that was not signed with the key that stands beside the registry, by another
//! server, a short while ago.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use tokio::sync::mpsc;
use tool::node::{Beat, NodeFault};
use tool::store::{Bus, Expect, MOST_WORD};
use tool::{StoreError, Wall};

use crate::Registry;
use crate::keep::Keep;

/// Where words are told.
const CHANNEL: &str = "toolkeep:nodes";
/// The key beside the registry.
pub(crate) const KEY: &str = "news/key";
/// Words that wait to be told; more are dropped.
const WAITING: usize = 1_024;
/// How old, or how far ahead, a word may be: servers' clocks differ.
const AGE: Duration = Duration::from_mins(1);
/// Between two tries.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(1);

/// One word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// The record of a tool was written or removed.
    Written(String),
    /// A node says how it is.
    Beat(String, Beat),
    /// Whoever carries this label is no longer where he was.
    Moved(String),
}

#[derive(Debug, Serialize, Deserialize)]
struct Told {
    /// The server that tells it.
    by: String,
    at: Wall,
    word: Word,
}

/// Where words are put to be told; empty where nobody is told any.
#[derive(Debug, Clone, Default)]
pub struct Outbox(Arc<OnceLock<mpsc::Sender<Word>>>);

impl Outbox {
    /// Tells that whoever carries this label is no longer where he was. Never waits.
    pub fn tell_moved(&self, label: &str) {
        self.tell(|| Word::Moved(label.to_owned()));
    }

    /// Never waits.
    pub(crate) fn tell(&self, word: impl FnOnce() -> Word) {
        if let Some(sender) = self.0.get() {
            // Where many wait already this one is lost: it is news, and no record.
            drop(sender.try_send(word()));
        }
    }
}

/// The other servers.
pub(crate) struct News {
    bus: Arc<dyn Bus>,
    own: String,
    waiting: mpsc::Receiver<Word>,
}

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("News").field("own", &self.own).finish_non_exhaustive()
    }
}

impl News {
    /// Words that are put into `outbox` are told here; the first time alone.
    pub(crate) fn over(bus: Arc<dyn Bus>, outbox: &Outbox, own: String) -> Option<Self> {
        let (sender, waiting) = mpsc::channel(WAITING);
        outbox.0.set(sender).ok().map(|()| Self { bus, own, waiting })
    }
}

impl Registry {
    /// Tells the other servers what happens here, and hears them, for ever. Without [`Registry::share_news`]
    /// nothing is told or heard.
    pub async fn follow_news(&self) {
        let news = self.shared.news.lock().await.take();
        let Some(mut news) = news else { return std::future::pending().await };
        let key = loop {
            match key(self.shared.keep.as_ref()).await {
                Ok(key) => break key,
                // What is told meanwhile waits, or is lost.
                Err(_) => tokio::time::sleep(LAST).await,
            }
        };
        let seal = Seal(key);
        let (bus, own) = (Arc::clone(&news.bus), news.own.clone());
        let clock = Arc::clone(&self.shared.clock);
        let telling = async {
            while let Some(word) = news.waiting.recv().await {
                let told = Told { by: own.clone(), at: clock.wall(), word };
                // The bus rests by itself after a failure.
                drop(bus.tell(CHANNEL, seal.sealed(&told)).await);
            }
        };
        tokio::join!(telling, self.hear(bus.as_ref(), &seal, &own));
    }

    async fn hear(&self, bus: &dyn Bus, seal: &Seal, own: &str) {
        let mut wait = FIRST;
        loop {
            if let Err(error) = self.heard(bus, seal, own, &mut wait).await {
                tracing::debug!(%error, "other servers' news are not heard");
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LAST);
        }
    }

    async fn heard(
        &self,
        bus: &dyn Bus,
        seal: &Seal,
        own: &str,
        wait: &mut Duration,
    ) -> Result<(), StoreError> {
        let mut hearing = bus.hear(CHANNEL).await?;
        loop {
            let words = hearing.next().await?;
            *wait = FIRST;
            let mut left_out = 0_usize;
            for word in words {
                match seal.opened(&word, self.shared.clock.wall()) {
                    Some(told) if told.by != own => self.take_word(told.word).await,
                    Some(_) => {}
                    None => left_out += 1,
                }
            }
            if left_out > 0 {
                tracing::warn!(left_out, "words in Redis that no server of this registry signed");
            }
        }
    }

    async fn take_word(&self, word: Word) {
        match word {
            Word::Written(key) => {
                if crate::registry::is_news(&key) {
                    let read: Result<(), NodeFault> = self.shared.read_again(&key).await;
                    drop(read);
                }
            }
            Word::Beat(node, beat) => drop(self.shared.beaten(&node, beat)),
            Word::Moved(label) => {
                if let Some(locator) = self.shared.lines.locator.get() {
                    locator.moved(&label);
                }
            }
        }
    }
}

/// The key that all servers of a registry have, made by the first of them.
async fn key(keep: &dyn Keep) -> Result<Vec<u8>, StoreError> {
    for _ in 0..2 {
        if let Some(kept) = keep.get(KEY).await? {
            return Ok(kept.bytes.to_vec());
        }
        let random = || uuid::Uuid::new_v4().simple();
        let fresh = format!("\"{}{}\"", random(), random());
        match keep.put(KEY, Expect::Absent, Some(fresh.into())).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Unavailable("the key of news cannot be made".to_owned()))
}

/// Signs words: a MAC of 32 bytes, and what it is of.
struct Seal(Vec<u8>);

impl Seal {
    fn mac(&self, text: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(text);
        Some(mac)
    }

    fn sealed(&self, told: &Told) -> Bytes {
        let text = serde_json::to_vec(told).unwrap_or_default();
        let mac = self.mac(&text).map(|mac| mac.finalize().into_bytes().to_vec());
        let mut word = mac.unwrap_or_default();
        word.extend_from_slice(&text);
        word.into()
    }

    fn opened(&self, word: &Bytes, now: Wall) -> Option<Told> {
        let (mac, text) = word.split_at_checked(32).filter(|_| word.len() <= MOST_WORD)?;
        self.mac(text)?.verify_slice(mac).ok()?;
        let told: Told = serde_json::from_slice(text).ok()?;
        let apart = u128::from(now.0.abs_diff(told.at.0));
        (apart <= AGE.as_millis()).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tool::Wall;
    use tool::node::Beat;

    use super::{AGE, Seal, Told, Word};

    #[test]
    fn a_word_counts_only_as_it_was_signed_and_for_a_while() {
        let (seal, at) = (Seal(b"key".to_vec()), Wall(1_000_000));
        let word = Word::Beat("n1".to_owned(), Beat::Draining);
        let sealed = seal.sealed(&Told { by: "a".to_owned(), at, word: word.clone() });
        // The control: as it is it counts.
        assert_eq!(seal.opened(&sealed, at).unwrap().word, word);
        let age = u64::try_from(AGE.as_millis()).unwrap();
        assert!(seal.opened(&sealed, Wall(at.0 + age)).is_some());
        assert!(seal.opened(&sealed, Wall(at.0 + age + 1)).is_none(), "said again later");
        assert!(seal.opened(&sealed, Wall(at.0 - age - 1)).is_none());
        assert!(Seal(b"other".to_vec()).opened(&sealed, at).is_none());
        let text = String::from_utf8(sealed[32..].to_vec()).unwrap().replace("n1", "n2");
        let forged = [&sealed[..32], text.as_bytes()].concat();
        assert!(seal.opened(&forged.into(), at).is_none());
        for broken in [&b""[..], b"short", &sealed[..40]] {
            assert!(seal.opened(&Bytes::copy_from_slice(broken), at).is_none());
        }
    }
}
