//! Model of eight words as an ONNX file, encoded by hand, with the inputs and outputs that a test
//! needs.

use std::path::Path;

const FLOAT: u64 = 1;
const INT64: u64 = 7;
/// Dimensions of a vector.
pub(crate) const WIDTH: usize = 4;
/// Word pieces with their vectors; the id of a piece is its index.
const PIECES: [(&str, [f32; WIDTH]); 12] = [
    ("[PAD]", [0.0; WIDTH]),
    ("[UNK]", [0.0; WIDTH]),
    ("[CLS]", [0.0, 0.0, 0.01, 0.0]),
    ("[SEP]", [0.0, 0.0, 0.01, 0.0]),
    ("boom", [0.0, 0.0, 0.01, 0.0]),
    ("slow", [0.0, 0.0, 0.01, 0.0]),
    ("some", [0.0, 0.0, 0.01, 0.0]),
    ("cat", [1.0, 0.1, 0.0, 0.0]),
    ("kitten", [0.9, 0.2, 0.0, 0.0]),
    ("shares", [0.0, 1.0, 0.0, 0.5]),
    ("fell", [0.0, 0.5, 0.0, 1.0]),
    ("a", [0.0, 0.0, 0.01, 0.0]),
];

/// Inputs, output and costs of a test model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) ids: &'static str,
    /// Name, and whether it takes floats.
    pub(crate) mask: Option<(&'static str, bool)>,
    pub(crate) types: Option<&'static str>,
    pub(crate) output: &'static str,
    /// Whether the graph computes the mean itself.
    pub(crate) is_pooled: bool,
    pub(crate) costs: Costs,
}

/// Additional cost of computing a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Costs {
    Nothing,
    /// `boom` exceeds the available memory, `slow` takes seconds, and `some` takes milliseconds.
    ByWord,
    /// The last piece, computed when the model is loaded, exceeds the available memory.
    AtLoad,
}

impl Costs {
    /// Numbers that are computed with for a piece.
    fn of(self, piece: usize) -> i64 {
        let (name, _) = PIECES[piece];
        match (self, name) {
            (Self::ByWord, "boom") => i64::from(i32::MAX),
            (Self::ByWord, "slow") => 8_000_000,
            (Self::ByWord, "some") => 10_000,
            (Self::AtLoad, _) if piece + 1 == PIECES.len() => i64::from(i32::MAX),
            _ => 1,
        }
    }
}

/// Operations on the numbers that a piece costs.
const STEPS: usize = 400;

impl Shape {
    /// Shape of public BERT exports.
    pub(crate) const PUBLIC: Self = Self {
        ids: "input_ids",
        mask: Some(("attention_mask", false)),
        types: Some("token_type_ids"),
        output: "last_hidden_state",
        is_pooled: false,
        costs: Costs::Nothing,
    };
    /// Public shape with words that cost something.
    pub(crate) const COSTLY: Self = Self { costs: Costs::ByWord, ..Self::PUBLIC };
}

/// Writes `model.onnx` and `tokenizer.json` into `folder`.
pub(crate) fn write(folder: &Path, shape: Shape) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("model.onnx"), weights(shape)).unwrap();
    std::fs::write(folder.join("tokenizer.json"), tokenizer()).unwrap();
}

pub(crate) fn tokenizer() -> Vec<u8> {
    let vocab: serde_json::Map<String, serde_json::Value> = PIECES
        .iter()
        .enumerate()
        .map(|(at, (piece, _))| ((*piece).to_owned(), at.into()))
        .collect();
    serde_json::json!({
        "normalizer": { "type": "BertNormalizer", "lowercase": true, "strip_accents": null },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab,
        },
    })
    .to_string()
    .into_bytes()
}

/// A `ModelProto` of ONNX, opset 17.
pub(crate) fn weights(shape: Shape) -> Vec<u8> {
    let mut graph = Vec::new();
    let table: Vec<f32> = PIECES.iter().flat_map(|(_, vector)| *vector).collect();
    block(&mut graph, 5, &floats("table", &[PIECES.len(), WIDTH], &table));
    block(&mut graph, 1, &node("Gather", &["table", shape.ids], "words", &[]));
    block(&mut graph, 11, &value(shape.ids, INT64, &["batch", "tokens"]));
    let mut last = "words";
    if let Some(types) = shape.types {
        // The second token type would invert every vector.
        block(
            &mut graph,
            5,
            &floats("kinds", &[2, WIDTH], &[0.0, 0.0, 0.0, 0.0, -9.0, -9.0, -9.0, -9.0]),
        );
        block(&mut graph, 1, &node("Gather", &["kinds", types], "kind", &[]));
        block(&mut graph, 1, &node("Add", &[last, "kind"], "typed", &[]));
        block(&mut graph, 11, &value(types, INT64, &["batch", "tokens"]));
        last = "typed";
    }
    if let Some((mask, is_float)) = shape.mask {
        let kind = if is_float { FLOAT } else { INT64 };
        block(&mut graph, 11, &value(mask, kind, &["batch", "tokens"]));
        block(&mut graph, 1, &node("Cast", &[mask], "ones", &[attribute("to", FLOAT)]));
        block(&mut graph, 5, &integers("last", &[2]));
        block(&mut graph, 1, &node("Unsqueeze", &["ones", "last"], "column", &[]));
        block(&mut graph, 1, &node("Mul", &[last, "column"], "masked", &[]));
        last = "masked";
    }
    if shape.costs != Costs::Nothing {
        last = costly(&mut graph, shape, last);
    }
    if shape.is_pooled {
        let attributes = [list("axes", &[1]), attribute("keepdims", 0)];
        block(&mut graph, 1, &node("ReduceMean", &[last], shape.output, &attributes));
        block(&mut graph, 12, &value(shape.output, FLOAT, &["batch", "width"]));
    } else {
        block(&mut graph, 1, &node("Identity", &[last], shape.output, &[]));
        block(&mut graph, 12, &value(shape.output, FLOAT, &["batch", "tokens", "width"]));
    }
    block(&mut graph, 2, b"small");
    let mut model = Vec::new();
    number(&mut model, 1, 8);
    let mut opset = Vec::new();
    number(&mut opset, 2, 17);
    block(&mut model, 8, &opset);
    block(&mut model, 7, &graph);
    model
}

/// Adds zero to `last`, computed from as many numbers as the pieces of the text cost.
fn costly(graph: &mut Vec<u8>, shape: Shape, last: &str) -> &'static str {
    let sizes: Vec<i64> = (0..PIECES.len()).map(|piece| shape.costs.of(piece)).collect();
    block(graph, 5, &integers("sizes", &sizes));
    block(graph, 1, &node("Gather", &["sizes", shape.ids], "each", &[]));
    let rows = [list("axes", &[0]), attribute("keepdims", 0)];
    // One axis per piece of the text.
    block(graph, 1, &node("ReduceMax", &["each"], "extents", &rows));
    block(graph, 1, &node("ConstantOfShape", &["extents"], "zeros0", &[]));
    for step in 0..STEPS {
        let (from, to) = (format!("zeros{step}"), format!("zeros{}", step + 1));
        block(graph, 1, &node("Tanh", &[&from], &to, &[]));
    }
    let all = [attribute("keepdims", 0)];
    block(graph, 1, &node("ReduceMax", &[&format!("zeros{STEPS}")], "zero", &all));
    block(graph, 1, &node("Add", &[last, "zero"], "costly", &[]));
    "costly"
}

fn node(kind: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for input in inputs {
        block(&mut out, 1, input.as_bytes());
    }
    block(&mut out, 2, output.as_bytes());
    block(&mut out, 3, format!("make {output}").as_bytes());
    block(&mut out, 4, kind.as_bytes());
    for attribute in attributes {
        block(&mut out, 5, attribute);
    }
    out
}

/// An attribute that is an integer.
fn attribute(name: &str, whole: u64) -> Vec<u8> {
    let mut out = Vec::new();
    block(&mut out, 1, name.as_bytes());
    number(&mut out, 3, whole);
    number(&mut out, 20, 2);
    out
}

/// An attribute that is a list of integers.
fn list(name: &str, all: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    block(&mut out, 1, name.as_bytes());
    for whole in all {
        number(&mut out, 8, *whole);
    }
    number(&mut out, 20, 7);
    out
}

fn floats(name: &str, shape: &[usize], all: &[f32]) -> Vec<u8> {
    tensor(name, shape, FLOAT, &all.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>())
}

fn integers(name: &str, all: &[i64]) -> Vec<u8> {
    let bytes: Vec<u8> = all.iter().flat_map(|it| it.to_le_bytes()).collect();
    tensor(name, &[all.len()], INT64, &bytes)
}

fn tensor(name: &str, shape: &[usize], kind: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for size in shape {
        number(&mut out, 1, *size as u64);
    }
    number(&mut out, 2, kind);
    block(&mut out, 8, name.as_bytes());
    block(&mut out, 9, bytes);
    out
}

fn value(name: &str, kind: u64, shape: &[&str]) -> Vec<u8> {
    let mut sizes = Vec::new();
    for size in shape {
        let mut one = Vec::new();
        block(&mut one, 2, size.as_bytes());
        block(&mut sizes, 1, &one);
    }
    let mut tensor = Vec::new();
    number(&mut tensor, 1, kind);
    block(&mut tensor, 2, &sizes);
    let mut of_type = Vec::new();
    block(&mut of_type, 1, &tensor);
    let mut out = Vec::new();
    block(&mut out, 1, name.as_bytes());
    block(&mut out, 2, &of_type);
    out
}

fn varint(out: &mut Vec<u8>, mut whole: u64) {
    while whole >= 0x80 {
        out.push(u8::try_from(whole & 0x7f).unwrap() | 0x80);
        whole >>= 7;
    }
    out.push(u8::try_from(whole).unwrap());
}

fn number(out: &mut Vec<u8>, field: u64, whole: u64) {
    varint(out, field << 3);
    varint(out, whole);
}

fn block(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, (field << 3) | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
