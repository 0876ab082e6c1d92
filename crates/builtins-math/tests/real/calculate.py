"""Random expressions for `calculate`, and what Python and numpy say to the answers.

calculate.py cases COUNT          prints a JSON list of arguments
calculate.py judge < JSON         reads a list of {"args", "answer" | "error"}, prints what differs

numpy raises what it else only warns about. Where numpy's whole numbers run over it wraps; the tool has an error there.
"""

import json
import math
import random
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")
np.seterr(divide="raise", invalid="raise", over="raise", under="ignore")
SEED = 48


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *ways):
        return self.r.choice(ways)

    def whole(self):
        r = self.r
        kind = r.random()
        if kind < 0.6:
            return str(r.randint(0, 12))
        if kind < 0.85:
            return str(r.randint(0, 1000))
        return str(r.choice([2**31, 2**53 + 1, 2**63 - 1, 2**64 + 1, 10**20, 10**25 + 3, 7**30]))

    def real(self):
        r = self.r
        return r.choice([f"{r.uniform(0, 10):.3f}", f"{r.randint(0, 40) / 2}", f"{r.uniform(0, 1e6):.2f}", "1e-3", "2.5", "0.5", "math.pi", "math.e"])

    def number(self, depth):
        r = self.r
        if depth == 0 or r.random() < 0.15:
            return self.whole() if r.random() < 0.6 else self.real()
        kind = r.random()
        a = lambda: self.number(depth - 1)
        if kind < 0.45:
            return f"({a()} {r.choice(['+', '-', '*', '/', '//', '%'])} {a()})"
        if kind < 0.50:
            return f"({a()} ** {r.choice(['2', '3', '-1', '0.5', '-2', '0', '(1/3)', '2.0', '10'])})"
        if kind < 0.57:
            return f"{r.choice(['-', '+', '-'])}{a()}"
        if kind < 0.66:
            return f"round({a()}{r.choice(['', '', ', 1', ', 2', ', 0', ', -1', ', -2', ', 5'])})"
        if kind < 0.78:
            name = r.choice(["math.sqrt", "math.sin", "math.cos", "math.tan", "math.atan", "math.exp", "math.log", "math.log2", "math.log10",
                             "math.log1p", "math.degrees", "math.radians", "math.floor", "math.ceil", "math.trunc", "math.tanh", "math.asinh",
                             "math.fabs", "abs", "int", "float", "math.cbrt", "math.exp2", "math.isqrt", "bool", "math.erf", "math.gamma", "math.sinh"])
            return f"{name}({a()})"
        if kind < 0.86:
            name = r.choice(["min", "max", "math.gcd", "math.lcm", "math.hypot", "math.atan2", "divmod", "pow", "math.fmod", "math.copysign", "math.comb",
                             "math.perm", "math.isclose", "math.pow"])
            if name in ("pow", "math.comb", "math.perm"):
                # Python would compute these for ever with large second ones.
                return f"{name}({a()}, {r.randint(-1, 12)})"
            return f"{name}({a()}, {a()})" if name != "divmod" else f"divmod({a()}, {a()})[{r.randint(0, 1)}]"
        if kind < 0.90:
            return f"({a()} if {self.truth(depth - 1)} else {a()})"
        if kind < 0.95:
            return f"{r.choice(['sum', 'max', 'min', 'len', 'math.prod', 'math.fsum'])}({self.items(depth - 1)})"
        return f"({self.whole()} {r.choice(['&', '|', '<<', '>>'])} {r.randint(0, 70)})"

    def truth(self, depth):
        r = self.r
        if depth <= 0:
            return r.choice(["True", "False", f"{self.whole()} < {self.whole()}"])
        kind = r.random()
        a = lambda: self.number(depth - 1)
        sign = lambda: r.choice(["<", "<=", ">", ">=", "==", "!="])
        if kind < 0.4:
            return f"({a()} {sign()} {a()})"
        if kind < 0.6:
            return f"({a()} {sign()} {a()} {sign()} {a()})"
        if kind < 0.75:
            return f"(not {self.truth(depth - 1)})"
        if kind < 0.95:
            return f"({self.truth(depth - 1)} {r.choice(['and', 'or'])} {self.truth(depth - 1)})"
        return f"({self.whole()} {r.choice(['in', 'not in'])} {self.items(0)})"

    def items(self, depth):
        r = self.r
        if depth > 0 and r.random() < 0.25:
            return r.choice([f"[x ** 2 for x in range({r.randint(0, 9)})]", f"[x for x in range(20) if x % {r.randint(1, 5)} == 0]",
                             f"list(range({r.randint(-5, 5)}, {r.randint(0, 9)}))", f"sorted({self.items(0)})", f"({self.items(0)} + {self.items(0)})",
                             f"{self.items(0)}[{r.randint(-3, 2)}:]", f"{self.items(0)}[::-1]", f"[a * b for a, b in zip({self.items(0)}, {self.items(0)})]"])
        floats = r.random() < 0.5
        one = lambda: (r.choice(["-", ""]) + (self.real() if floats and r.random() < 0.8 else str(r.randint(0, 30))))
        return "[" + ", ".join(one() for _ in range(r.randint(1, 9))) + "]"

    def vector(self, depth):
        r = self.r
        kind = r.random()
        if depth == 0 or kind < 0.35:
            return f"np.array({self.items(0)})"
        if kind < 0.45:
            return r.choice([f"np.arange({r.randint(-5, 5)}, {r.randint(0, 20)}, {r.randint(1, 4)})", f"np.arange(0, {r.randint(1, 9)}, 0.{r.randint(1, 9)})",
                             f"np.linspace({r.randint(-5, 5)}, {r.randint(0, 9)}, {r.randint(1, 12)})", f"np.arange({r.randint(0, 12)})"])
        if kind < 0.65:
            return f"({self.vector(depth - 1)} {r.choice(['+', '-', '*', '/', '//', '%', '**'])} {r.choice(['2', '3', '0.5', '-1', '2.5'])})"
        if kind < 0.75:
            # Of itself, so that lengths fit.
            return f"[np.array([x, x * x, x - 1]) for x in [{r.randint(-9, 9)}]][0] * np.array({[r.randint(-5, 5) for _ in range(3)]})"
        name = r.choice(["np.sqrt", "np.sin", "np.cos", "np.exp", "np.log", "np.abs", "np.floor", "np.ceil", "np.trunc", "np.rint", "np.round", "np.sign",
                         "np.square", "np.cumsum", "np.cumprod", "np.sort", "np.deg2rad", "np.rad2deg", "np.diff", "np.tanh", "np.arctan", "np.log1p",
                         "np.unique", "np.negative", "np.cbrt", "np.arcsin", "np.log10"])
        return f"{name}({self.vector(depth - 1)})"

    def figure(self, depth):
        r = self.r
        v = lambda: self.vector(depth - 1)
        kind = r.random()
        if kind < 0.5:
            name = r.choice(["sum", "mean", "median", "var", "std", "prod", "min", "max", "ptp", "argmin", "argmax", "any", "all", "count_nonzero", "size"])
            more = r.choice(["", "", ", ddof=1"]) if name in ("var", "std") else ""
            return f"np.{name}({v()}{more})"
        if kind < 0.6:
            return f"np.percentile({v()}, {r.choice([0, 10, 25, 50, 75, 90, 100])})"
        if kind < 0.7:
            return f"np.clip({v()}, {r.randint(-5, 3)}, {r.randint(4, 20)})"
        if kind < 0.8:
            return f"np.{r.choice(['mod', 'maximum', 'minimum', 'power', 'floor_divide', 'hypot', 'arctan2', 'fmod', 'remainder', 'divide'])}({v()}, {r.randint(1, 5)})"
        if kind < 0.82:
            # Of truth values numpy computes functions in 16 bits.
            return f"np.{r.choice(['isnan', 'isfinite', 'isinf', 'logical_not'])}({v()})"
        if kind < 0.86:
            return f"np.round({v()}, {r.choice([0, 1, 2, 3, -1])})"
        if kind < 0.9:
            w = v()
            return f"np.dot({w}, {w})"
        if kind < 0.95:
            w = v()
            return f"np.where({w} > {r.randint(-3, 5)}, {w}, {r.choice(['0', '1.5'])})"
        return f"({v()} {r.choice(['<', '>', '==', '<=', '!='])} {r.randint(-3, 9)})"

    def one(self):
        kind = self.r.random()
        if kind < 0.55:
            return self.number(self.r.randint(1, 4))
        if kind < 0.7:
            return self.truth(3)
        if kind < 0.75:
            return self.items(1)
        if kind < 0.85:
            return self.vector(self.r.randint(1, 3))
        return self.figure(self.r.randint(1, 3))


def plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


NAMES = {"np": np, "math": math, "__builtins__": {name: __builtins__.__dict__[name] for name in (
    "abs", "round", "min", "max", "sum", "pow", "divmod", "int", "float", "bool", "len", "range", "sorted", "list", "zip", "any", "all")}}
# Since Python 3.12 the rounding errors of floats are carried along, and `math.cbrt` is there since 3.11.


def exact_sum(items, start=0):
    items = [start, *items]
    floats = any(isinstance(item, float) for item in items) and not any(isinstance(item, np.generic) for item in items)
    if not floats or not all(math.isfinite(item) for item in items):
        total = items[0]
        for item in items[1:]:
            total = total + item
        return total
    total, lost = 0.0, 0.0
    for item in map(float, items):
        following = total + item
        lost += (total - following) + item if abs(total) >= abs(item) else (item - following) + total
        total = following
    return total + lost


NAMES["__builtins__"]["sum"] = exact_sum


def wanted(text, **modules):
    return plain(eval(text, dict(NAMES, **modules)))


# Whose last digit depends on the library, and in numpy on the processor.
ROUNDED = {"sin", "cos", "tan", "atan", "arctan", "atan2", "arctan2", "exp", "exp2", "log", "log2", "log10", "log1p", "tanh", "sinh", "asinh",
           "cbrt", "erf", "gamma", "pow", "power", "hypot", "arcsin"}


class Nudged:
    """A module whose rounded functions are off by one in the last digit, of arrays in every second element."""

    def __init__(self, module, factor):
        self.module, self.factor = module, factor

    def __getattr__(self, name):
        function = getattr(self.module, name)
        if name not in ROUNDED:
            return function

        def nudged(*args):
            found = function(*args)
            if not isinstance(found, np.ndarray):
                return found * self.factor
            found = found * 1.0
            found[::2] *= self.factor
            return found

        return nudged


def hangs_on_the_last_digit(text, want):
    """Whether another rounding of a function makes another answer, as of `np.trunc(np.tanh(19))`."""
    for factor in (1 + 2**-52, 1 - 2**-53):
        try:
            if not same(wanted(text, np=Nudged(np, factor), math=Nudged(math, factor)), want):
                return True
        except Exception:
            return True
    return False


def read(value):
    return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}.get(value, value) if isinstance(value, str) else value


def same(found, want):
    """Whole numbers and truth values exactly; floats to their last digits, as libraries round functions otherwise."""
    if isinstance(want, list):
        return isinstance(found, list) and len(found) == len(want) and all(same(f, w) for f, w in zip(found, want))
    found = read(found)
    if isinstance(want, bool) or want is None:
        return found is want
    if isinstance(want, int):
        if isinstance(found, str):
            return found == str(want)
        return type(found) is int and found == want
    if isinstance(found, bool) or not isinstance(found, float):
        return False
    if math.isnan(want) or math.isinf(want):
        return found == want or (math.isnan(found) and math.isnan(want))
    return abs(found - want) <= 1e-12 * max(abs(found), abs(want)) or abs(found - want) < 1e-300


def explained(text, error, want):
    """The differences that are meant: an error where numpy's whole numbers wrap, where Python goes on in complex numbers, and
    where a number has more digits than Python itself writes."""
    wraps = "the result exceeds numpy's 64-bit integers" in error and "np." in text
    is_complex = "complex" in error and "**" in text
    large = "4300 digits" in error and isinstance(want, int) and abs(want) >= 10**4300
    return wraps or is_complex or large


def judge(answered):
    """Compares each answer; a few differences are meant, and counted."""
    counts, differ = {"cases": len(answered), "values": 0, "errors": 0, "explained": 0}, []
    for case in answered:
        text, error = case["args"]["expression"], case.get("error")
        try:
            want = wanted(text)
            want = None if isinstance(want, complex) else want
            failed = want is None
        except Exception as raised:
            want, failed = raised, True
        if failed:
            counts["errors"] += 1
            if error is None:
                differ.append({"expression": text, "wanted": repr(want), "found": case["answer"][:200]})
        elif error is not None and explained(text, error, want):
            counts["explained"] += 1
        else:
            counts["values"] += 1
            found = None if error is not None else json.loads(case["answer"])
            if error is None and not same(found, want) and hangs_on_the_last_digit(text, want):
                counts["values"] -= 1
                counts["explained"] += 1
            elif error is not None or not same(found, want):
                shown = str(want)[:200] if not isinstance(want, int) or abs(want) < 10**200 else "a large number"
                differ.append({"expression": text, "wanted": shown, "found": (error or case["answer"])[:200]})
    return {**counts, "differ": differ}


if sys.argv[1] == "cases":
    maker = Maker(SEED)
    print(json.dumps([{"expression": maker.one()} for _ in range(int(sys.argv[2]))]))
else:
    print(json.dumps(judge(json.load(sys.stdin))))
