//! Sentence-embedding model in ONNX format, and the names of its inputs and outputs.
//!
//! Parses data of unknown origin, so it runs in the worker of
//! [`run_model_worker`](crate::run_model_worker) only.

use rten::{DataType, Model, NodeId, Value, ValueType};
use tool::display_text::truncate_and_escape_debug;
use word_vectors::{TextEmbedding, WordPieceTokenizer, normalize_vector};

/// Maximum dimensions of a vector.
pub(crate) const MOST_DIMENSIONS: usize = 4_096;
/// Names of the input for token ids, in public exports and in Toolkeep's own.
const IDS: &[&str] = &["input_ids", "ids"];
/// Names of the input for the attention mask.
const MASKS: &[&str] = &["attention_mask", "mask"];
/// Names of the input for token types, which distinguish two texts; all tokens have the first type.
const TYPES: &[&str] = &["token_type_ids"];
/// Outputs in order of preference, and whether each has a vector per token, which are averaged.
const OUTPUTS: &[(&str, bool)] = &[
    ("sentence_embedding", false),
    ("emb", false),
    ("last_hidden_state", true),
    ("token_embeddings", true),
    ("pooler_output", false),
];

/// Values that an input is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputFill {
    Ids,
    Ones,
    Zeros,
}

/// Input node, its values, and whether it takes floats instead of integers.
type GraphInput = (NodeId, InputFill, bool);

/// Inputs and output of a model's graph.
struct ModelGraph {
    inputs: Vec<GraphInput>,
    output: NodeId,
    has_tokens: bool,
}

impl ModelGraph {
    /// Finds the inputs and the output by their names.
    ///
    /// # Errors
    /// Names the tensors of the file and the required ones.
    fn of(model: &Model) -> Result<Self, String> {
        let info = |id: NodeId| model.node_info(id);
        let name = |id: NodeId| info(id).and_then(|it| it.name()).unwrap_or_default();
        let is_float =
            |id| info(id).and_then(|it| it.dtype()) == Some(ValueType::Tensor(DataType::Float));
        let kinds = [(IDS, InputFill::Ids), (MASKS, InputFill::Ones), (TYPES, InputFill::Zeros)];
        let known = |id: NodeId| {
            let kind = kinds.iter().find(|(names, _)| names.contains(&name(id)));
            kind.map(|(_, fill)| (id, *fill, is_float(id)))
        };
        let inputs: Option<Vec<GraphInput>> =
            model.input_ids().iter().map(|id| known(*id)).collect();
        let inputs = inputs.filter(|all| all.iter().any(|(_, fill, _)| *fill == InputFill::Ids));
        let found = OUTPUTS.iter().find_map(|(wanted, has_tokens)| {
            let id = model.output_ids().iter().find(|id| name(**id) == *wanted)?;
            Some((*id, *has_tokens))
        });
        match (inputs, found) {
            (Some(inputs), Some((output, has_tokens))) => Ok(Self { inputs, output, has_tokens }),
            _ => Err(misfit_message(
                &model.input_ids().iter().map(|id| name(*id)).collect::<Vec<_>>(),
                &model.output_ids().iter().map(|id| name(*id)).collect::<Vec<_>>(),
            )),
        }
    }
}

/// Error message that names the inputs and outputs of the file and the required ones.
fn misfit_message(inputs: &[&str], outputs: &[&str]) -> String {
    let shown = |names: &[&str]| {
        let few = names.iter().take(8);
        let few: Vec<String> =
            few.map(|name| format!("`{}`", truncate_and_escape_debug(name, 64))).collect();
        let more = names.len().saturating_sub(few.len());
        match (few.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (false, 0) => few.join(", "),
            (false, more) => format!("{} and {more} more", few.join(", ")),
        }
    };
    let usable: Vec<_> = OUTPUTS.iter().map(|(name, _)| format!("`{name}`")).collect();
    format!(
        "its inputs are {} and its outputs are {}; a sentence model must have the input \
         `input_ids` (or `ids`), no others than `attention_mask` (or `mask`) and `token_type_ids`, \
         and one of the outputs {}",
        shown(inputs),
        shown(outputs),
        usable.join(", "),
    )
}

/// Sentence-embedding model in memory, with its tokenizer.
pub struct SentenceModel {
    model: Model,
    tokenizer: WordPieceTokenizer,
    graph: ModelGraph,
    dimensions: usize,
}

impl std::fmt::Debug for SentenceModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SentenceModel").field("tokenizer", &self.tokenizer).finish_non_exhaustive()
    }
}

impl SentenceModel {
    /// Parses `tokenizer.json` and the weights, and computes a first vector. Must be called in a
    /// worker: both are untrusted.
    ///
    /// # Errors
    /// Describes the fault of the files.
    pub fn parse_model(tokenizer: &[u8], weights: Vec<u8>) -> Result<Self, String> {
        Self::load_weights(WordPieceTokenizer::parse_json(tokenizer)?, weights)
    }

    /// Parses the weights that belong to `tokenizer`.
    ///
    /// # Errors
    /// Describes the fault of the file.
    pub(crate) fn load_weights(
        tokenizer: WordPieceTokenizer,
        weights: Vec<u8>,
    ) -> Result<Self, String> {
        // Loaded from bytes: a model that is loaded by path may reference other files.
        let model = Model::load(weights).map_err(|error| error.to_string())?;
        let graph = ModelGraph::of(&model)?;
        let mut loaded = Self { model, tokenizer, graph, dimensions: 0 };
        // The last piece reveals a vocabulary that is larger than the weights.
        loaded.dimensions = loaded.embed_tokens(&[loaded.tokenizer.max_token_id()])?.len();
        Ok(loaded)
    }

    /// Computes the embedding of a text, a vector of length 1.
    ///
    /// # Errors
    /// Fails if the model fails.
    pub fn embed_text(&self, text: &str) -> Result<Vec<f32>, String> {
        self.embed_tokens(&self.tokenizer.token_ids(text))
    }

    /// Returns the dimensions of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns the token ids of a text, as the model receives them.
    pub fn tokenize_text(&self, text: &str) -> Vec<i32> {
        self.tokenizer.token_ids(text)
    }

    fn embed_tokens(&self, numbers: &[i32]) -> Result<TextEmbedding, String> {
        let told = |error: &dyn std::fmt::Display| format!("the model failed: {error}");
        let inputs: Result<Vec<_>, String> = self
            .graph
            .inputs
            .iter()
            .map(|input| Ok((input.0, input_value(*input, numbers)?.into())))
            .collect();
        let made = self.model.run(inputs?, &[self.graph.output], None);
        let made = made.map_err(|error| told(&error))?.into_iter().next();
        let vector = made.and_then(|value| self.graph.pool_tokens(value));
        let vector = vector.ok_or_else(|| told(&"its output has an unexpected shape"))?;
        let fits = vector.len() <= MOST_DIMENSIONS
            && (self.dimensions == 0 || self.dimensions == vector.len());
        let unfit = || told(&format!("it returns no vector of at most {MOST_DIMENSIONS} numbers"));
        normalize_vector(vector).filter(|_| fits).ok_or_else(unfit)
    }
}

/// Creates the value of an input for one text, without padding.
fn input_value((_, fill, is_float): GraphInput, numbers: &[i32]) -> Result<Value, String> {
    let shape = [1, numbers.len()];
    let whole = match fill {
        InputFill::Ids => numbers.to_vec(),
        InputFill::Ones => vec![1; numbers.len()],
        InputFill::Zeros => vec![0; numbers.len()],
    };
    let told = |error: &dyn std::fmt::Display| format!("the model failed: {error}");
    if is_float {
        #[expect(clippy::cast_precision_loss, reason = "ids are below 2^24")]
        let floats = whole.into_iter().map(|number| number as f32).collect::<Vec<_>>();
        return Value::from_shape(&shape, floats).map_err(|error| told(&error));
    }
    Value::from_shape(&shape, whole).map_err(|error| told(&error))
}

impl ModelGraph {
    /// Reduces the output to the vector of the single text.
    fn pool_tokens(&self, value: Value) -> Option<Vec<f32>> {
        if !self.has_tokens {
            let ([texts, _], vector) = value.into_shape_vec::<f32, 2>().ok()?;
            return (texts == 1).then_some(vector);
        }
        let ([texts, tokens, width], all) = value.into_shape_vec::<f32, 3>().ok()?;
        if texts != 1 || tokens == 0 || width == 0 {
            return None;
        }
        let mut sum = vec![0.0_f32; width];
        for token in all.chunks_exact(width) {
            for (sum, part) in sum.iter_mut().zip(token) {
                *sum += part;
            }
        }
        // Sum and mean have the same direction.
        Some(sum)
    }
}
