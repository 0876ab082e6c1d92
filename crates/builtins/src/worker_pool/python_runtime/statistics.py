class _toolkeep_Statistics:
    StatisticsError = ValueError

    def _data(self, data, least, what):
        data = [int(x) if isinstance(x, bool) else x for x in data]
        if len(data) < least:
            raise ValueError(what + ' requires at least ' + ('one data point' if least == 1 else 'two data points'))
        return data

    def _total(self, data):
        # Exact: what each sum loses is carried along in parts that do not overlap.
        parts = []
        for x in data:
            x = float(x)
            kept = []
            for y in parts:
                if abs(x) < abs(y):
                    x, y = y, x
                high = x + y
                low = y - (high - x)
                if low:
                    kept.append(low)
                x = high
            kept.append(x)
            parts = kept
        total = 0.0
        for part in parts:
            total += part
        return total

    def mean(self, data):
        data = self._data(data, 1, 'mean')
        total = sum(data)
        if isinstance(total, int) and total % len(data) == 0:
            return total // len(data)
        return self.fmean(data)

    def fmean(self, data, weights=None):
        data = [float(x) for x in self._data(data, 1, 'fmean')]
        if weights is None:
            return self._total(data) / len(data)
        weights = [float(w) for w in weights]
        if len(weights) != len(data):
            raise ValueError('data and weights must be the same length')
        return self._total([x * w for x, w in zip(data, weights)]) / self._total(weights)

    def geometric_mean(self, data):
        import math
        data = self._data(data, 1, 'geometric mean')
        return math.exp(self._total([math.log(x) for x in data]) / len(data))

    def harmonic_mean(self, data):
        data = self._data(data, 1, 'harmonic_mean')
        return len(data) / self._total([1 / x for x in data])

    def median(self, data):
        data = sorted(self._data(data, 1, 'median'))
        half = len(data) // 2
        return data[half] if len(data) % 2 else (data[half - 1] + data[half]) / 2

    def median_low(self, data):
        data = sorted(self._data(data, 1, 'median'))
        return data[(len(data) - 1) // 2]

    def median_high(self, data):
        data = sorted(self._data(data, 1, 'median'))
        return data[len(data) // 2]

    def multimode(self, data):
        counts = {}
        for x in data:
            counts[x] = counts.get(x, 0) + 1
        most = max(counts.values()) if counts else 0
        return [x for x in counts if counts[x] == most]

    def mode(self, data):
        modes = self.multimode(data)
        if not modes:
            raise ValueError('no mode for empty data')
        return modes[0]

    def _squares(self, data, center):
        center = self.mean(data) if center is None else center
        return self._total([(x - center) ** 2 for x in data])

    def _exact(self, data, value):
        whole = all([isinstance(x, int) for x in data]) and value == int(value)
        return int(value) if whole else value

    def pvariance(self, data, mu=None):
        data = self._data(data, 1, 'pvariance')
        return self._exact(data, self._squares(data, mu) / len(data))

    def variance(self, data, xbar=None):
        data = self._data(data, 2, 'variance')
        return self._exact(data, self._squares(data, xbar) / (len(data) - 1))

    def pstdev(self, data, mu=None):
        import math
        return math.sqrt(self.pvariance(data, mu))

    def stdev(self, data, xbar=None):
        import math
        return math.sqrt(self.variance(data, xbar))

    def quantiles(self, data, n=4, method='exclusive'):
        data = sorted(self._data(data, 2, 'quantiles'))
        if n < 1:
            raise ValueError('n must be at least 1')
        found = []
        for i in range(1, n):
            if method == 'inclusive':
                place, rest = divmod(i * (len(data) - 1), n)
                low, high = data[place], data[min(place + 1, len(data) - 1)]
            else:
                place = min(max(i * (len(data) + 1) // n, 1), len(data) - 1)
                rest = i * (len(data) + 1) - place * n
                low, high = data[place - 1], data[place]
            found.append((low * (n - rest) + high * rest) / n)
        return found

    def _pairs(self, x, y):
        x, y = self._data(x, 2, 'covariance'), self._data(y, 2, 'covariance')
        if len(x) != len(y):
            raise ValueError('both inputs must have the same number of data points')
        a, b = self.fmean(x), self.fmean(y)
        return [p - a for p in x], [q - b for q in y]

    def covariance(self, x, y):
        x, y = self._pairs(x, y)
        return self._total([a * b for a, b in zip(x, y)]) / (len(x) - 1)

    def correlation(self, x, y):
        import math
        x, y = self._pairs(x, y)
        below = math.sqrt(self._total([a * a for a in x]) * self._total([b * b for b in y]))
        if below == 0:
            raise ValueError('at least one of the inputs is constant')
        return self._total([a * b for a, b in zip(x, y)]) / below


_toolkeep_statistics = _toolkeep_Statistics()
