"""Texts, and the vectors that onnxruntime makes of them with the same weights and Hugging Face's tokenizers.

vectors.py cases                   prints a JSON list of texts
vectors.py judge FOLDER < JSON     reads a list of [text, vector], prints the least likeness and more
"""

import json
import random
import sys
from pathlib import Path

import numpy as np

HARD = [
    "a", ".", "?!?!?!", "  spaces   and\ttabs\nand lines  ", "ÀÉÎÕÜ ñ ç Å ø ß", "naïve café résumé", "中文字符测试", "日本語のテキスト",
    "한국어 문장", "हिन्दी में लिखा", "עברית", "العربية", "emoji 😀 👩‍👩‍👧 🏳️‍🌈", "x" * 300, "word " * 600,
    "[CLS] [SEP] [MASK] tokens", "ﬁ ligature ½ Ⅷ ①", "e\u0301 combining \u200b zero \u00ad width \ufeff bom",
    "http://example.com/a?b=c&d=e#f", "def f(x): return x ** 2  # code", "İstanbul DŽ ΑΣ", "\u0000\ufffd null and replacement",
    "don't can't won't it's", "1,234.56 $99 50% #1 @home", "\U0001d54f\U0001d550 math 𝒜", "a\u3000b\u00a0c", "¿Qué? ¡Sí! «quoted» “too” …",
]


OUTPUTS = ["sentence_embedding", "emb", "last_hidden_state", "token_embeddings", "pooler_output"]


def filled(it, ids):
    """The value of an input for one text that is not padded."""
    kind = np.float32 if it.type == "tensor(float)" else np.int64
    if it.name in ("input_ids", "ids"):
        return ids.astype(kind)
    return np.zeros(ids.shape, kind) if it.name == "token_type_ids" else np.ones(ids.shape, kind)


def texts():
    chance = random.Random(7)
    words = (
        "time person year way day thing man world life hand part child eye woman place work week case point government company "
        "number group problem fact be have do say get make go know take see come think look want give use find tell ask work seem "
        "feel try leave call good new first last long great little own other old right big high different small large next early "
        "young important few public bad same able quantum photosynthesis unaffable Zürich jurisprudence 3.14 antidisestablishmentarianism"
    ).split()
    made = []
    for _ in range(200):
        picked = [chance.choice(words) for _ in range(chance.randint(1, 60))]
        text = " ".join(word.capitalize() if chance.random() < 0.1 else word for word in picked)
        made.append(text + chance.choice([".", "?", "!", "", "...", " :)"]))
    return made + HARD


def main():
    if sys.argv[1] == "cases":
        json.dump(texts(), sys.stdout)
        return
    import onnxruntime
    from tokenizers import Tokenizer

    folder = Path(sys.argv[2])
    weights = next(folder.glob("*.onnx"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    cut = Tokenizer.from_file(str(folder / "tokenizer.json"))
    cut.no_padding()
    outputs = [it.name for it in session.get_outputs()]
    output = next(it for it in OUTPUTS if it in outputs)
    least, worst, apart = 1.0, None, 0.0
    other = 0
    for text, numbers, vector in json.load(sys.stdin):
        ids = np.array([cut.encode(text).ids], dtype=np.int64)
        if ids[0].tolist() != numbers:
            other += 1
            print(text, ids[0].tolist(), numbers, file=sys.stderr)
        wanted = session.run([output], {it.name: filled(it, ids) for it in session.get_inputs()})[0][0]
        wanted = wanted.mean(0) if wanted.ndim == 2 else wanted
        wanted = wanted / np.linalg.norm(wanted)
        like = float(wanted @ np.array(vector))
        apart = max(apart, float(np.max(np.abs(wanted - np.array(vector)))))
        if like < least:
            least, worst = like, text
    json.dump({"least": least, "worst": worst, "apart": apart, "other": other}, sys.stdout)


main()
