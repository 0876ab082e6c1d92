//! A sentence-embedding model in ONNX's form, and the names that its inputs and outputs may have.
//!
//! It parses data that a stranger may have written, so it runs in the worker of [`serve`](crate::serve) alone.

use rten::{DataType, Model, NodeId, Value, ValueType};

use crate::vector::{Vector, unit};
use crate::words::Words;

/// Numbers of a vector, at most.
pub(crate) const MOST_DIMENSIONS: usize = 4_096;
/// The names of the input that takes token ids, in public exports and in Toolkeep's own.
const IDS: &[&str] = &["input_ids", "ids"];
/// The same of the attention mask.
const MASKS: &[&str] = &["attention_mask", "mask"];
/// The same of what tells two texts apart: all are the first.
const TYPES: &[&str] = &["token_type_ids"];
/// Outputs that are used, the best first; and whether they have a vector for each token, whose mean is taken.
const OUTPUTS: &[(&str, bool)] = &[
    ("sentence_embedding", false),
    ("emb", false),
    ("last_hidden_state", true),
    ("token_embeddings", true),
    ("pooler_output", false),
];

/// What an input is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    Ids,
    Ones,
    Zeros,
}

/// An input, and whether it takes floats: all others take integers.
type Input = (NodeId, Fill, bool);

/// What goes into a model's graph, and what is read of it.
struct Graph {
    inputs: Vec<Input>,
    output: NodeId,
    has_tokens: bool,
}

impl Graph {
    /// Finds the inputs and the output by their names.
    ///
    /// # Errors
    /// What the file has, and what is needed.
    fn of(model: &Model) -> Result<Self, String> {
        let info = |id: NodeId| model.node_info(id);
        let name = |id: NodeId| info(id).and_then(|it| it.name()).unwrap_or_default();
        let is_float =
            |id| info(id).and_then(|it| it.dtype()) == Some(ValueType::Tensor(DataType::Float));
        let kinds = [(IDS, Fill::Ids), (MASKS, Fill::Ones), (TYPES, Fill::Zeros)];
        let known = |id: NodeId| {
            let kind = kinds.iter().find(|(names, _)| names.contains(&name(id)));
            kind.map(|(_, fill)| (id, *fill, is_float(id)))
        };
        let inputs: Option<Vec<Input>> = model.input_ids().iter().map(|id| known(*id)).collect();
        let inputs = inputs.filter(|all| all.iter().any(|(_, fill, _)| *fill == Fill::Ids));
        let found = OUTPUTS.iter().find_map(|(wanted, has_tokens)| {
            let id = model.output_ids().iter().find(|id| name(**id) == *wanted)?;
            Some((*id, *has_tokens))
        });
        match (inputs, found) {
            (Some(inputs), Some((output, has_tokens))) => Ok(Self { inputs, output, has_tokens }),
            _ => Err(misfit(
                &model.input_ids().iter().map(|id| name(*id)).collect::<Vec<_>>(),
                &model.output_ids().iter().map(|id| name(*id)).collect::<Vec<_>>(),
            )),
        }
    }
}

/// What a file has and what is needed of one.
fn misfit(inputs: &[&str], outputs: &[&str]) -> String {
    let shown = |names: &[&str]| {
        let few = names.iter().take(8);
        let few: Vec<String> = few
            .map(|name| {
                let short: String = name.chars().take(64).flat_map(char::escape_debug).collect();
                format!("`{short}`")
            })
            .collect();
        let more = names.len().saturating_sub(few.len());
        match (few.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (false, 0) => few.join(", "),
            (false, more) => format!("{} and {more} more", few.join(", ")),
        }
    };
    let usable: Vec<_> = OUTPUTS.iter().map(|(name, _)| format!("`{name}`")).collect();
    format!(
        "its inputs are {} and its outputs are {}; a model of sentences has the input `input_ids` (or `ids`), no others \
         than `attention_mask` (or `mask`) and `token_type_ids`, and one of the outputs {}",
        shown(inputs),
        shown(outputs),
        usable.join(", "),
    )
}

/// A model of sentences, ready.
pub struct Sentences {
    model: Model,
    words: Words,
    graph: Graph,
    dimensions: usize,
}

impl std::fmt::Debug for Sentences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sentences").field("words", &self.words).finish_non_exhaustive()
    }
}

impl Sentences {
    /// Parses `tokenizer.json` and the weights, and computes a first vector. To be called in a worker: both are
    /// untrusted.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub fn parse(tokenizer: &[u8], weights: Vec<u8>) -> Result<Self, String> {
        Self::load(Words::read(tokenizer)?, weights)
    }

    /// Parses the weights that belong to `words`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn load(words: Words, weights: Vec<u8>) -> Result<Self, String> {
        // From its bytes: a model that is loaded by its path may name other files to read.
        let model = Model::load(weights).map_err(|error| error.to_string())?;
        let graph = Graph::of(&model)?;
        let mut read = Self { model, words, graph, dimensions: 0 };
        // A vocabulary that is larger than the weights shows at its last piece.
        read.dimensions = read.of(&[read.words.largest()])?.len();
        Ok(read)
    }

    /// What a text means: a vector of length 1.
    ///
    /// # Errors
    /// Where the model fails.
    pub fn vector(&self, text: &str) -> Result<Vec<f32>, String> {
        self.of(&self.words.numbers(text))
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The numbers of a text's pieces, as the model is given them.
    pub fn numbers(&self, text: &str) -> Vec<i32> {
        self.words.numbers(text)
    }

    fn of(&self, numbers: &[i32]) -> Result<Vector, String> {
        let told = |error: &dyn std::fmt::Display| format!("the model failed: {error}");
        let inputs: Result<Vec<_>, String> = self
            .graph
            .inputs
            .iter()
            .map(|input| Ok((input.0, filled(*input, numbers)?.into())))
            .collect();
        let made = self.model.run(inputs?, &[self.graph.output], None);
        let made = made.map_err(|error| told(&error))?.into_iter().next();
        let vector = made.and_then(|value| self.graph.pooled(value));
        let vector =
            vector.ok_or_else(|| told(&"its output has another shape than its name says"))?;
        let fits = vector.len() <= MOST_DIMENSIONS
            && (self.dimensions == 0 || self.dimensions == vector.len());
        let unfit = || told(&format!("it answers no vector of at most {MOST_DIMENSIONS} numbers"));
        unit(vector).filter(|_| fits).ok_or_else(unfit)
    }
}

/// The value of an input for one text: nothing is padded.
fn filled((_, fill, is_float): Input, numbers: &[i32]) -> Result<Value, String> {
    let shape = [1, numbers.len()];
    let whole = match fill {
        Fill::Ids => numbers.to_vec(),
        Fill::Ones => vec![1; numbers.len()],
        Fill::Zeros => vec![0; numbers.len()],
    };
    let told = |error: &dyn std::fmt::Display| format!("the model failed: {error}");
    if is_float {
        #[expect(clippy::cast_precision_loss, reason = "ids are below 2^24")]
        let floats = whole.into_iter().map(|number| number as f32).collect::<Vec<_>>();
        return Value::from_shape(&shape, floats).map_err(|error| told(&error));
    }
    Value::from_shape(&shape, whole).map_err(|error| told(&error))
}

impl Graph {
    /// The vector of the one text that was given.
    fn pooled(&self, value: Value) -> Option<Vec<f32>> {
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
        // The mean and the sum have one direction.
        Some(sum)
    }
}
