//! Vectors of tools and queries by the installed sentence model: computed in the background, shared
//! by all views, and kept in the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use catalog::{Catalog, MergedSource};
use search::{MAX_QUERIES, QuantizedVector, QueryVectors, VectorTable, query_texts, sentence_text};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tool::store::WritePrecondition;
use tool::{BoxFuture, Store, StoreError, Version};

use super::tool_analysis::tool_text;

/// Maximum number of tools with a vector; others are ranked without, as if the model knew nothing of them.
const MAX_VECTORS: usize = 250_000;
/// Number of texts in one request to the model: a query waits for at most one such request.
const BATCH_TEXTS: usize = 8;
/// Number of vectors in one row of the store.
const ROW_VECTORS: usize = 64;
/// Number of rows that are read at once.
const ROWS_PER_READ: usize = 100;
/// Maximum number of texts of one search; the clauses beyond it are not embedded.
const MAX_TEXTS: usize = 2 * MAX_QUERIES;
/// Time after which a search goes on without the model.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two tables of a view while vectors are computed.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(10);

/// Number of bytes of the digest of a model's label in the keys of its rows.
const MODEL_DIGEST_BYTES: usize = 8;

/// SHA-256 of the text that a vector is of.
pub(super) type TextDigest = [u8; 32];

/// The purpose of a request to the model. Each has its own turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingPurpose {
    /// A search waits for it.
    Query,
    /// The vectors of tools, in the background.
    Tools,
}

/// A sentence model, as tool search uses it.
pub trait SentenceModel: std::fmt::Debug + Send + Sync {
    /// Returns its name and dimensions. Vectors of models with the same label are compared.
    fn label(&self) -> String;

    /// Computes the vector of each text.
    ///
    /// # Errors
    /// Describes why there are none.
    fn embed_texts<'a>(
        &'a self,
        purpose: EmbeddingPurpose,
        texts: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, String>>;
}

/// Vectors of tools by one sentence model.
#[derive(Debug)]
pub struct SentenceVectors {
    model: Arc<dyn SentenceModel>,
    store: Arc<dyn Store>,
    known: Mutex<HashMap<TextDigest, QuantizedVector>>,
    /// Grows when views should make their tables again.
    generation: AtomicU64,
    is_failing: AtomicBool,
    /// Whether anything was searched: until then the model is not loaded.
    is_wanted: watch::Sender<bool>,
    /// The sources whose tools have vectors.
    embedded: Mutex<Vec<Option<Arc<MergedSource>>>>,
}

/// Returns the digest of the text of a tool, by which its vector is found.
pub(super) fn digest_of(text: &str) -> TextDigest {
    let hash = digest(&SHA256, text.as_bytes());
    hash.as_ref().try_into().unwrap_or_default()
}

impl SentenceVectors {
    /// Creates the vectors of a model. [`load_stored`](Self::load_stored) reads the stored ones.
    pub fn new(model: Arc<dyn SentenceModel>, store: Arc<dyn Store>) -> Self {
        Self {
            model,
            store,
            known: Mutex::default(),
            generation: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            is_wanted: watch::Sender::new(false),
            embedded: Mutex::default(),
        }
    }

    /// Returns the name and the dimensions of the model.
    pub fn model_label(&self) -> String {
        self.model.label()
    }

    /// Waits for the first search. Until then nothing needs the model, and it is not loaded.
    pub async fn wait_until_wanted(&self) {
        drop(self.is_wanted.subscribe().wait_for(|is_wanted| *is_wanted).await);
    }

    fn lock_known(&self) -> MutexGuard<'_, HashMap<TextDigest, QuantizedVector>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the prefix of the rows of this model.
    fn row_prefix(&self) -> String {
        let model = digest_of(&self.model.label());
        let (model, _) = model.split_at(MODEL_DIGEST_BYTES);
        format!("tool-vectors/{}.", data_encoding::HEXLOWER.encode(model))
    }

    /// Reads the stored vectors. If there are more than may be kept, all are removed, because most are
    /// of tools that do not exist any more.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read; tools are then embedded again.
    pub async fn load_stored(&self) -> Result<(), StoreError> {
        let prefix = self.row_prefix();
        let (mut read, mut keys) = (HashMap::new(), Vec::new());
        loop {
            let after = keys.last().map(|(key, _): &(String, Version)| key.as_str());
            let rows = self.store.scan_prefix(&prefix, after, ROWS_PER_READ).await?;
            if rows.is_empty() {
                break;
            }
            read.extend(rows.iter().flat_map(|row| read_row(&row.bytes)));
            keys.extend(rows.into_iter().map(|row| (row.key, row.version)));
        }
        if read.len() >= MAX_VECTORS {
            for (key, version) in keys {
                self.store.put_value(&key, WritePrecondition::Version(version), None).await?;
            }
            return Ok(());
        }
        if !read.is_empty() {
            self.lock_known().extend(read);
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Computes the vectors of all tools of a catalog that have none, and stores them. Sources that did
    /// not change are not visited.
    ///
    /// # Errors
    /// The model's error; what was computed before is kept.
    pub async fn embed_catalog(&self, catalog: &Catalog) -> Result<(), String> {
        let missing = self.missing_texts(catalog);
        let mut published = Instant::now();
        for row in missing.chunks(ROW_VECTORS) {
            let mut computed = Vec::with_capacity(row.len());
            for batch in row.chunks(BATCH_TEXTS) {
                let (digests, texts): (Vec<_>, Vec<_>) = batch.iter().cloned().unzip();
                let vectors = self.model.embed_texts(EmbeddingPurpose::Tools, &texts).await?;
                let vectors = vectors.iter().map(|it| QuantizedVector::from_numbers(it));
                let new = digests.into_iter().zip(vectors).filter_map(|(at, it)| Some((at, it?)));
                computed.extend(new);
            }
            self.store_row(&computed).await;
            self.lock_known().extend(computed);
            if published.elapsed() > PUBLISH_INTERVAL {
                published = Instant::now();
                self.generation.fetch_add(1, Ordering::Relaxed);
            }
        }
        if !missing.is_empty() {
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        let mut embedded = self.embedded.lock().unwrap_or_else(PoisonError::into_inner);
        *embedded = catalog.merged_sources().to_vec();
        Ok(())
    }

    /// Returns the texts of tools without a vector, each once.
    fn missing_texts(&self, catalog: &Catalog) -> Vec<(TextDigest, String)> {
        let embedded = self.embedded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_embedded = |slot: usize, source: &Arc<MergedSource>| {
            let before = embedded.get(slot).and_then(Option::as_ref);
            before.is_some_and(|before| Arc::ptr_eq(before, source))
        };
        let sources = catalog.merged_sources().iter().enumerate();
        let sources = sources.filter_map(|(slot, source)| Some((slot, source.as_ref()?)));
        let changed = sources.filter(|(slot, source)| !is_embedded(*slot, source));
        let tools = changed.flat_map(|(_, source)| source.tools());
        let texts = tools.map(|entry| tool_text(entry, None, sentence_text));
        let known = self.lock_known();
        let room = MAX_VECTORS.saturating_sub(known.len());
        let mut seen = std::collections::HashSet::new();
        let missing = texts.map(|text| (digest_of(&text), text));
        let missing = missing.filter(|(at, _)| !known.contains_key(at) && seen.insert(*at));
        missing.take(room).collect()
    }

    /// Stores computed vectors in one row. Without it they are computed again after the next start.
    async fn store_row(&self, vectors: &[(TextDigest, QuantizedVector)]) {
        let Some((first, _)) = vectors.first() else { return };
        let key = self.row_prefix() + &data_encoding::HEXLOWER.encode(first);
        let stored =
            self.store.put_value(&key, WritePrecondition::Absent, Some(write_row(vectors)));
        match stored.await {
            // Another server of this store computed the same.
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => tracing::warn!(%error, "cannot store the vectors of tools"),
        }
    }

    /// Returns the vectors of tools in their order.
    pub(super) fn table_of(&self, digests: &[TextDigest]) -> VectorTable {
        let known = self.lock_known();
        let dimensions = known.values().next().map_or(0, QuantizedVector::dimensions);
        let mut table = VectorTable::with_capacity(dimensions, digests.len());
        for digest in digests {
            table.push(known.get(digest));
        }
        table
    }

    /// Returns a number that grows with the vectors.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Computes the vectors of queries; `None` where the model has none in time, so that the search goes
    /// on without it.
    pub(super) async fn embed_queries(
        &self,
        queries: &[String],
    ) -> Option<Vec<Option<QueryVectors>>> {
        self.is_wanted.send_if_modified(|is_wanted| !std::mem::replace(is_wanted, true));
        if self.generation() == 0 {
            return None;
        }
        let mut texts: Vec<Vec<String>> = queries.iter().map(|it| query_texts(it)).collect();
        let mut room = MAX_TEXTS.saturating_sub(texts.len());
        for of_query in &mut texts {
            let clauses = (of_query.len() - 1).min(room);
            of_query.truncate(1 + clauses);
            room -= clauses;
        }
        let all = texts.concat();
        let computed =
            timeout(QUERY_TIMEOUT, self.model.embed_texts(EmbeddingPurpose::Query, &all));
        let computed = computed.await.unwrap_or_else(|_| Err("it takes too long".to_owned()));
        let was_failing = self.is_failing.swap(computed.is_err(), Ordering::Relaxed);
        let vectors = match computed {
            Ok(vectors) => vectors,
            Err(error) => {
                if !was_failing {
                    tracing::warn!(error, "tool search goes on without the sentence model");
                }
                return None;
            }
        };
        let mut vectors = vectors.iter().map(|it| QuantizedVector::from_numbers(it));
        let of_query = |texts: &Vec<String>| {
            let own: Option<Vec<_>> = vectors.by_ref().take(texts.len()).collect();
            QueryVectors::from_texts(own?)
        };
        Some(texts.iter().map(of_query).collect())
    }
}

/// Writes a row: for each vector its digest, its length and its bytes.
fn write_row(vectors: &[(TextDigest, QuantizedVector)]) -> Bytes {
    let mut row = Vec::new();
    for (digest, vector) in vectors {
        let bytes = vector.to_bytes();
        row.extend_from_slice(digest);
        row.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or_default().to_be_bytes());
        row.extend_from_slice(&bytes);
    }
    row.into()
}

/// Reads a row up to its first fault.
fn read_row(mut row: &[u8]) -> Vec<(TextDigest, QuantizedVector)> {
    let mut vectors = Vec::new();
    while let Some((digest, rest)) = row.split_first_chunk()
        && let Some((length, rest)) = rest.split_first_chunk()
        && let Some((vector, rest)) = rest
            .split_at_checked(usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX))
        && let Some(vector) = QuantizedVector::from_bytes(vector)
    {
        vectors.push((*digest, vector));
        row = rest;
    }
    vectors
}
