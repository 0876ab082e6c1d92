"""Cases for the tools, and what numpy, scipy, sympy and statsmodels say to the answers.

authority.py cases TOOL          prints a JSON list of arguments
authority.py judge TOOL < JSON   reads a list of {"args", "answer" | "error"}, prints what is wrong
"""

import gc
import json
import math
import sys
import warnings

import numpy as np
import scipy
from scipy import integrate, optimize, stats

import drawn
from statsmodels.stats.weightstats import DescrStatsW

warnings.simplefilter("ignore")
# What is read is millions of numbers in lists, none of them in a cycle.
gc.disable()
RANDOM = 200


def rng(tool):
    return np.random.default_rng(list(tool.encode()))


def numbers(value):
    return np.array(value, dtype=float)


def off(found, wanted):
    """The largest error, in units of the larger of 1 and the largest wanted number."""
    found, wanted = numbers(found), numbers(wanted)
    if found.shape != wanted.shape:
        return math.inf
    if wanted.size == 0:
        return 0.0
    return float(np.max(np.abs(found - wanted)) / max(1.0, np.max(np.abs(wanted))))


# Each tool: cases(r), and judge(args, answer, error) -> (error, tolerance) or words that say what is wrong.


class Statistics:
    METRICS = ["mean", "std", "min", "max", "median", "count", "sum", "var", "q25", "q75", "iqr", "range"]
    MORE = ["sem", "skew", "kurtosis"]

    def cases(self, r):
        cases = []
        for i in range(RANDOM):
            n = int(r.integers(3, 300))
            data = [r.normal(r.uniform(-50, 50), 3, n), r.standard_t(2, n), r.pareto(1.5, n), r.uniform(-1, 1, n),
                    r.integers(0, 5, n).astype(float)][i % 5]
            cases.append({"data": data.tolist(), "metrics": self.METRICS + (self.MORE if np.std(data) > 0 else [])})
        hard = [[1.0], [0.0], [1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16], [1e16, 1.0, -1e16], [5.0] * 50, [1e-300, 2e-300],
                [1e150, -1e150], [0.1] * 10, [1.0, 2.0], [-1.0, 1.0], [1e308, 1e308], list(range(1000)), [3, 1, 2],
                [-0.0, 0.0], [1e-12, 1e12], [2.0] * 3 + [1e6], [1, 1, 2, 2], [1e15 + 1, 1e15 + 2], [0.3, 0.1, 0.2],
                [1e-5] * 7]
        return cases + [{"data": [float(x) for x in d], "metrics": self.METRICS} for d in hard]

    def judge(self, args, answer, error):
        data = np.array(args["data"], dtype=np.longdouble)
        ways = {
            "mean": np.mean, "std": np.std, "min": np.min, "max": np.max, "median": np.median, "count": len,
            "sum": lambda x: math.fsum(args["data"]), "var": np.var, "range": np.ptp,
            "q25": lambda x: np.percentile(args["data"], 25), "q75": lambda x: np.percentile(args["data"], 75),
            "iqr": lambda x: np.subtract(*np.percentile(args["data"], [75, 25])),
            "sem": lambda x: stats.sem(args["data"]), "skew": lambda x: stats.skew(args["data"]),
            "kurtosis": lambda x: stats.kurtosis(args["data"]),
        }
        wanted = {}
        for name in args["metrics"]:
            try:
                wanted[name] = float(ways[name](data))
            except OverflowError:
                wanted[name] = math.inf
        lost = [name for name, want in wanted.items() if not math.isfinite(want)]
        if error:
            return None if len(lost) == len(wanted) else error
        # A figure that has no number is null beside the others.
        if any(answer[name] is not None for name in lost):
            return f"wanted null for {lost}, found {answer}"
        wanted = {name: want for name, want in wanted.items() if name not in lost}
        worst = 0.0
        for name, want in wanted.items():
            scale = max(abs(want), 1e-300 if name in ("min", "max") else float(np.max(np.abs(data))) * 1e-3, 1e-300)
            if name == "var":
                scale = max(abs(want), float(np.max(np.abs(data)) ** 2 * 1e-9), 1e-300)
            worst = max(worst, abs(answer[name] - want) / scale)
        # statsmodels computes in doubles: where those have digits enough.
        if len(data) > 2 and np.std(args["data"]) > 1e-6 * np.max(np.abs(args["data"])) and "sem" in wanted:
            of = DescrStatsW(args["data"], ddof=1)
            pairs = [("mean", of.mean), ("sem", of.std_mean), ("sum", of.sum), ("var", of.var * (len(data) - 1) / len(data))]
            size = float(np.max(np.abs(args["data"])))
            worst = max([worst] + [abs(answer[name] - want) / max(abs(want), size * 1e-3) for name, want in pairs if math.isfinite(want)])
        return worst, 1e-11


def matrices(r, square):
    found = []
    for i in range(RANDOM):
        n = int(r.integers(1, 13))
        m = n if square else int(r.integers(1, 13))
        a = r.normal(size=(m, n))
        if square and i % 3 == 0:
            a = a + a.T
        found.append(a)
    hilbert = [scipy.linalg.hilbert(n) for n in (3, 5, 8, 11)]
    vander = [np.vander(np.linspace(1, 2, n)) for n in (4, 7)]
    found += hilbert + vander
    found += [np.eye(5), np.diag([1.0, 1e-8, 1e8]), np.diag([2.0, 2.0, 2.0]), np.array([[1.0]]), np.array([[1e-200]])]
    found += [np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [-1.0, 0.0]]), np.ones((3, 3)), np.zeros((2, 2))]
    found += [np.array([[1.0, 1.0], [1.0, 1.0 + 1e-10]]), np.triu(np.ones((6, 6))), scipy.linalg.toeplitz([2, -1, 0, 0, 0])]
    found += [np.array([[1e150, 1.0], [1.0, 1e-150]]), scipy.linalg.companion([1, -6, 11, -6]), scipy.linalg.pascal(7).astype(float)]
    return found


class Solve:
    def cases(self, r):
        cases = []
        for a in matrices(r, True):
            cases.append({"A": a.tolist(), "b": r.normal(size=len(a)).tolist()})
        # Large ones go another way than small ones.
        for n in (48, 60, 64, 80, 100, 120):
            large = [r.normal(size=(n, n)), np.eye(n) + 0.01 * r.normal(size=(n, n)), scipy.linalg.toeplitz([2, -1] + [0] * (n - 2))]
            cases += [{"A": a.tolist(), "b": r.normal(size=n).tolist()} for a in large + [large[0] @ np.diag(np.logspace(0, -9, n))]]
        for _ in range(30):
            n = int(r.integers(1, 6))
            a = r.normal(size=(n + int(r.integers(1, 9)), n))
            cases.append({"A": a.tolist(), "b": r.normal(size=len(a)).tolist()})
        return cases

    def judge(self, args, answer, error):
        a, b = numbers(args["A"]), numbers(args["b"])
        rank, condition = np.linalg.matrix_rank(a), np.linalg.cond(a)
        if rank < a.shape[1]:
            return None if error and "singular" in error else f"wanted `singular`, found {answer or error}"
        if error:
            return error
        if abs(answer["condition_number"] / condition - 1) > max(1e-10, condition * 1e-15):
            return f"condition {answer['condition_number']}, wanted {condition}"
        wanted = np.linalg.lstsq(a, b, rcond=None)[0]
        error = np.linalg.norm(numbers(answer["x"]) - wanted) / max(np.linalg.norm(wanted), 1e-300)
        return float(error / max(1.0, condition if a.shape[0] == a.shape[1] else condition**2)), 1e-14


class Eigen:
    def cases(self, r):
        return [{"A": a.tolist(), "vectors": True} for a in matrices(r, True)]

    def judge(self, args, answer, error):
        if error:
            return error
        a = numbers(args["A"])
        if answer["complex"]:
            z = lambda v: complex(v["re"], v["im"])
        else:
            z = complex
        values = np.array([z(v) for v in answer["eigenvalues"]])
        vectors = np.array([[z(v) for v in row] for row in answer["eigenvectors"]])
        size = max(np.linalg.norm(a, 2), 1e-300)
        residual = np.max(np.abs(a @ vectors - vectors * values)) / size
        if answer["symmetric"]:
            wanted = np.linalg.eigvalsh(a)
            return max(float(residual), float(np.max(np.abs(values - wanted)) / size)), 1e-13
        # Those of a defective matrix are known to a root of the precision only: each must have a partner.
        wanted = np.linalg.eigvals(a)
        rest, apart = list(wanted), 0.0
        for value in values:
            at = int(np.argmin(np.abs(np.array(rest) - value)))
            apart = max(apart, abs(rest.pop(at) - value) / size)
        vector_condition = min(np.linalg.cond(np.linalg.eig(a)[1]), 1e8)
        return max(float(residual), float(apart) / vector_condition), 1e-13


class Svd:
    def cases(self, r):
        return [{"A": a.tolist(), "full": bool(i % 2)} for i, a in enumerate(matrices(r, False))]

    def judge(self, args, answer, error):
        if error:
            return error
        a = numbers(args["A"])
        s = numbers(answer["singular_values"])
        u, v = numbers(answer["U"]), numbers(answer["V"])
        size = max(np.linalg.norm(a, 2), 1e-300)
        if answer["rank"] != np.linalg.matrix_rank(a):
            return f"rank {answer['rank']}, wanted {np.linalg.matrix_rank(a)}"
        k = len(s)
        if args["full"] and (u.shape[0] != u.shape[1] or v.shape[0] != v.shape[1]):
            return f"U is {u.shape}, V is {v.shape}"
        made = (u[:, :k] * s) @ v[:, :k].T
        worst = max(np.max(np.abs(made - a)) / size, np.max(np.abs(s - np.linalg.svd(a, compute_uv=False))) / size)
        worst = max(worst, np.max(np.abs(u.T @ u - np.eye(u.shape[1]))), np.max(np.abs(v.T @ v - np.eye(v.shape[1]))))
        return float(worst), 1e-13


class Operation:
    def cases(self, r):
        return [{"A": a.tolist(), "operation": ["inverse", "det"][i % 2]} for i, a in enumerate(matrices(r, True))]

    def judge(self, args, answer, error):
        a = numbers(args["A"])
        if args["operation"] == "det":
            if error:
                return error
            # numpy's, where it is not below what floating point holds; to the size of what was added up.
            wanted, size = np.linalg.det(a), float(np.prod(np.linalg.norm(a, axis=1)))
            return abs(answer["determinant"] - wanted) / max(size, 1e-300), 1e-13
        if np.linalg.matrix_rank(a) < len(a):
            return None if error and "singular" in error else f"wanted `singular`, found {answer or error}"
        if error:
            return error
        wanted = np.linalg.inv(a)
        return float(np.linalg.norm(numbers(answer["inverse"]) - wanted) / np.linalg.norm(wanted) / np.linalg.cond(a)), 1e-14


class Simulate:
    """Means against quadrature, in standard errors: 5 of them are passed once in two million times."""

    FORMS = ["x**{k}", "np.sin({a}*x)", "np.exp(-{a}*x)", "x*np.cos({a}*x)", "(x < {b})", "np.abs(x - {b})", "1/(1+x**2)",
             "np.sqrt(abs(x))", "np.log(1+x**2)", "np.tanh({a}*x)"]

    def cases(self, r):
        cases = []
        for i in range(RANDOM):
            form = self.FORMS[i % len(self.FORMS)]
            text = form.format(k=int(r.integers(1, 5)), a=round(r.uniform(0.1, 3), 3), b=round(r.uniform(0, 1), 3))
            law = ["uniform", "normal", "exponential"][i // 10 % 3]
            cases.append({"expression": text, "distribution": law, "samples": 20000, "seed": int(r.integers(1 << 30))})
        hard = [("3", 1), ("x", 1), ("x", 2), ("0*x", 10), ("1e300*x", 100), ("1e-300*x", 100), ("1e9+x", 5000),
                ("x**20", 20000), ("np.exp(x)", 20000), ("x<0", 100), ("x>=0", 100), ("np.log(x)", 20000),
                ("x**0.5", 20000), ("x**0.25", 20000), ("where(x<0.5, 1, 3)", 20000), ("np.cos(50*x)", 20000),
                ("np.floor(10*x)", 20000), ("x%0.25", 20000), ("abs(x-0.5)", 20000), ("np.sign(x-0.5)", 20000)]
        return cases + [{"expression": e, "samples": n, "seed": 7} for e, n in hard]

    def judge(self, args, answer, error):
        if error:
            return error
        law = args.get("distribution", "uniform")
        text = compile(args["expression"], "case", "eval")
        f = lambda x: float(eval(text, {"np": np, "abs": abs, "x": x, "where": np.where}))
        if sum(answer["histogram"]["counts"]) + answer.get("undefined", 0) != args["samples"]:
            return "the histogram lacks samples"
        density = {"uniform": (0, 1, lambda x: 1.0), "exponential": (0, 40, lambda x: math.exp(-x)),
                   "normal": (-9, 9, lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi))}[law]
        low, high, weight = density
        points = np.unique(np.concatenate([np.linspace(low, high, 41), [0.0] if low < 0 else []]))
        part = lambda g: sum(integrate.quad(lambda x: g(x) * weight(x), a, b, limit=200)[0] for a, b in zip(points, points[1:]))
        mean = part(f)
        scale = max([abs(f((a + b) / 2)) for a, b in zip(points, points[1:])] + [abs(mean), 1e-290])
        std = math.sqrt(max(part(lambda x: ((f(x) - mean) / scale) ** 2), 0.0)) * scale
        se = std / math.sqrt(args["samples"])
        if se <= 1e-9 * scale:
            return abs(answer["mean"] - mean) / scale, 1e-6
        return abs(answer["mean"] - mean) / se, 5.0


class Native:
    def cases(self, r):
        cases = []
        names = ["sphere", "gaussian", "polynomial", "constant", "sin({a}*x0)+x0", "exp(-x0)*cos({a}*x0)", "x0**3"]
        for i in range(RANDOM):
            d = 1 if i % 7 > 3 else int(r.integers(1, 5))
            bounds = [[-round(r.uniform(0.2, 2), 3), round(r.uniform(0.2, 2), 3)] for _ in range(d)]
            name = names[i % 7].format(a=round(r.uniform(0.5, 4), 2))
            cases.append({"bounds": bounds, "function": name, "n_samples": 30000, "seed": int(r.integers(1 << 30))})
        for seed in range(8):
            cases.append({"operation": "pi", "n_samples": 100000, "seed": seed})
        for i in range(20):
            data = [r.normal(5, 2, 80), r.exponential(1, 60), r.standard_t(3, 100), np.array([1.0, 2.0]), np.full(9, 3.0)][i % 5]
            cases.append({"operation": "bootstrap", "data": data.tolist(), "statistic": ["mean", "median", "std"][i % 3], "n_samples": 4000})
        return cases

    def judge(self, args, answer, error):
        if error:
            return error
        kind = args.get("operation", "integrate")
        if kind == "pi":
            return answer["absolute_error"] / answer["standard_error"], 5.0
        if kind == "bootstrap":
            way = {"mean": np.mean, "median": np.median, "std": np.std}[args["statistic"]]
            data = numbers(args["data"])
            if np.ptp(data) == 0:
                return abs(answer["standard_error"]), 1e-12
            wanted = stats.bootstrap((data,), way, n_resamples=4000, method="percentile", random_state=1)
            interval = answer["confidence_interval"]
            apart = max(abs(interval["lower"] - wanted.confidence_interval.low), abs(interval["upper"] - wanted.confidence_interval.high))
            # Two intervals by chance: the ends have errors of their own.
            return apart / np.ptp(data) if len(data) > 2 else apart, 0.05 if len(data) > 2 else 0.5
        bounds, name = args["bounds"], args["function"]
        if name == "constant":
            return abs(answer["integral"] - math.prod(b - a for a, b in bounds)), 1e-12
        gauss = [math.sqrt(math.pi) / 2 * (math.erf(b) - math.erf(a)) for a, b in bounds]
        if name == "gaussian":
            wanted = math.prod(gauss)
        elif name == "polynomial":
            volume = math.prod(b - a for a, b in bounds)
            wanted = volume * sum((b**3 - a**3) / 3 / (b - a) for a, b in bounds)
        elif name == "sphere":
            if len(bounds) > 1:
                n = {2: 1501, 3: 181, 4: 61}[len(bounds)]
                axes = [a + (b - a) * (np.arange(n) + 0.5) / n for a, b in bounds]
                squares = sum(np.meshgrid(*[x * x for x in axes], indexing="ij", sparse=True))
                wanted = float(np.mean(squares <= 1)) * math.prod(b - a for a, b in bounds)
            else:
                (a, b), = bounds
                wanted = min(b, 1) - max(a, -1)
        else:
            text = compile(name, "case", "eval")
            f = lambda x: eval(text, {"sin": math.sin, "cos": math.cos, "exp": math.exp, "x0": x})
            wanted = integrate.quad(f, *bounds[0])[0]
        se = answer["standard_error"]
        grid = 2e-3 * abs(wanted) if name == "sphere" else 0.0
        return max(0.0, abs(answer["integral"] - wanted) - grid) / max(se, 1e-12), 5.0


class Ode:
    """The steps of scipy's RK45, one by one: as many of them, at the same times, with the same states."""

    def cases(self, r):
        cases = []
        forms = ["-{a}*y", "{a}*y*(1-y)", "cos({a}*t)-y", "y1; -{a}*y0", "y1; {b}*(1-y0**2)*y1-y0", "{a}*y0-{b}*y0*y1; {b}*y0*y1-{a}*y1"]
        for i in range(RANDOM - 40):
            text = forms[i % 6].format(a=round(r.uniform(0.2, 2), 3), b=round(r.uniform(0.2, 2), 3))
            n = text.count(";") + 1
            case = {"y0": r.uniform(0.1, 2, n).round(4).tolist(), "t_span": [0, round(r.uniform(1, 8), 3)], "system": text}
            case["rtol"], case["atol"] = [(1e-3, 1e-6), (1e-6, 1e-9), (1e-9, 1e-12)][i % 3]
            if i % 2:
                case["n_points"] = 37
            cases.append(case)
        for i in range(40):
            n = int(r.integers(1, 6))
            a = r.normal(size=(n, n)) - 1.5 * np.eye(n)
            cases.append({"y0": r.normal(size=n).tolist(), "t_span": [0, 3], "coefficients": {"A": a.tolist(), "b": r.normal(size=n).tolist()}})
        lorenz = {"system": "10*(y1-y0); y0*(28-y2)-y1; y0*y1-8/3*y2", "y0": [1, 1, 1]}
        cases += [dict(lorenz, t_span=[0, t]) for t in (1, 3, 5)]
        cases += [{"system": "-50*(y-cos(t))", "y0": [0], "t_span": [0, 2]}, {"system": "-1000*y", "y0": [1], "t_span": [0, 0.5]},
                  {"system": "0*y", "y0": [1], "t_span": [0, 10]}, {"system": "0", "y0": [0], "t_span": [0, 1]},
                  {"system": "y", "y0": [1], "t_span": [2, -2]}, {"system": "-y", "y0": [1e-12], "t_span": [0, 5]},
                  {"system": "y**2", "y0": [1], "t_span": [0, 0.99]}, {"system": "sqrt(abs(y))", "y0": [0], "t_span": [0, 2]},
                  {"system": "1/(1+100*t**2)", "y0": [0], "t_span": [-3, 3]}, {"system": "sign(sin(3*t))", "y0": [0], "t_span": [0, 4]},
                  {"system": "y1; -1e4*y0", "y0": [1, 0], "t_span": [0, 0.5]}, {"system": "y1; -y0-0.1*y1**3", "y0": [2, 0], "t_span": [0, 20]},
                  {"system": "-y0; -100*y1", "y0": [1, 1], "t_span": [0, 1]}, {"system": "t*y", "y0": [1], "t_span": [0, 4]},
                  {"system": "1e6", "y0": [0], "t_span": [0, 1]}, {"system": "-y**3", "y0": [10], "t_span": [0, 5]},
                  {"system": "exp(-t)*sin(10*t)", "y0": [0], "t_span": [0, 6]}]
        return cases

    def judge(self, args, answer, error):
        n = len(args["y0"])
        if "system" in args:
            parts = [compile(p.strip(), "case", "eval") for p in args["system"].split(";")]
            names = {k: getattr(np, k) for k in ("cos", "sin", "exp", "sqrt", "sign")}
            names["abs"] = abs

            def f(t, y):
                here = dict(names, t=t, y=y[0], **{f"y{i}": y[i] for i in range(n)})
                return [eval(p, here) for p in parts]
        else:
            a, b = numbers(args["coefficients"]["A"]), numbers(args["coefficients"]["b"])
            f = lambda t, y: a @ y + b
        times = np.linspace(*args["t_span"], args["n_points"]) if "n_points" in args else None
        rtol, atol = args.get("rtol", 1e-6), args.get("atol", 1e-9)
        wanted = integrate.solve_ivp(f, args["t_span"], args["y0"], rtol=rtol, atol=atol, t_eval=times, dense_output=True)
        if error:
            return error
        if len(answer["t"]) != len(wanted.t):
            return f"{len(answer['t'])} times, wanted {len(wanted.t)}"
        if answer["stats"]["evaluations"] != wanted.nfev:
            return f"{answer['stats']['evaluations']} evaluations, wanted {wanted.nfev}"
        if off(answer["t"], wanted.t) > 1e-4:
            return "other times"
        # Rounding moves the steps of a tight tolerance a little: so at our times, in units of what is allowed.
        found, there = numbers(answer["y"]), wanted.sol(numbers(answer["t"])).T
        return float(np.max(np.abs(found - there) / (atol + rtol * np.max(np.abs(there))))), 1.0


class Optimize:
    """The simplex of scipy's Nelder-Mead, to the same place in about as many steps."""

    NAMED = {
        "rosenbrock": optimize.rosen,
        "sphere": lambda x: float(np.sum(np.square(x))),
        "rastrigin": lambda x: float(np.sum(np.square(x) - 10 * np.cos(2 * np.pi * np.array(x)) + 10)),
        "ackley": lambda x: float(20 + math.e - 20 * math.exp(-0.2 * math.sqrt(np.mean(np.square(x)))) - math.exp(np.mean(np.cos(2 * np.pi * np.array(x))))),
    }

    def cases(self, r):
        cases = []
        for i in range(RANDOM):
            n = int(r.integers(1, 5))
            x0 = r.uniform(-2, 2, n).round(4).tolist()
            if i % 4 == 0:
                a = r.normal(size=(n, n))
                a = a @ a.T + 0.1 * np.eye(n)
                objective = {"quadratic": {"A": a.tolist(), "b": r.normal(size=n).tolist(), "c": 1.5}}
            elif i % 4 == 1:
                objective = {list(self.NAMED)[i // 4 % 4]: True}
                x0 = x0 if n > 1 else x0 + [0.5]
            else:
                c = r.uniform(-1, 1, n).round(3)
                terms = [f"(x{j}-({c[j]}))**{2 if i % 4 == 2 else 4}*{j + 1}" for j in range(n)]
                objective = {"expression": " + ".join(terms)}
            cases.append({"x0": x0, "objective": objective, "max_iter": 3000})
        hard = ["(x0-1)**2*1e6+(x1+2)**2*1e-3", "abs(x0)+abs(x1)", "max(x0**2, x1**2)", "x0**2*x1**2+x0**2", "(x0**2+x1-11)**2+(x0+x1**2-7)**2",
                "exp(x0)+exp(-x0)+x1**2", "1e8*(x0-x1)**2+x0**2", "(x0-1e6)**2+x1**2", "cos(x0)*cos(x1)", "sqrt(1+x0**2)+x1**4"]
        cases += [{"x0": s, "objective": h, "max_iter": 5000} for h in hard for s in ([-1.2, 1.0], [0.0, 0.0])]
        return cases

    def judge(self, args, answer, error):
        if error:
            return error
        objective = args["objective"]
        if isinstance(objective, str):
            objective = {"expression": objective}
        if "quadratic" in objective:
            q = objective["quadratic"]
            a, b = numbers(q["A"]), numbers(q["b"])
            f = lambda x: 0.5 * x @ a @ x + b @ x + q["c"]
        elif "expression" in objective:
            text = compile(objective["expression"], "case", "eval")
            names = {k: getattr(math, k) for k in ("exp", "cos", "sqrt")}
            f = lambda x: eval(text, dict(names, abs=abs, max=max, **{f"x{i}": v for i, v in enumerate(x)}))
        else:
            f = self.NAMED[next(iter(objective))]
        options = {"xatol": 1e-8, "fatol": 1e-8, "maxiter": args["max_iter"], "maxfev": 10**7}
        wanted = optimize.minimize(f, args["x0"], method="Nelder-Mead", options=options)
        if abs(answer["f"] - f(numbers(answer["x"]))) > 1e-9 * max(1, abs(answer["f"])):
            return f"f is {answer['f']}, but {f(numbers(answer['x']))} there"
        # Rounding may part the ways of two simplexes; both must end as low.
        worse = answer["f"] - wanted.fun
        return max(0.0, worse) / max(1.0, abs(wanted.fun)), 1e-7


class Chains:
    """Means and deviations of known densities, in their standard errors."""

    def cases(self, r):
        cases = []
        for i in range(RANDOM):
            m, s = round(r.uniform(-5, 5), 2), round(r.uniform(0.3, 3), 2)
            forms = [f"-0.5*((x-({m}))/{s})**2", f"log(x)-x/{s}", f"-0.5*((x0-({m}))/{s})**2-0.5*x1**2", f"-abs(x-({m}))/{s}",
                     f"-0.5*(x0**2-1.2*x0*x1+x1**2)/0.64"]
            x0 = [[m], [s], [m, 0.0], [m], [0.0, 0.0]][i % 5]
            wide = [2.4 * s, 2.5 * s, max(s, 1.0) * 1.5, 2.5 * s, 1.2][i % 5]
            cases.append({"log_density": forms[i % 5], "x0": x0, "proposal_std": wide, "n_samples": 8000, "max_returned": 8000, "seed": int(r.integers(1 << 30)),
                          "truth": [[[m], [s]], [[2 * s], [s * math.sqrt(2)]], [[m, 0], [s, 1]], [[m], [s * math.sqrt(2)]], [[0, 0], [1, 1]]][i % 5]})
        for k in range(20):
            d = 1 + k % 4
            cases.append({"log_density": "log(exp(-0.5*(x-3)**2)+exp(-0.5*(x+3)**2))" if k % 4 == 0 else "+".join(f"-0.5*x{j}**2" for j in range(d)),
                          "x0": [0.0] * (1 if k % 4 == 0 else d), "proposal_std": 4.0 if k % 4 == 0 else 2.4 / math.sqrt(d), "n_samples": 16000, "max_returned": 16000, "seed": k,
                          "truth": [[0.0], [math.sqrt(10)]] if k % 4 == 0 else [[0.0] * d, [1.0] * d]})
        return cases

    def judge(self, args, answer, error):
        if error:
            return error
        mean, std = args["truth"]
        worst = 0.0
        for i, size in enumerate(answer["effective_sample_size"]):
            worst = max(worst, abs(answer["mean"][i] - mean[i]) / (std[i] / math.sqrt(size)))
            if answer["r_hat"][i] > 1.1:
                return f"R-hat {answer['r_hat'][i]}"
            if abs(answer["std_dev"][i] / std[i] - 1) > 8 / math.sqrt(size):
                return f"deviation {answer['std_dev'][i]}, wanted {std[i]}"
        found = np.cov(numbers(answer["samples"]).T, ddof=1)
        if off(np.atleast_2d(found), answer["covariance"]) > 1e-10:
            return "the covariance is not that of the samples"
        return worst, 5.0


TOOLS = {
    "statistics": Statistics, "matrix_solve": Solve, "matrix_eigenvalues": Eigen, "matrix_svd": Svd,
    "matrix_op": Operation, "monte_carlo": Simulate, "monte_carlo_native": Native, "solve_ode": Ode, "optimize": Optimize,
    "mcmc": Chains, **drawn.TOOLS,
}


def main():
    what, tool = sys.argv[1:3]
    it = TOOLS[tool]()
    if what == "cases":
        json.dump(it.cases(rng(tool)), sys.stdout)
        return
    worst, tolerance, wrong = 0.0, 0.0, []
    answered = json.load(sys.stdin)
    for case in answered:
        found = it.judge(case["args"], case.get("answer"), case.get("error"))
        if isinstance(found, str):
            wrong.append({"args": case["args"], "why": found})
        elif found is not None:
            error, allowed = found
            if not error <= allowed:
                wrong.append({"args": case["args"], "why": f"off by {error}, {allowed} is allowed"})
            elif error / allowed >= worst:
                worst, tolerance = error / allowed, allowed
    json.dump({"cases": len(answered), "worst": worst * tolerance, "tolerance": tolerance, "wrong": wrong}, sys.stdout)


main()
