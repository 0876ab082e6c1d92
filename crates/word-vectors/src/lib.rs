//! Embeddings of texts by the word vectors in the binary, and the WordPiece tokenizer.
//!
//! Pure: no I/O, no task, no clock. Tool search and the built-in tools that compare texts use it;
//! language models share the tokenizer.

mod embedding_vector;
mod vector_table;
mod wordpiece_tokenizer;

pub use embedding_vector::{TextEmbedding, cosine_similarity, normalize_vector};
pub use vector_table::{dimensions, embed, is_known_word};
pub use wordpiece_tokenizer::WordPieceTokenizer;
