"""Cases for what is drawn and for `bayesopt`, and what matplotlib, numpy and scikit-learn say to the answers.

Pictures are read back: braille dots by their bits, sixels by a decoder of our own, and put against where numpy puts the
points.
"""

import base64
import math
import re
import unicodedata
import warnings

import numpy as np
from scipy import ndimage, stats

RANDOM = 200


def scaled(values, low, high, dots):
    return np.round((np.asarray(values, dtype=float) - low) / (high - low) * (dots - 1))


def dots(text):
    """The dots of a braille plot as (x, y) from the lower left, and their numbers across and up."""
    rows = []
    for line in text.split("\n"):
        found = re.search("[┤│]", line)
        if found:
            rows.append(line[found.end():])
    width, found = max(map(len, rows)), set()
    bits = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]]
    for r, row in enumerate(rows):
        for c, sign in enumerate(row):
            code = ord(sign) - 0x2800
            if not 0 <= code < 256:
                raise ValueError(f"{sign!r} is no braille")
            for i in range(4):
                for j in range(2):
                    if code & bits[i][j]:
                        found.add((2 * c + j, 4 * len(rows) - 1 - (4 * r + i)))
    return found, 2 * width, 4 * len(rows)


def fits(text, args):
    lines = text.split("\n")
    width, height = args.get("width", 80), args.get("height", 20)
    if max(map(len, lines)) > width or len(lines) > height:
        return f"{max(map(len, lines))} × {len(lines)} characters, {width} × {height} were asked for"


def to_dots(points, found):
    """From each point to the nearest dot, by the larger of both directions; the worst of them."""
    points, found = np.unique(np.asarray(points, dtype=float), axis=0), np.array(sorted(found), dtype=float)
    across, up = (np.abs(points[:, i, None] - found[None, :, i]) for i in (0, 1))
    return float(np.max(np.min(np.maximum(across, up), axis=1)))


def to_line(found, line):
    """From each dot to the polyline; the worst of them."""
    # One direction after the other: a sum over an axis of two is slow.
    (x, y), (px, py) = np.asarray(line, dtype=float).T, np.array(sorted(found), dtype=float).T[:, :, None]
    ax, ay, wx, wy = x[:-1], y[:-1], np.diff(x), np.diff(y)
    length = wx * wx + wy * wy
    t = np.clip(((px - ax) * wx + (py - ay) * wy) / np.where(length == 0, 1, length), 0, 1)
    apart = np.maximum(np.abs(px - (ax + t * wx)), np.abs(py - (ay + t * wy)))
    return float(np.max(np.min(apart, axis=1)))


class Braille:
    """Every point has its dot, every dot its point or line, at most a dot and a half away."""

    def cases(self, r):
        cases = []
        for i in range(RANDOM):
            n = int(r.integers(2, 40))
            x = np.sort(r.uniform(-10, 10, n)) if i % 3 else np.arange(n, dtype=float)
            y = [r.normal(size=n), np.sin(x), np.cumsum(r.normal(size=n)), x**2 * 1e6, r.integers(0, 3, n).astype(float)][i % 5]
            cases.append({"x": x.tolist(), "y": y.tolist(), "plot_type": ["line", "scatter"][i % 2], "width": int(r.integers(40, 120)),
                          "height": int(r.integers(8, 40)), "title": ["", "A title", "x" * 190][i % 3]})
        hard = [([1], [1]), ([0, 1], [5, 5]), ([3, 3], [1, 2]), ([0, 1e-9], [0, 1]), ([-1e300, 1e300], [0, 1]), ([0, 1], [-1e307, 1e307]),
                ([0, 1, 2], [0, 0, 0]), ([2, 1, 0], [0, 1, 2]), ([0, 1], [1e-300, 2e-300]), ([1e9, 1e9 + 1], [0, 1])]
        for x, y in hard:
            cases += [{"x": x, "y": y, "plot_type": kind, "width": w, "height": h} for kind, w, h in (("line", 24, 6), ("scatter", 80, 20))]
        return cases

    def judge(self, args, answer, error):
        if error:
            return error
        if wide := fits(answer["plot"], args):
            return wide
        found, across, up = dots(answer["plot"])
        (x0, x1), (y0, y1) = answer["x_range"], answer["y_range"]
        x, y = np.array(args["x"], dtype=float), np.array(args["y"], dtype=float)
        for values, low, high in ((x, x0, x1), (y, y0, y1)):
            if np.ptp(values) > 1e-12 * np.max(np.abs(values)) and (low, high) != (values.min(), values.max()):
                return f"the range is {low} to {high}, the numbers {values.min()} to {values.max()}"
        # Halves, because a range may be larger than any number.
        points = list(zip(scaled(x / 2, x0 / 2, x1 / 2, across), scaled(y / 2, y0 / 2, y1 / 2, up)))
        worst = to_dots(points, found)
        if args["plot_type"] == "scatter":
            worst = max(worst, to_dots(list(found), points))
        elif len(points) > 1:
            worst = max(worst, to_line(found, points))
        return worst, 1.5


class Function:
    def cases(self, r):
        forms = ["{a}*x^2 - x", "sin({a}*x)", "exp(-{a}*x^2)", "x^3 - {a}*x", "cos(x) + {a}*x", "1/(1+{a}*x^2)", "abs(x - {a})", "sqrt({a} + x^2)"]
        cases = []
        for i in range(RANDOM):
            text = forms[i % 8].format(a=round(r.uniform(0.3, 3), 3))
            low = round(r.uniform(-6, 0), 3)
            cases.append({"function": text, "x_min": low, "x_max": round(low + r.uniform(1, 9), 3), "width": int(r.integers(40, 110)),
                          "height": int(r.integers(8, 36))})
        hard = ["0*x", "5", "x", "1e-200*x", "1e200*x", "floor(x)", "sign(x)", "sin", "cos", "exp", "tanh", "sigmoid", "gaussian", "x^10", "-x",
                "abs(sin(3*x))", "sqrt(x)", "log(x)", "max(x, 0)", "min(1, x^2)"]
        return cases + [{"function": text} for text in hard]

    def judge(self, args, answer, error):
        if error:
            return error
        if wide := fits(answer["plot"], args):
            return wide
        low, high = args.get("x_min", -3.14159), args.get("x_max", 3.14159)
        names = {k: getattr(np, k) for k in ("sin", "cos", "exp", "sqrt", "floor", "sign", "log", "tanh")}
        names |= {"abs": np.abs, "max": np.maximum, "min": np.minimum}
        x = np.linspace(low, high, 2001)
        named = {"sigmoid": "1/(1+exp(-x))", "gaussian": None}
        text = args["function"]
        if text in ("sin", "cos", "exp", "tanh"):
            text += "(x)"
        text = (named.get(text) or text).replace("^", "**")
        if text == "gaussian":
            y = np.exp(-x * x / 2) / (math.sqrt(2 * math.pi) if answer["y_range"][1] < 0.9 else 1)
        else:
            with np.errstate(all="ignore"):
                y = np.broadcast_to(eval(text, dict(names, x=x)), x.shape).astype(float)
        good = np.isfinite(y)
        if abs(answer["undefined"] - int(np.sum(~good))) > 1:
            return f"{answer['undefined']} places undefined, wanted {np.sum(~good)}"
        found, across, up = dots(answer["plot"])
        (x0, x1), (y0, y1) = answer["x_range"], answer["y_range"]
        if (x0, x1) != (low, high):
            if good.all():
                return f"x_range {x0} to {x1}"
        room = (y1 - y0) * 1e-3
        inside = good & (y >= y0 - room) & (y <= y1 + room)
        if not answer["clipped"] and not inside[good].all():
            return "not clipped, and less than all of it"
        points = list(zip(scaled(x, x0, x1, across)[inside], scaled(y, y0, y1, up)[inside]))
        return max(to_dots(points, found), to_line(list(found)[::3], points)), 1.5


class Histogram:
    """The bins of matplotlib's `hist`, and bars as high as they are full."""

    def cases(self, r):
        cases = []
        for i in range(RANDOM):
            n = int(r.integers(2, 500))
            data = [r.normal(size=n), r.exponential(2, n), r.integers(0, 10, n).astype(float), r.standard_t(1, n), r.uniform(-1, 1, n)][i % 5]
            cases.append({"data": data.tolist(), "bins": int(r.integers(1, 40)), "width": int(r.integers(60, 120)), "height": int(r.integers(8, 30))})
        hard = [[0.0], [1.0, 1.0], [0.0, 1.0], list(range(100)), [1e-300, 2e-300], [1e15, 1e15 + 1], [-1e307, 1e307], [0.1] * 9 + [0.3], [1e6, -1e6],
                [0.1, 0.2, 0.3, 0.4, 0.5], [1, 2, 2, 3, 3, 3], [-5, -5, 5], [1e-9, 1], [3.0] * 50, [0, 0, 0, 1e-12], [1.5] * 2 + [2.5] * 3,
                [x / 10 for x in range(11)], [x / 3 for x in range(31)], [-0.0, 0.0], [7]]
        return cases + [{"data": [float(x) for x in d], "bins": 10} for d in hard]

    def judge(self, args, answer, error):
        from matplotlib.figure import Figure

        try:
            counts, edges, _ = Figure().add_axes((0, 0, 1, 1)).hist(args["data"], bins=args["bins"], histtype="step")
        except ValueError as why:
            return None if error else f"wanted an error: {why}"
        if error:
            return error
        if wide := fits(answer["plot"], args):
            return wide
        found = np.array(answer["bin_edges"])
        width = float(edges[-1] / 2 - edges[0] / 2) * 2
        apart = float(np.max(np.abs(found / 2 - edges / 2)) / max(np.max(np.abs(edges)), 1e-300))
        # What lies on an edge to the last digit may be on either side of it.
        data = np.array(args["data"])
        near = sum(int(np.sum(np.abs(data - edge) <= 4e-16 * max(abs(edge), width))) for edge in edges[1:-1])
        if np.sum(np.abs(counts - np.array(answer["counts"]))) > 2 * near:
            return f"counts {answer['counts']}, wanted {counts.tolist()}"
        seen, across, up = dots(answer["plot"])
        tallest = {}
        for x, y in seen:
            tallest[x] = max(y, tallest.get(x, -1))
        top = max(answer["counts"])
        for left, right, count in zip(found, found[1:], answer["counts"]):
            (a, b) = scaled([left / 2, right / 2], found[0] / 2, found[-1] / 2, across)
            heights = {x: tallest.get(x, -1) for x in range(int(a), max(int(b), int(a) + 1)) if x < across}
            wanted = round(count / top * (up - 1))
            # The columns at its sides may be shared with its neighbours.
            if any(abs(h - wanted) > 1 and (count or h >= 0) for h in list(heights.values())[1:-1]):
                return f"a bar is {heights} dots high, wanted {wanted}"
        return apart, 1e-14


def picture(text):
    """Sixels as rows of numbers of colours, and the colours by number: (r, g, b) in hundredths."""
    body = re.fullmatch("\x1bPq(.*)\x1b\\\\", text, re.S).group(1)
    width, height = map(int, re.match(r'"1;1;(\d+);(\d+)', body).groups())
    pixels = np.full((height + 6, width), -1)
    colours, x, top, colour = {}, 0, 0, None
    for part in re.finditer(r'"[\d;]*|#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)(.)|(\$)|(-)|([?-~])', body):
        number, red, green, blue, times, sign, back, down, one = part.groups()
        if number and red:
            named = (int(red), int(green), int(blue))
            assert colours.setdefault(int(number), named) == named
        elif number:
            colour = int(number)
            assert colour in colours
        elif back:
            x = 0
        elif down:
            x, top = 0, top + 6
        elif sign or one:
            bits, run = ord(sign or one) - 63, int(times or 1)
            for row in range(6):
                if bits >> row & 1:
                    pixels[top + row, x:x + run] = colour
            x += run
    return pixels[:height], np.array([colours.get(i, (-1, -1, -1)) for i in range(max(colours) + 1)])


class Sixel:
    """Points are found again as spots; where they are is linear in their numbers, to a pixel."""

    def cases(self, r):
        cases = []
        for i in range(RANDOM):
            n = int(r.integers(2, 12))
            x = r.permutation(40)[:n] * float(10.0 ** r.integers(-3, 4))
            y = r.permutation(20)[:n] * float(10.0 ** r.integers(-3, 4))
            cases.append({"x": x.tolist(), "y": y.tolist(), "plot_type": "scatter", "width": int(r.integers(420, 560)), "height": int(r.integers(280, 400)),
                          "title": ["", "Spots"][i % 2], "colors": [["red", "blue", "green", "#d62728"][i % 4]]})
        x = list(range(5))
        hard = [{"x": [1], "y": [1]}, {"x": x, "y": [3] * 5}, {"x": x, "y": [0, 1, 0, 1, 0]}, {"x": [0, 1e-9], "y": [0, 1]}, {"x": [0, 1], "y": [-1e300, 1e300]},
                {"x": x, "y": [x, x[::-1]]}, {"x": [0, 1], "y": [0, 1], "width": 160, "height": 120}, {"x": [0, 1], "y": [0, 1], "width": 2000, "height": 1500},
                {"x": x, "y": x, "title": "t" * 200}, {"x": [5, 5], "y": [1, 2]}]
        return cases + [dict(h, plot_type=kind) for h in hard for kind in ("line", "scatter")]

    def judge(self, args, answer, error):
        if error:
            return error
        pixels, colours = picture(base64.b64decode(answer["sixel"]).decode())
        width, height = args.get("width", 800), args.get("height", 400)
        if pixels.shape != (height, width) or (pixels < 0).any():
            return f"{pixels.shape} pixels, some of them unset: {(pixels < 0).any()}"
        coloured = (colours.max(axis=1) - colours.min(axis=1) > 15)[pixels]
        if not coloured.any():
            return "nothing is drawn"
        edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
        if (colours[edge] < 100).any():
            return "something reaches the edge"
        if args["plot_type"] == "line" or "colors" not in args:
            return 0.0, 1.0
        spots, count = ndimage.label(coloured, structure=np.ones((3, 3)))
        if count != len(args["x"]):
            return f"{count} spots, wanted {len(args['x'])}"
        centres = np.array(ndimage.center_of_mass(coloured, spots, range(1, count + 1)))
        order, found = np.argsort(args["x"]), centres[np.argsort(centres[:, 1])]
        worst = 0.0
        for values, places in ((np.array(args["x"])[order], found[:, 1]), (np.array(args["y"])[order], found[:, 0])):
            fit = np.polyfit(values / np.ptp(values), places, 1) if np.ptp(values) else [0, places.mean()]
            worst = max(worst, float(np.max(np.abs(np.polyval(fit, values / (np.ptp(values) or 1)) - places))))
        return worst, 1.0


LETTERS = list("abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ") + ["\\alpha", "\\beta", "\\gamma", "\\delta", "\\theta", "\\lambda", "\\mu", "\\pi", "\\omega"]


class Formula:
    """The letters of matplotlib's mathtext, above and beside each other as it sets them."""

    def cases(self, r):
        def tree(depth, letters):
            if depth == 0 or len(letters) < 3 or r.random() < 0.15:
                return letters.pop()
            kind = int(r.integers(0, 9))
            part = lambda: tree(depth - 1, letters)
            if kind == 0:
                return f"\\frac{{{part()}}}{{{part()}}}"
            if kind == 1:
                return f"{letters.pop()}^{{{part()}}}"
            if kind == 2:
                return f"{letters.pop()}_{{{letters.pop()}}}"
            if kind == 3:
                return f"\\sqrt{{{part()}}}"
            if kind == 4:
                return f"\\left({part()}\\right)"
            if kind == 5:
                return f"{part()} {r.choice(['+', '-', '=', chr(92) + 'cdot', chr(92) + 'leq', chr(92) + 'times'])} {part()}"
            if kind == 6:
                return f"\\sum_{{{letters.pop()}}}^{{{letters.pop()}}} {part()}"
            if kind == 7:
                return f"\\{r.choice(['sin', 'cos', 'log', 'exp'])} {letters.pop()}"
            return f"{part()} {part()}"

        found = []
        for _ in range(RANDOM):
            letters = [str(x) for x in r.permutation(LETTERS)]
            found.append({"latex": tree(3, letters)})
        hard = ["x", "\\frac{a}{\\frac{b}{\\frac{c}{d}}}", "\\sqrt{\\sqrt{\\sqrt{x}}}", "a^{b^{c}}", "a_{b_{c}}", "x_{a}^{b}", "\\frac{a+b}{c}", "\\frac{a}{b+c+d+e}",
                "\\left(\\frac{a}{b}\\right)^{n}", "\\int_{a}^{b} f", "\\prod_{k}^{n} x", "\\alpha + \\beta", "a \\neq b", "\\infty", "\\frac{\\sqrt{a}}{\\sqrt{b}}",
                "\\hat{x}", "\\left[a\\right]", "\\sqrt[n]{x}", "a \\to b", "e^{-x}"]
        return found + [{"latex": text} for text in hard]

    def judge(self, args, answer, error):
        from matplotlib import mathtext
        from matplotlib.font_manager import FontProperties

        if error:
            return error
        parser = mathtext.MathTextParser("path")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # As displayed: with limits above and below.
            set_ = parser.parse(f"${args['latex']}$", dpi=72, prop=FontProperties(size=10, math_fontfamily="dejavusans"))
        wanted = [(chr(code), x, y, size) for _, size, code, *_, x, y in set_.glyphs if chr(code).isalpha()]
        found = []
        for row, line in enumerate(answer["rendered"].split("\n")):
            for column, sign in enumerate(line):
                plain = unicodedata.normalize("NFKC", sign)
                if len(plain) == 1 and plain.isalpha() and plain not in "∑∏∫":
                    raised = {"<super>": -0.4, "<sub>": 0.4}.get(unicodedata.decomposition(sign).split(" ")[0], 0)
                    found.append((plain, column, row + raised))
        fold = lambda sign: unicodedata.normalize("NFKC", sign)
        a, b = sorted(fold(w[0]) for w in wanted), sorted(f[0] for f in found)
        if a != b:
            return f"the letters are {''.join(b)}, matplotlib's {''.join(a)}: {answer['rendered']!r}"
        alone = [sign for sign in set(a) if a.count(sign) == 1]
        place = {f[0]: f[1:] for f in found}
        theirs = {fold(w[0]): w[1:] for w in wanted}
        bad = 0
        for one in alone:
            for other in alone:
                (c1, r1), (c2, r2) = place[one], place[other]
                (x1, y1, s1), (x2, y2, s2) = theirs[one], theirs[other]
                # Well above there is above here; well to the left at the same height is to the left.
                if y1 - y2 > 5 and r1 > r2:
                    bad += 1
                if abs(y1 - y2) < 1e-6 and x2 - x1 > 3 and r1 == r2 and c1 >= c2:
                    bad += 1
        return float(bad), 0.5


class Bayes:
    """The acquisition at the last place, by scikit-learn's process with the same kernel, as a part of the highest there is."""

    def cases(self, r):
        cases = []
        for i in range(RANDOM):
            d = 1 + i % 2
            a, b = round(r.uniform(0.5, 3), 2), round(r.uniform(-1, 1), 2)
            forms = [f"sin({a}*x0) + {b}*x0", f"-(x0-({b}))**2", f"exp(-{a}*(x0-({b}))**2) + 0.1*x0"]
            two = [f"sin({a}*x0)*cos(x1)", f"-(x0-({b}))**2 - {a}*(x1-0.3)**2", f"exp(-(x0-({b}))**2-{a}*x1**2)"]
            cases.append({"objective": (forms if d == 1 else two)[i // 2 % 3], "bounds": [[-2, 2]] * d, "n_init": 5, "n_iter": int(r.integers(1, 7)),
                          "acquisition": ["ei", "ucb", "ei"][i % 3], "mode": ["maximize", "minimize"][i // 3 % 2], "noise": 1e-4, "seed": int(r.integers(1 << 30))})
        hard = [{"objective": "7"}, {"objective": "x0"}, {"objective": "-abs(x0)"}, {"objective": "1e6*x0"}, {"objective": "1e-6*x0"}, {"objective": "sign(x0)"},
                {"objective": "sqrt(x0)"}, {"objective": "log(x0)"}, {"objective": "exp(-1000*x0**2)"}, {"objective": "sin(30*x0)"}]
        for h in hard:
            cases += [dict(h, bounds=[[-1, 1]], n_init=n, n_iter=4, noise=1e-4, seed=3) for n in (2, 6)]
        return cases

    def judge(self, args, answer, error):
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern

        x = np.array(answer["history"]["X"]) if answer else None
        names = {k: getattr(np, k) for k in ("sin", "cos", "exp", "sqrt", "log", "sign", "abs")}
        if error:
            return error
        with np.errstate(all="ignore"):
            f = lambda p: float(np.asarray(eval(args["objective"], dict(names, **{f"x{i}": v for i, v in enumerate(p)}))))
            wanted = np.array([f(p) for p in x])
        y = np.array([np.nan if v is None else v for v in answer["history"]["y"]], dtype=float)
        wanted[~np.isfinite(wanted)] = np.nan
        if not np.allclose(y, wanted, rtol=1e-9, atol=1e-12, equal_nan=True):
            return "the history is not that of the objective"
        low, high = np.array(args["bounds"], dtype=float).T
        if (x < low - 1e-12).any() or (x > high + 1e-12).any() or len(x) != args["n_init"] + args["n_iter"]:
            return "places outside, or not as many as asked"
        sign = -1.0 if args.get("mode") == "minimize" else 1.0
        best = np.nanargmax(sign * y)
        if answer["y_best"] != y[best]:
            return f"y_best {answer['y_best']}, wanted {y[best]}"
        # The model that chose the last place had seen all others.
        unit, before = (x - low) / (high - low), sign * y[:-1]
        before = np.where(np.isfinite(before), before, np.nanmin(before))
        if np.isfinite(sign * y[:-1]).sum() < 2 or np.std(before) == 0:
            return 0.0, 0.1
        mean, deviation = before.mean(), before.std()
        kernel = ConstantKernel(answer["model"]["signal_variance"]) * Matern(np.array(answer["model"]["length_scales"]) / (high - low), nu=2.5)
        process = GaussianProcessRegressor(kernel, alpha=args["noise"], optimizer=None).fit(unit[:-1], (before - mean) / deviation)
        top = (np.nanmax(sign * y[:-1]) - mean) / deviation

        def promise(places):
            m, s = process.predict(places, return_std=True)
            if args.get("acquisition") == "ucb":
                return m + 2 * s
            z = (m - top) / np.maximum(s, 1e-12)
            return np.where(s < 1e-12, 0.0, s * (z * stats.norm.cdf(z) + stats.norm.pdf(z)))

        grid = np.linspace(0, 1, 4001)[:, None] if len(low) == 1 else np.stack(np.meshgrid(*[np.linspace(0, 1, 121)] * 2), -1).reshape(-1, 2)
        promised = promise(grid)
        most, own = float(np.max(promised)), float(promise(unit[-1:])[0])
        # Where it is highest beside what was seen, another look teaches nothing, and any other place is as good.
        if np.min(np.max(np.abs(unit[:-1] - grid[np.argmax(promised)]), axis=1)) < 0.01:
            return 0.0, 0.1
        if args.get("acquisition") != "ucb" and most < 1e-4:
            return 0.0, 0.1
        return max(0.0, (most - own) / max(abs(most), 1e-9)), 0.1


TOOLS = {"bayesopt": Bayes, "plot_braille": Braille, "plot_function": Function, "histogram": Histogram, "plot_sixel": Sixel, "render_math": Formula}
