"""The drop-and-rotate attack on a ring secret.

The attack drops some places of the secret, reduces the lattice of the other places once, and tries
each rotation X^i s of the secret on that one lattice. A rotation succeeds if the dropped places
hold one of the guessed patterns. `targets` is the number of rotations that share a lattice.

T rotations with S patterns each cost T S steps. If the guesses meet in the middle, the table of one
half serves all rotations, and they cost 2 sqrt(T S) steps. With representations (May, "How to meet
ternary LWE keys", CRYPTO 2021), a pattern of weight w is the sum of two halves in C(w, w/2) ways,
and one of them is enough. `representations` lets each way save its share of the halves, as if
finding halves that meet cost nothing: 2^(w/2) fewer steps. Halves with places that cancel are not
modelled. For binary patterns of p places the share is not reached: the best published algorithm takes
2^(0.283 p) steps (Bonnetain, Bricout, Schrottenloher and Shen, "Improved classical and quantum
algorithms for subset-sum", ASIACRYPT 2020). Memory costs nothing here.
"""

from math import erf, exp, inf, lgamma, log, log2, pi, sqrt

import numpy
from scipy.special import betainc


# log2 of the steps for each place of a binary pattern, with representations.
BINARY_PLACE_LOG2 = 0.283

# log2 of the cost of a pattern. Babai's algorithm takes d^2 operations, but the last places of its
# result already reject nearly all wrong patterns.
PATTERN_LOG2 = 8


def log2_sum(a, b):
    """log2 of the sum of two numbers, given by their log2."""
    if min(a, b) == -inf:
        return max(a, b)
    return max(a, b) + log2(1 + 2 ** (min(a, b) - max(a, b)))


def log2_binomial(n, k):
    if k < 0 or k > n:
        return -inf
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def guesses(key, dropped):
    """Triples (log2 of the number of patterns, log2 of their probability, log2 of the factor that
    representations save over meeting in the middle), most probable patterns first."""
    if key.weight is None:
        # Uniform binary: all patterns are equally likely.
        for patterns_log2 in range(dropped + 1):
            yield patterns_log2, patterns_log2 - dropped, (0.5 - BINARY_PLACE_LOG2) * patterns_log2
        return
    patterns, probability = -inf, -inf
    for weight in range(min(dropped, key.weight) + 1):
        patterns = log2_sum(patterns, log2_binomial(dropped, weight) + weight)
        hit = (
            log2_binomial(key.weight, weight)
            + log2_binomial(key.dimension - key.weight, dropped - weight)
            - log2_binomial(key.dimension, dropped)
        )
        probability = log2_sum(probability, hit)
        yield patterns, min(probability, 0.0), weight / 2


class Lattice:
    """The lattice without the dropped places after BKZ, under the geometric series assumption."""

    def __init__(self, key, block, dropped, delta):
        left = key.dimension - dropped
        scale = max(1.0, key.noise / key.secret_deviation)
        log_q, log_delta = key.modulus_log2 * log(2), log(delta)
        best = sqrt(left * (log_q - log(scale)) / log_delta)
        self.dimension = max(block, int(numpy.ceil(best)))
        volume = (self.dimension - left) * log_q + left * log(scale)
        index = numpy.arange(self.dimension)
        # Natural logarithms of the lengths of the Gram-Schmidt vectors.
        self.lengths = (self.dimension - 1 - 2 * index) * log_delta + volume / self.dimension
        self.noise = key.noise

    def babai_log2(self, until=None):
        """log2 of the probability that Babai's algorithm finds the noise, on the first vectors."""
        lengths = self.lengths[:until]
        count = len(lengths)
        radius = log(2 * self.noise * sqrt(count))
        beyond = 1 - numpy.exp(numpy.minimum(2 * (lengths - radius), 0.0))
        failure = betainc((count - 1) / 2, 0.5, beyond)
        return float(numpy.sum(numpy.log1p(-failure))) / log(2)

    def meeting_log2(self):
        """log2 of the probability that both halves of the right guess meet, by Son and Cheon."""
        x = numpy.minimum(numpy.exp(self.lengths) / (sqrt(2) * self.noise), 1e6)
        total = 0.0
        for value in x[x < 1e5]:
            total += log2(max(erf(value) - (1 - exp(-value * value)) / (value * sqrt(pi)), 1e-300))
        return total

    def last_block(self):
        """Dimension of the last block in which the noise is a shortest vector."""
        size = numpy.arange(2, min(self.dimension, 1754))
        volumes = numpy.cumsum(self.lengths[::-1])[size - 1]
        ball = numpy.array([(n + 1) / 2 * log(pi) - lgamma((n + 1) / 2 + 1) for n in size])
        shortest = (volumes + log(self.noise) - ball) / (size + 1)
        fits = shortest > 0.5 * numpy.log(self.noise**2 * (size + 1))
        return int(size[numpy.argmin(~fits)]) if fits.any() else None


def total_log2(reduction, step, targets, patterns, saved, hit, way):
    """log2 of the expected cost until one rotation succeeds."""
    tried = min(targets, max(0.0, -hit))
    repeats = max(0.0, -hit - tried)
    steps = tried + patterns
    if way != "patterns":
        steps = min(steps, 1 + (tried + patterns) / 2)
    if way == "representations":
        steps -= saved
    return repeats + log2_sum(reduction, step + steps)


def solvers(lattice, meet, model):
    """Ways to find the noise under a pattern: log2 of the cost, and of the probability. Ways that
    hardly ever succeed are left out."""
    babai = lattice.babai_log2()
    found = [("babai", PATTERN_LOG2, babai + lattice.meeting_log2() if meet and babai > -60 else babai)]
    last = None if meet else lattice.last_block()
    if last is not None:
        step = log2_sum(model.sieve_log2(last + 1), 2 * log2(lattice.dimension - last))
        found.append(("sieve", step, lattice.babai_log2(lattice.dimension - last)))
    return [way for way in found if way[2] > -60]


def attack(key, targets, way, model):
    """The cheapest attack: log2 of its cost, and its choices. `way` is `patterns`, which tries one by
    one, `meeting` or `representations`."""
    meet = way != "patterns"
    best = (inf, {})

    def visit(block, dropped):
        nonlocal best
        lattice = Lattice(key, block, dropped, model.delta(block))
        reduction = model.bkz_log2(block, lattice.dimension)
        if reduction >= best[0]:
            return
        for solver, step, solved in solvers(lattice, meet, model):
            worse, lowest = 0, inf
            for patterns, probability, saved in guesses(key, dropped):
                cost = total_log2(reduction, step, targets, patterns, saved, probability + solved, way)
                worse, lowest = (0, cost) if cost < lowest else (worse + 1, lowest)
                if worse > 8:
                    break
                if cost < best[0]:
                    best = (cost, {
                        "block": block, "dropped": dropped, "patterns": round(patterns, 1),
                        "hit": round(probability + solved, 2), "dimension": lattice.dimension,
                        "reduction": round(reduction, 2), "solver": solver,
                    })

    # A binary secret gains little from dropped places, unless each of them costs little to guess. A
    # very sparse one may lose nearly all of its places, and then needs little reduction.
    step = max(1, key.dimension // 1024)
    if key.weight is None:
        step = max(1, key.dimension // 64)
        if way == "representations":
            blocks, places = range(60, model.first_block + 16, 8), range(0, key.dimension, step)
        else:
            blocks = range(max(60, model.first_block - 16), model.first_block + 80, 8)
            places = range(0, key.dimension // 2, step)
    elif key.weight < key.dimension // 1024:
        blocks, places = range(60, 400, 8), range(key.dimension * 7 // 8, key.dimension - step, step)
    else:
        blocks = range(model.first_block - 32, model.first_block + 8, 4)
        places = range(0, key.dimension // 8, step)
    for block in blocks:
        for dropped in places:
            visit(block, dropped)
    # At the end of the range, a larger number of places might cost less.
    assert best[1].get("dropped", 0) < places[-1], f"{key}: {best}"
    while step > 1 and best[1]:
        step = max(1, step // 4)
        block, dropped = best[1]["block"], best[1]["dropped"]
        for near in range(max(50, block - 8), block + 9):
            for place in range(max(0, dropped - 8 * step), dropped + 8 * step + 1, step):
                visit(near, place)
    return best
