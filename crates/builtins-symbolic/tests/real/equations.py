"""Equations for `symbolic_solve`, and what sympy says to the answers.

equations.py cases          prints a JSON list of arguments
equations.py judge < JSON   reads a list of {"args", "answer" | "error"}, prints a verdict for each
"""

import itertools
import json
import random
import signal
import sys
import warnings

import mpmath
import sympy as sp

warnings.simplefilter("ignore")
mpmath.mp.dps = 30
SECONDS = 20

POLYNOMIAL = """
2*x + 3 = 0 | x**2 - 4 = 0 | x**2 + 1 = 0 | x**2 - 5*x + 6 = 0 | x**2 + x + 1 = 0 | 3*x**2 - 7*x + 2 = 0
x**2 - 2 = 0 | (x - 1)**3 = 0 | x**3 - 1 = 0 | x**3 - 6*x**2 + 11*x - 6 = 0 | x**3 + x + 1 = 0 | x**3 - 3*x + 1 = 0
x**4 - 1 = 0 | x**4 - 5*x**2 + 4 = 0 | x**4 + 4 = 0 | x**4 - 10*x**2 + 1 = 0 | x**4 + x + 1 = 0 | x**4 - 2*x**3 + 2*x - 1 = 0
x**5 - x + 1 = 0 | x**5 - 1 = 0 | x**5 - 5*x**3 + 4*x = 0 | x**6 - 9*x**3 + 8 = 0 | x**6 + x**3 + 1 = 0 | x**8 - 1 = 0
(x**2 - 2)*(x**2 + x - 1) = 0 | x*(x + 1)*(x + 2) = 6 | (x + 1)**2 = x**2 + 2*x + 1 + x | x**7 - x = 0
0.5*x**2 - 1.25*x = 0.75 | x**10 - 1024 = 0 | x**3 = 2 | 1000000*x**2 - 2000001*x + 1000000.5 = 0
x**2 - 2*sqrt(2)*x + 2 = 0 | x**2 - pi*x = 0 | x**2 + I*x + 2 = 0 | x**4 + x**2 = 0 | x = x + 1 | (x - 1)*(x - 2) = x**2
"""

RATIONAL = """
1/x = 2 | 1/x + 1/(x - 1) = 1 | (x**2 - 1)/(x - 1) = 0 | (x**2 - 4)/(x + 2) = 0 | x/(x + 1) = (x + 2)/(x + 3)
1/(x**2 + 1) = 1/5 | 2/(x - 1) - 3/(x + 2) = 1 | (x + 1/x)**2 = 9/4 | x + 1/x = 3 | 1/x = 0 | (x - 3)/(x**2 - 9) = 1/4
1/(x - 1) + 1/(x - 2) + 1/(x - 3) = 0 | x**2/(x - 1) = 4 | (2*x + 1)/(3*x - 2) = 5 | 1/x**3 = 8
"""

RADICAL = """
sqrt(x) = 3 | sqrt(x + 1) = x - 1 | sqrt(x + 5) + sqrt(x) = 5 | sqrt(2*x - 1) = sqrt(x + 3) | sqrt(x) + x = 6
x**(1/3) = 2 | sqrt(x) = -1 | sqrt(x**2 + 3) = 2*x | sqrt(x + sqrt(x)) = 2 | x - 3*sqrt(x) + 2 = 0
"""

EXPONENTIAL = """
exp(x) = 2 | exp(2*x) - 3*exp(x) + 2 = 0 | 2**x = 8 | 3**x = 5 | exp(x) + exp(-x) = 4 | log(x) = 2 | log(x, 2) = 5
log(x) + log(x + 1) = log(6) | log(x)**2 - 3*log(x) + 2 = 0 | 4**x - 5*2**x + 4 = 0 | x*exp(x) = 1 | exp(x**2) = 3
exp(x) = 0 | log(x + 3) - log(x - 1) = log(2) | 2**(x + 1) = 3**x | x*exp(x) + exp(x) = 0 | 5*exp(-x/2) = 1
log(x**2) = 2 | x**2*exp(x) = 0 | exp(x) + x**2 = 0
"""

TRIGONOMETRIC = """
sin(x) = 0 | sin(x) = 1/2 | cos(x) = 1/2 | cos(x) = 0 | tan(x) = 1 | sin(x) = 1 | cos(x) = -1 | 2*sin(x)**2 - 1 = 0
sin(x) = cos(x) | 2*cos(x)**2 - 3*cos(x) + 1 = 0 | sin(x)**2 - sin(x) = 0 | tan(x)**2 = 3 | sin(2*x) = 1 | cos(3*x) = 0
sin(x) + cos(x) = 1 | sin(2*x) = sin(x) | cos(2*x) = cos(x) | sin(x)*cos(x) = 1/4 | tan(2*x) = 1 | sin(x - pi/4) = 0
sqrt(3)*sin(x) + cos(x) = 1 | sin(x)**2 = cos(x)**2 | 4*sin(x)**2 = 3 | sin(x/2) = 1/2 | cos(x)**2 + cos(x) = 0 | exp(3*x) = 7 | sinh(x) = 1 | tanh(x) = 1/2
"""

PRINCIPAL = "asin(x) = 1/2 | acos(x) = 2 | atan(x) = 1 | cosh(x) = 2 | atan(x) = pi/3"

PARAMETERS = """
a*x + b = 0 | a*x**2 + b*x + c = 0 | x**2 = a | x**2 - (a + b)*x + a*b = 0 | a/x + b = c | x**3 = a | (x - a)*(x - b)*(x - c) = 0
1/x + 1/a = 1/b | exp(a*x) = b | a*exp(x) = b | log(x) = a | a*x**4 + b*x**2 + c = 0 | y = (a*x + b)/(c*x + d)
x**2 + y**2 = 1 | a*x = b*x + c | x/(x + a) = b | k*x**2 = m | x**2 + 2*a*x + a**2 = b**2 | a*(x - b)**2 + c = 0
P*(1 + r)**2 = A, r | V = pi*r**2*h, h | E1 = m*v**2/2, m | 1/f = 1/u + 1/v, f | T = 2*pi*sqrt(L/g), L | y = m*x + q, m
"""

SYSTEMS = """
x + y = 3; x - y = 1 | 2*x + 3*y = 7; 4*x - y = 0 | x + y = 1; x + y = 2 | x + y = 1; 2*x + 2*y = 2
x + y + z = 6; x - y + z = 2; 2*x + y - z = 1 | x + y + z = 1; x - y = 0 | x**2 + y**2 = 25; x + y = 7 | x*y = 6; x + y = 5
x**2 + y**2 = 1; x**2 - y**2 = 1/2 | x**2 + y = 3; x + y**2 = 3 | y = x**2; y = x + 2 | x*y = 1; x - y = 0 | x**2 + y**2 = 1; y = x
x + y = s; x*y = p | a*x + b*y = e1; c*x + d*y = f | x**2 - y = 0; y**2 - x = 0 | x + y = 2; x**2 + y**2 = 1 | x*y = 0; x + y = 1
x*y + y*z = 1; x = y; z = 2*x | x**2 = 4; x - 2 = 0 | x**3 - y = 0; x - y = 0 | exp(x)*y = 2; y = 1 | x/y = 2; x + y = 9
1/x + 1/y = 1; x - y = 0 | x + y = 1; x + z = 2; y + z = 3
"""

# What has no closed form, or what is no question: it must be said.
PLAINLY = "cos(x) = x | x*sin(x) = 1 | x**x = x + 2 | sin(x) + x = log(x) | exp(sin(x)) + x = 3 | tan(x) = x"


def split(block):
    return [part.strip() for line in block.strip().splitlines() for part in line.split("|") if part.strip()]


def cases():
    found = []
    for block in (POLYNOMIAL, RATIONAL, RADICAL, EXPONENTIAL, PRINCIPAL):
        found += [{"equation": text} for text in split(block)]
    found += [{"equation": text, "general": True} for text in split(TRIGONOMETRIC)]
    for text in split(PARAMETERS):
        equation, _, unknown = text.partition(", ")
        positive = {"sqrt(L/g)": {"L": "positive", "g": "positive", "T": "positive"}}
        case = {"equation": equation, "variable": unknown or "x"}
        found.append(case | next(({"assume": v} for k, v in positive.items() if k in equation), {}))
    for text in split(SYSTEMS):
        names = [n for n in ("x", "y", "z") if n in text]
        found.append({"equation": text, "variable": ", ".join(names)})
    found += [{"equation": text, "plainly": True} for text in split(PLAINLY)]
    return found


class Late(Exception):
    pass


def late(*_):
    raise Late


def read(text, names):
    left, _, right = text.partition("=")
    parse = lambda part: sp.nsimplify(sp.sympify(part, locals=names), rational=True)
    return parse(left) - parse(right) if right else parse(left)


def points(value, draw, whole):
    """The numbers that a solution stands for."""
    found = []
    for number in range(-30, 31) if whole is not None and value.has(whole) else [0]:
        here = value.subs(whole, number) if whole is not None else value
        found.append(complex(sp.N(here.subs(draw), 20)))
    return found


def near(a, b):
    return all(abs(x - y) <= 1e-7 * max(1, abs(x)) for x, y in zip(a, b))


def same(mine, theirs):
    covers = lambda some, others: all(any(near(a, b) for b in others) for a in some)
    return covers(mine, theirs) and covers(theirs, mine)


def enumerated(answer, draw):
    """All elements of a set of sympy's with a real part below 10."""
    if isinstance(answer, sp.Union):
        return [p for part in answer.args for p in enumerated(part, draw)]
    if isinstance(answer, sp.FiniteSet):
        return [(complex(sp.N(v.subs(draw), 20)),) for v in answer]
    if isinstance(answer, sp.ImageSet):
        names, body = answer.lamda.variables, answer.lamda.expr
        return [(complex(sp.N(body.subs(names[0], k).subs(draw), 20)),) for k in range(-30, 31)]
    if answer is sp.S.EmptySet:
        return []
    raise NotImplementedError(type(answer))


def judge(case):
    args = case["args"]
    texts = [t for t in args["equation"].split(";")]
    names = {}
    for name in set(sp.sympify("0").free_symbols) | set():
        names[str(name)] = name
    assumed = args.get("assume", {})
    letters = "abcdfghkmpqrsuvxyzALPTV"
    for name in list(letters) + ["E1", "e1"]:
        names[name] = sp.Symbol(name, **{assumed[name]: True}) if name in assumed else sp.Symbol(name)
    equations = [read(text, names) for text in texts]
    unknowns = [names[n.strip()] for n in args.get("variable", "x").split(",")]
    free = sorted(set().union(*(e.free_symbols for e in equations)) - set(unknowns), key=str)
    whole = sp.Symbol("n", integer=True)
    said = case.get("error")
    if args.get("plainly"):
        return "plain" if said and "cannot solve" in said else f"wanted `cannot solve`, found {said or case['answer']}"
    mine = []
    if said is None:
        known = dict(names, n=whole, RootOf=lambda poly, index: sp.CRootOf(poly, index))
        for solution in case["answer"]:
            values = [solution] if isinstance(solution, str) else [solution[str(u)] for u in unknowns]
            mine.append([sp.sympify(value.split("#")[0], locals=known) for value in values])
    theirs, cannot = [], None
    signal.alarm(SECONDS)
    try:
        if args.get("general"):
            theirs = sp.solveset(equations[0], unknowns[0], sp.S.Complexes)
            if theirs.has(sp.ConditionSet):
                cannot = "sympy cannot"
        elif len(unknowns) == 1 and len(equations) == 1:
            theirs = [[v] for v in sp.solve(equations[0], unknowns[0])]
        else:
            theirs = [[v.get(u, u) for u in unknowns] for v in sp.solve(equations, unknowns, dict=True)]
    except (NotImplementedError, Late) as error:
        cannot = f"sympy cannot: {error!r}"
    finally:
        signal.alarm(0)
    chance = random.Random(repr(args))
    verdict = "same"
    symbols = lambda all: set().union(*(v.free_symbols for s in all for v in s))
    open_ = set(free) | symbols(mine) | (symbols(theirs) if isinstance(theirs, list) else theirs.free_symbols)
    # Without a letter to draw a number for, each draw is the same.
    for _ in range(3 if open_ - {whole} else 1):
        draw = {s: sp.Rational(chance.randint(20, 90), 29) for s in free + unknowns}
        # Is each of mine a root?
        for solution in mine:
            for number in (0, 1, -2) if any(v.has(whole) for v in solution) else (0,):
                # In numbers first: put in as it is, a root of four lines would be put in for hours.
                at = [sp.N(v.subs(whole, number).subs(draw), 30) for v in solution]
                for equation in equations:
                    here = lambda e: complex(sp.N(e.subs({s: draw[s] for s in free}).subs(dict(zip(unknowns, at))), 25))
                    left, size = here(equation), sum(abs(here(term)) for term in sp.Add.make_args(equation))
                    if not abs(left) < 1e-10 * (1 + size):
                        return f"WRONG: {solution} leaves {left}"
        if said is not None or cannot:
            continue
        if args.get("general"):
            window = lambda all: [p for p in all if abs(p[0].real) < 9.99 and abs(p[0].imag) < 1e3]
            a = window([(p,) for [v] in mine for p in points(v, draw, whole)])
            b = window(enumerated(theirs, draw))
        else:
            a = [tuple(complex(sp.N(v.subs(draw), 20)) for v in s) for s in mine]
            b = [tuple(complex(sp.N(v.subs(draw), 20)) for v in s) for s in theirs]
        if not same(a, b):
            return f"other: {case.get('answer')} where sympy has {theirs}"
    if said is not None:
        identity = "every value" in said
        return "same" if cannot or (identity and theirs == []) else f"less: {said} where sympy has {theirs}"
    return "more" if cannot else verdict


def main():
    if sys.argv[1] == "cases":
        json.dump(cases(), sys.stdout)
        return
    signal.signal(signal.SIGALRM, late)
    verdicts = []
    for case in json.load(sys.stdin):
        try:
            verdict = judge(case)
        except Exception as error:
            verdict = f"unread: {error!r} at {case.get('answer')}"
        verdicts.append({"equation": case["args"]["equation"], "verdict": verdict})
    json.dump(verdicts, sys.stdout)


main()
