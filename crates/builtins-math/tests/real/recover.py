"""Posteriors and optima that are known, for `mcmc`, `optimize` and `bayesopt`, with what Python needs for them.

recover.py cases TOOL      prints a JSON list of {"tool", "args", …}
recover.py judge < JSON    reads a list of {"case", "answer" | "error"}, prints a verdict for each problem

What is compared is how many iterations it takes to be as near: ours may be half as many again.
"""

import gc
import json
import math
import sys
import warnings

import numpy as np
from scipy import optimize

warnings.simplefilter("ignore")
# What is read is millions of numbers in lists, none of them in a cycle.
gc.disable()
MORE = 1.5
SEEDS = 48

# Density, start, deviation of the steps, steps of the equivalent, and the moments that are known.
POSTERIORS = {
    "mixture": (
        "log(0.3*exp(-0.5*((x0+2)**2+(x1+2)**2)) + 0.7*exp(-0.5*((x0-2)**2+(x1-1)**2)))", [0.0, 0.0], 2.5, 8000,
        lambda x: math.log(0.3 * math.exp(-0.5 * ((x[0] + 2) ** 2 + (x[1] + 2) ** 2)) + 0.7 * math.exp(-0.5 * ((x[0] - 2) ** 2 + (x[1] - 1) ** 2)) + 1e-300),
        # The mean is 0.3·(-2, -2) + 0.7·(2, 1); the variances have what lies between the two in them.
        np.array([0.8, 0.1, 1 + 0.21 * 16, 1 + 0.21 * 9]),
    ),
    "rosenbrock": (
        "-((1-x0)**2 + 10*(x1-x0**2)**2)/2", [1.0, 1.0], 0.8, 8000,
        lambda x: -((1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2) / 2,
        # x0 is normal about 1, x1 about its square: E x1 = 2, var x1 = 2 + 4 + 1/10.
        np.array([1.0, 2.0, 1.0, 6.1]),
    ),
}

HARTMANN_A = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]])
HARTMANN_P = 1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991], [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]])
HARTMANN_C = [1.0, 1.2, 3.0, 3.2]


def hartmann_text():
    term = lambda i: "+".join(f"{HARTMANN_A[i][j]}*(x{j}-{HARTMANN_P[i][j]:.4f})**2" for j in range(6))
    return " - ".join([""] + [f"{HARTMANN_C[i]}*exp(-({term(i)}))" for i in range(4)]).strip()


def branin(x):
    a, b = x
    return (b - 5.1 / (4 * math.pi**2) * a * a + 5 / math.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10


# Objective, its text, the box, evaluations at most, the value that counts as found.
OPTIMA = {
    "branin": (branin, "(x1 - 5.1/(4*pi**2)*x0**2 + 5/pi*x0 - 6)**2 + 10*(1 - 1/(8*pi))*cos(x0) + 10", [(-5.0, 10.0), (0.0, 15.0)], 40, 0.397887 + 0.05),
    "hartmann6": (
        lambda x: -sum(c * math.exp(-float(np.sum(a * (np.array(x) - p) ** 2))) for c, a, p in zip(HARTMANN_C, HARTMANN_A, HARTMANN_P)),
        hartmann_text(), [(0.0, 1.0)] * 6, 60, -3.0,
    ),
    "rosenbrock": (lambda x: float(optimize.rosen(x)), "(1-x0)**2 + 100*(x1-x0**2)**2", [(-2.0, 2.0), (-1.0, 3.0)], 40, 0.5),
}
TRIES = 3


def cases(tool):
    found = []
    for name, (text, x0, width, steps, _, _) in POSTERIORS.items():
        for seed in range(SEEDS):
            args = {"log_density": text, "x0": x0, "proposal_std": width, "n_samples": int(steps * MORE), "max_returned": int(steps * MORE), "burnin": 500, "chains": 1, "seed": seed}
            found.append({"tool": "mcmc", "name": name, "args": args})
    for name, (_, text, box, most, _) in OPTIMA.items():
        for seed in range(TRIES):
            args = {"objective": text, "bounds": box, "n_init": 10, "n_iter": int(most * MORE) - 10, "mode": "minimize", "seed": seed}
            found.append({"tool": "bayesopt", "name": name, "args": args})
    for start in ([-1.2, 1.0], [0.0, 0.0], [2.0, -1.0], [-2.0, 2.0, 1.0], [0.5, -0.5, 0.5, -0.5]):
        found.append({"tool": "optimize", "name": "rosenbrock", "args": {"x0": start, "objective": "rosenbrock", "max_iter": 5000}})
    return [case for case in found if case["tool"] == tool]


def metropolis(density, x0, width, steps, burnin, seed):
    r = np.random.default_rng(1000 + seed)
    x, kept = np.array(x0), []
    at = density(x)
    for i in range(steps + burnin):
        to = x + width * r.normal(size=len(x))
        there = density(to)
        if math.log(r.random()) < there - at:
            x, at = to, there
        if i >= burnin:
            kept.append(x)
    return np.array(kept)


def moments(samples):
    return np.concatenate([samples.mean(axis=0), samples.var(axis=0)])


def posterior(name, answers):
    _, x0, width, steps, density, truth = POSTERIORS[name]
    # In deviations for the means, which may be near nothing, and in parts for the variances.
    size = np.concatenate([np.sqrt(truth[len(truth) // 2 :]), truth[len(truth) // 2 :]])
    apart = lambda found: math.sqrt(np.mean(((found - truth) / size) ** 2))
    ours = [apart(moments(np.array(a["samples"]))) for a in answers]
    theirs = [apart(moments(metropolis(density, x0, width, steps, 500, seed))) for seed in range(SEEDS)]
    # The median: one chain that went far into a tail rules a mean of squares. Each is known to about a tenth.
    mine, wanted = float(np.median(ours)), float(np.median(theirs))
    return {"mcmc": name, "error": mine, "of numpy in fewer steps": wanted, "good": mine <= 1.25 * wanted}


def first(values, target):
    return next((i + 1 for i, y in enumerate(values) if y is not None and y <= target), None)


def optimum(name, answers):
    from skopt import gp_minimize

    objective, _, box, most, target = OPTIMA[name]
    theirs = []
    for seed in range(TRIES):
        # What comes after the first hit does not count, and each step takes longer than the one before.
        is_found = lambda state: state.fun <= target
        found = gp_minimize(objective, box, n_calls=most, n_initial_points=10, acq_func="EI", noise=1e-10, random_state=seed, callback=[is_found])
        theirs.append(first(found.func_vals, target) or most + 1)
    ours = [first(a["history"]["y"], target) or 10**6 for a in answers]
    mine, wanted = float(np.median(ours)), float(np.median(theirs))
    return {"bayesopt": name, "evaluations": ours, "of scikit-optimize": theirs, "good": mine <= MORE * wanted}


def simplex(answers, args):
    ours, theirs = [], []
    for answer, it in zip(answers, args):
        options = {"xatol": 1e-8, "fatol": 1e-8, "maxiter": 5000, "maxfev": 10**6}
        found = optimize.minimize(optimize.rosen, it["x0"], method="Nelder-Mead", options=options)
        ours.append(answer["iterations"] if answer["f"] <= found.fun + 1e-9 else 10**6)
        theirs.append(found.nit)
    return {"optimize": "rosenbrock", "iterations": ours, "of scipy": theirs, "good": all(a <= MORE * b for a, b in zip(ours, theirs))}


def main():
    if sys.argv[1] == "cases":
        json.dump(cases(sys.argv[2]), sys.stdout)
        return
    groups = {}
    for it in json.load(sys.stdin):
        if it.get("error"):
            sys.exit(f"{it['case']['name']}: {it['error']}")
        groups.setdefault((it["case"]["tool"], it["case"]["name"]), []).append((it["answer"], it["case"]["args"]))
    verdicts = []
    for (tool, name), found in groups.items():
        answers = [answer for answer, _ in found]
        if tool == "mcmc":
            verdicts.append(posterior(name, answers))
        elif tool == "bayesopt":
            verdicts.append(optimum(name, answers))
        else:
            verdicts.append(simplex(answers, [args for _, args in found]))
    json.dump(verdicts, sys.stdout)


main()
