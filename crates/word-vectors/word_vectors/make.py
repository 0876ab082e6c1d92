#!/usr/bin/env python3
"""Makes `word_vectors.bin`: a vector for each word piece, so that texts can be compared without a model.

The mean of a text's vectors approximates the embedding that all-MiniLM-L6-v2 (the teacher) computes for the text.

1. Each word piece alone goes through the teacher, which gives a first vector.
2. Vectors are projected to the principal axes of the teacher's embeddings and weighted by inverse document frequency.
3. Ridge regression, solved by conjugate gradients, corrects all vectors together until the weighted means of the texts'
   pieces are as close as possible to the teacher's embeddings of the same texts.
4. Each row is rounded to bytes with a scale of its own.

usage: make.py DATA WORDNET OUT [--dimensions N]
  DATA     folder with models/ (teacher and tokenizer.json), tools/ and retrieval/ (names and descriptions of tools)
  WORDNET  folder with data.noun, data.verb, data.adj and data.adv of WordNet 3.1
  OUT      the file to write

Needs numpy, scipy, onnxruntime and tokenizers. README.md beside this file has the versions, sources and licences.
"""

import argparse
import gzip
import json
import random
import re
import struct
from pathlib import Path

import numpy as np
import onnxruntime
import scipy.sparse as sparse
from tokenizers import Tokenizer

SEED = 20261124
WORDNET_TEXTS, TOOL_TEXTS = 90_000, 50_000
RIDGE, STEPS, MAX_PIECES = 1.0, 40, 64
# Every 40th synset is left out of the fit, to measure with.
HELD_OUT = 40
PERMISSIVE = re.compile(r"\b(MIT|Apache|ISC|BSD|CC0|Public Domain)\b", re.IGNORECASE)
SPECIAL = re.compile(r"\[(unused\d+|PAD|CLS|SEP|MASK)\]")


def spaced(name):
    """An identifier as words."""
    return re.sub(r"[_\-./:]+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))


def synsets(folder):
    """(words, definition, examples) of each synset, in the order of the files."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text("utf-8").splitlines():
            if line.startswith("  "):
                continue
            entry, _, gloss = line.partition(" | ")
            fields = entry.split()
            words = [
                re.sub(r"\((a|p|ip)\)$", "", fields[4 + 2 * i]).replace("_", " ") for i in range(int(fields[3], 16))
            ]
            definition = gloss.split('; "')[0].strip()
            yield words, definition, [it.strip() for it in re.findall(r'"([^"]{8,300})"', gloss)]


def sample(texts, most):
    texts = sorted(set(texts))
    random.Random(SEED).shuffle(texts)
    return texts[:most]


def wordnet_texts(folder):
    """Definitions with and without their words, examples, and words alone."""
    texts = []
    for number, (words, definition, examples) in enumerate(synsets(folder)):
        if number % HELD_OUT == 0:
            continue
        texts.append(", ".join(words[:3]) + ": " + definition if number % 2 else definition)
        texts += examples
        if number % 3 == 0:
            texts.append(words[0])
    return sample(texts, WORDNET_TEXTS)


def tool_texts(data):
    """Names and descriptions under permissive licences, without any definition of a test set."""
    test_names = {
        json.loads(line)["name"] for file in sorted(data.glob("retrieval/tools/*.jsonl")) for line in file.open()
    }
    texts = set()
    files = sorted(data.glob("tools/*.jsonl.gz")) + sorted(data.glob("retrieval/distractors/*.gz"))
    for file in files:
        if file.name.startswith("fc_") or "livemcpbench" in file.name:
            continue
        for line in gzip.open(file, "rt"):
            tool = json.loads(line)
            licence = (tool.get("licence") or "CC0").removeprefix("MIT (registry); server licence:")
            if not PERMISSIVE.search(licence) or tool["name"] in test_names:
                continue
            if tool.get("name") and tool.get("description"):
                texts.add(spaced(tool["name"]) + ". " + tool["description"][:300])
    return sample(texts, TOOL_TEXTS)


class Teacher:
    def __init__(self, data):
        self.tokenizer = Tokenizer.from_file(str(data / "models/tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.cls, self.sep = (self.tokenizer.token_to_id(it) for it in ("[CLS]", "[SEP]"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        self.session = onnxruntime.InferenceSession(str(next((data / "models").glob("*.onnx"))), options)

    def pieces(self, texts):
        return [it.ids[:MAX_PIECES] for it in self.tokenizer.encode_batch(texts, add_special_tokens=False)]

    def embed(self, pieces):
        """Unit vectors of lists of pieces, batched by length so that little is padded."""
        out = np.zeros((len(pieces), 384), np.float32)
        order = sorted(range(len(pieces)), key=lambda i: len(pieces[i]))
        for at in range(0, len(order), 64):
            rows = order[at : at + 64]
            width = max(len(pieces[i]) for i in rows) + 2
            ids, mask = np.zeros((len(rows), width), np.int64), np.zeros((len(rows), width), np.float32)
            for row, i in enumerate(rows):
                whole = [self.cls, *pieces[i], self.sep]
                ids[row, : len(whole)], mask[row, : len(whole)] = whole, 1
            out[rows] = self.session.run(None, {"ids": ids, "mask": mask})[0]
        return out / np.linalg.norm(out, axis=1, keepdims=True)


def fit(teacher, texts, dimensions):
    size = teacher.tokenizer.get_vocab_size()
    alone = teacher.embed([[piece] for piece in range(size)])
    pieces = teacher.pieces(texts)
    pieces = [it for it in pieces if it]
    embedded = teacher.embed(pieces)
    frequency = np.zeros(size)
    for text in pieces:
        frequency[list(set(text))] += 1
    weight = np.clip(np.log((len(pieces) + 1) / (frequency + 0.5)), 0.05, None)
    counts = np.array([len(text) for text in pieces])
    columns = np.concatenate([np.array(text) for text in pieces])
    values = np.concatenate([weight[text] / np.linalg.norm(weight[text]) for text in pieces]).astype(np.float32)
    mean = sparse.csr_matrix((values, (np.repeat(np.arange(len(pieces)), counts), columns)), shape=(len(pieces), size))
    mean.sum_duplicates()
    centre = embedded.mean(0)
    sample = np.random.default_rng(SEED).choice(len(pieces), min(20_000, len(pieces)), replace=False)
    axes = np.linalg.svd(embedded[sample] - centre, full_matrices=False)[2][:dimensions].T
    target = (embedded - centre) @ axes
    start = (alone - centre) @ axes
    guess = mean @ start
    start *= (guess * target).sum() / (guess * guess).sum()
    # Conjugate gradients on (MᵀM + ridge) Δ = Mᵀ (target − M start), all axes at once.
    delta, residual = np.zeros_like(start), mean.T @ (target - mean @ start)
    direction, norm = residual.copy(), (residual * residual).sum(0)
    for _ in range(STEPS):
        image = mean.T @ (mean @ direction) + RIDGE * direction
        rate = norm / np.maximum((direction * image).sum(0), 1e-20)
        delta += rate * direction
        residual -= rate * image
        next_norm = (residual * residual).sum(0)
        direction = residual + next_norm / np.maximum(norm, 1e-20) * direction
        norm = next_norm
    error = ((mean @ (start + delta) - target) ** 2).mean() / (target**2).mean()
    print(f"{len(pieces)} texts, {dimensions} dimensions, relative squared error {error:.4f}")
    return ((start + delta) * weight[:, None]).astype(np.float32)


def write(out, tokenizer, vectors):
    """Little endian: magic, rows, dimensions, bytes of names; row + 1 offsets of names; row scales; names, sorted; rows."""
    rows = sorted(
        (piece.encode(), number) for piece, number in tokenizer.get_vocab().items() if not SPECIAL.fullmatch(piece)
    )
    names = b"".join(name for name, _ in rows)
    offsets = np.concatenate([[0], np.cumsum([len(name) for name, _ in rows])]).astype("<u4")
    vectors = vectors[[number for _, number in rows]]
    scale = (np.maximum(np.abs(vectors).max(1), 1e-9) / 127).astype("<f4")
    quantised = np.round(vectors / scale[:, None]).astype(np.int8)
    header = b"TKWV" + struct.pack("<III", len(rows), vectors.shape[1], len(names))
    out.write_bytes(header + offsets.tobytes() + scale.tobytes() + names + quantised.tobytes())
    print(f"{out}: {len(rows)} word pieces, {out.stat().st_size} bytes")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("data", type=Path)
    arguments.add_argument("wordnet", type=Path)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--dimensions", type=int, default=192)
    arguments.add_argument("--texts", choices=["both", "wordnet", "tools"], default="both")
    given = arguments.parse_args()
    teacher = Teacher(given.data)
    texts = []
    if given.texts != "tools":
        texts += wordnet_texts(given.wordnet)
    if given.texts != "wordnet":
        texts += tool_texts(given.data)
    write(given.out, teacher.tokenizer, fit(teacher, texts, given.dimensions))


if __name__ == "__main__":
    main()
