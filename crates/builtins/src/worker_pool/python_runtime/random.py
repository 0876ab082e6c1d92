class _toolkeep_Random:
    # The Mersenne Twister, so that a seed gives the numbers that it gives in CPython.
    def __init__(self, seed):
        self._next = None
        self.seed(seed)

    def seed(self, a=None):
        if a is None:
            return
        if isinstance(a, float) or isinstance(a, str):
            raise TypeError('the seed must be a whole number')
        a = abs(int(a))
        key = []
        while a:
            key.append(a & 0xffffffff)
            a >>= 32
        key = key or [0]
        state = [19650218]
        for i in range(1, 624):
            state.append((1812433253 * (state[i - 1] ^ (state[i - 1] >> 30)) + i) & 0xffffffff)
        i, j = 1, 0
        for k in range(max(624, len(key))):
            state[i] = ((state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1664525)) + key[j] + j) & 0xffffffff
            i, j = i + 1, (j + 1) % len(key)
            if i == 624:
                state[0] = state[623]
                i = 1
        for k in range(623):
            state[i] = ((state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30)) * 1566083941)) - i) & 0xffffffff
            i += 1
            if i == 624:
                state[0] = state[623]
                i = 1
        state[0] = 0x80000000
        self._state = state
        self._index = 624
        self._next = None

    def _word(self):
        if self._index == 624:
            state = self._state
            for i in range(624):
                y = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7fffffff)
                state[i] = state[(i + 397) % 624] ^ (y >> 1) ^ (0x9908b0df if y & 1 else 0)
            self._index = 0
        y = self._state[self._index]
        self._index += 1
        y ^= y >> 11
        y ^= (y << 7) & 0x9d2c5680
        y ^= (y << 15) & 0xefc60000
        return y ^ (y >> 18)

    def random(self):
        return ((self._word() >> 5) * 67108864.0 + (self._word() >> 6)) / 9007199254740992.0

    def getrandbits(self, k):
        value, shift = 0, 0
        while k > 0:
            word = self._word()
            value |= (word >> (32 - k) if k < 32 else word) << shift
            shift += 32
            k -= 32
        return value

    def _below(self, n):
        k, rest = 0, n
        while rest:
            k, rest = k + 1, rest >> 1
        value = self.getrandbits(k)
        while value >= n:
            value = self.getrandbits(k)
        return value

    def randrange(self, start, stop=None, step=1):
        choices = range(start) if stop is None else range(start, stop, step)
        if len(choices) == 0:
            raise ValueError('empty range for randrange()')
        return choices[self._below(len(choices))]

    def randint(self, a, b):
        return self.randrange(a, b + 1)

    def uniform(self, a, b):
        return a + (b - a) * self.random()

    def choice(self, seq):
        if len(seq) == 0:
            raise IndexError('Cannot choose from an empty sequence')
        return seq[self._below(len(seq))]

    def choices(self, population, weights=None, cum_weights=None, k=1):
        if weights is None and cum_weights is None:
            return [population[int(self.random() * float(len(population)))] for _ in range(k)]
        if cum_weights is None:
            cum_weights, total = [], 0
            for weight in weights:
                total += weight
                cum_weights.append(total)
        if len(cum_weights) != len(population):
            raise ValueError('The number of weights does not match the population')
        found = []
        for _ in range(k):
            value = self.random() * float(cum_weights[-1])
            at = 0
            while at < len(population) - 1 and cum_weights[at] <= value:
                at += 1
            found.append(population[at])
        return found

    def shuffle(self, x):
        for i in reversed(range(1, len(x))):
            j = self._below(i + 1)
            taken = x[i]
            x[i] = x[j]
            x[j] = taken

    def sample(self, population, k):
        import math
        n = len(population)
        if not 0 <= k <= n:
            raise ValueError('Sample larger than population or is negative')
        size = 21
        if k > 5:
            size += 4 ** math.ceil(math.log(k * 3) / math.log(4))
        if n <= size:
            pool = list(population)
            found = []
            for i in range(k):
                j = self._below(n - i)
                found.append(pool[j])
                pool[j] = pool[n - i - 1]
            return found
        places = {}
        for i in range(k):
            j = self._below(n)
            while j in places:
                j = self._below(n)
            places[j] = True
        return [population[j] for j in places]

    def gauss(self, mu=0.0, sigma=1.0):
        import math
        z = self._next
        self._next = None
        if z is None:
            angle = self.random() * 2 * math.pi
            length = math.sqrt(-2.0 * math.log(1.0 - self.random()))
            z = math.cos(angle) * length
            self._next = math.sin(angle) * length
        return mu + z * sigma

    def normalvariate(self, mu=0.0, sigma=1.0):
        import math
        while True:
            a = self.random()
            b = 1.0 - self.random()
            z = 1.7155277699214135 * (a - 0.5) / b
            if z * z / 4.0 <= -math.log(b):
                return mu + z * sigma

    def expovariate(self, lambd=1.0):
        import math
        return -math.log(1.0 - self.random()) / lambd


_toolkeep_random = _toolkeep_Random(_TOOLKEEP_SEED)
_toolkeep_random.Random = _toolkeep_Random
