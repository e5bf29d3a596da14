"""Estimates the cost of attacks on the keys of `keys.tsv` and records it in `estimates.tsv`.

Run with SageMath's Python. The first argument is the directory of the lattice estimator:

    sage -python estimate.py ESTIMATOR [--again] [--jobs N] [--only TEXT]

Rows that exist are kept; `--again` computes them anew and reports each difference.
"""

import argparse
import csv
import dataclasses
import datetime
import itertools
import multiprocessing
import pathlib
import subprocess
import sys
import warnings
from math import inf, isfinite, log, log2, sqrt
from unittest import mock

HERE = pathlib.Path(__file__).parent
COLUMNS = ["dimension", "modulus_log2", "secret", "noise", "rotations_log2"]
RESULT = COLUMNS + ["attack", "log2", "choices", "estimator", "date"]


@dataclasses.dataclass(frozen=True)
class Key:
    """A row of `keys.tsv`: a secret, and the noise of what is encrypted under it."""

    dimension: int
    modulus_log2: int
    secret: str
    noise_text: str
    rotations_log2: int

    @property
    def noise(self):
        """Standard deviation, in steps of the modulus."""
        return float(self.noise_text)

    @property
    def weight(self):
        """Number of nonzero coefficients, or none for uniform binary secrets."""
        return None if self.secret == "binary" else int(self.secret.removeprefix("ternary "))

    @property
    def secret_deviation(self):
        return 0.5 if self.weight is None else sqrt(self.weight / self.dimension)

    def attacks(self):
        names = ["usvp", "bdd", "dual hybrid", "usvp, quantum"]
        if self.weight is not None:
            names += ["dual", "dual hybrid, sparse", "hybrid", "hybrid, meeting"]
        if self.rotations_log2 > 0:
            names += ["rotations", "rotations, meeting", "rotations, representations"]
        elif self.weight is None:
            names += ["hybrid, meeting", "hybrid, representations"]
        return names


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("estimator", type=pathlib.Path)
    options.add_argument("--again", action="store_true")
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--only", default="")
    given = options.parse_args()

    keys = [Key(int(row[0]), int(row[1]), row[2], row[3], int(row[4])) for row in read("keys.tsv", COLUMNS)]
    known = {tuple(row[:6]): row for row in read("estimates.tsv", RESULT)}
    commit = subprocess.check_output(["git", "-C", given.estimator, "rev-parse", "--short=8", "HEAD"], text=True).strip()
    order = [(key, attack) for key in keys for attack in key.attacks()]
    tasks = [task for task in order if given.only in task[1] and (given.again or name(*task) not in known)]

    with multiprocessing.Pool(given.jobs, load, [given.estimator], maxtasksperchild=8) as pool:
        for key, attack, cost, choices in pool.imap_unordered(run, tasks):
            value = f"{cost:.1f}" if isfinite(cost) else "none"
            before = known.get(name(key, attack))
            if before and before[6] != value:
                print(f"{name(key, attack)}: {before[6]} before, {value} now")
            known[name(key, attack)] = [*name(key, attack), value, choices, commit, datetime.date.today().isoformat()]
            print(*known[name(key, attack)], sep="\t", flush=True)
            write([known[name(*task)] for task in order if name(*task) in known])


def name(key, attack):
    return (str(key.dimension), str(key.modulus_log2), key.secret, key.noise_text, str(key.rotations_log2), attack)


def read(file, columns):
    path = HERE / file
    if not path.exists():
        return []
    with path.open(newline="") as lines:
        header, *rows = csv.reader(lines, delimiter="\t")
    assert header == columns, f"{file}: {header}"
    return rows


def write(rows):
    with (HERE / "estimates.tsv").open("w", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows([RESULT, *rows])


def load(estimator):
    warnings.simplefilter("ignore")
    sys.path[:0] = [str(estimator), str(HERE)]


class Model:
    """The MATZOV cost model. BKZ starts the search at `first_block`, a block size near the best."""

    def __init__(self, first_block):
        from estimator.reduction import RC, cost, delta

        self.first_block = first_block
        self.delta = lambda block: float(delta(block))
        self.bkz_log2 = lambda block, dimension: log2(cost(RC.MATZOV, block, dimension)["rop"])
        self.sieve_log2 = lambda dimension: log2(cost(RC.MATZOV, dimension, dimension)["rop"])


def run(task):
    key, attack = task
    cost, choices = estimate(key, attack, key.modulus_log2)
    return key, attack, cost, choices


def least_usvp(params, red_cost_model):
    """The cheapest uSVP attack. Tries each block size: the estimator's own search of block sizes can
    end where the lattice is hardly larger than a block, which is a local minimum of the cost."""
    from estimator.conf import max_beta
    from estimator.cost import Cost
    from estimator.lwe_primal import PrimalUSVP
    from estimator.reduction import cost
    from sage.all import oo

    params = params.normalize()
    best = Cost(rop=oo)
    for block in range(40, max_beta):
        # A larger block costs more, and an attack costs at least one block.
        if cost(red_cost_model, block, block)["rop"] > best["rop"]:
            break
        found = PrimalUSVP.cost_gsa(block, params, red_cost_model=red_cost_model)
        if found["rop"] < best["rop"]:
            best = found
    return best


def least_dual_hybrid(params, red_cost_model):
    """The cheapest dual hybrid attack. The estimator's own search takes n samples, tries zeta and t in
    steps of 10, and stops at the first zeta that is worse than the one before. But a zeta also looks
    worse if its best t lies between two steps. So this search goes on until the guesses alone cost more
    than the best attack, and then tries each zeta and t around the best.

    The first pass takes the number of samples that leaves the least noise. The second pass also tries
    fewer, as reduction of a smaller lattice costs less, and more."""
    from estimator import lwe_dual
    from estimator.conf import max_beta
    from estimator.cost import Cost
    from estimator.reduction import cost, delta
    from sage.all import RR, e, oo, pi

    params = params.normalize()
    largest = max_beta - 1
    # Bounds the search where no attack has a finite cost.
    limit = cost(red_cost_model, largest, largest)["rop"]
    best = Cost(rop=oo)
    # A large modulus has no float.
    scale_log = float((RR(params.q) * params.Xs.stddev / params.Xe.stddev).log())
    delta_log = [log(delta(block)) if block >= 40 else inf for block in range(max_beta)]

    def least_noise(block, zeta, t):
        """The number of samples that leaves the least noise, and the dimension of the lattice."""
        secrets = params.n - zeta - t
        dimension = max(secrets + 1, round(sqrt(secrets * scale_log / delta_log[block])))
        return dimension - secrets, dimension

    def attack(block, p, zeta, t, m=None):
        m = least_noise(block, zeta, t)[0] if m is None else m
        return lwe_dual.MATZOV.cost(block, params, m=m, p=p, k_enum=zeta, k_fft=t, red_cost_model=red_cost_model)

    def is_too_much(p, zeta, t):
        # A guess costs least at the largest block, which needs the fewest short vectors.
        return attack(largest, p, zeta, t)["guess"] > min(limit, best["rop"])

    def least_near(near, step, lowest, highest, attempt):
        """The argument of the cheapest attempt. Goes down and up from `near`, past up to three that are
        worse."""
        nonlocal best
        least, choice = oo, near
        for start, stride in [(near, -step), (near + step, step)]:
            at, worse = start, 0
            while lowest <= at <= highest and worse < 4:
                found = attempt(at)
                worse += 1
                if found["rop"] < least:
                    least, choice, worse = found["rop"], at, 0
                if found["rop"] < best["rop"]:
                    best = found
                at += stride
        return choice

    def best_block(p, zeta, t, near):
        return least_near(near, 1, 40, largest, lambda block: attack(block, p, zeta, t))

    def best_block_and_samples(p, zeta, t, near):
        def attempt(block):
            found = attack(block, p, zeta, t)
            # Another number of samples hardly ever saves more than this.
            if found["rop"] < 1.2 * best["rop"]:
                m, dimension = least_noise(block, zeta, t)
                step = max(1, dimension // 400)
                least_near(m, step, 1, oo, lambda m: attack(block, p, zeta, t, m))
            return found

        least_near(near, 1, 40, largest, attempt)

    # The cost function is four times as fast with numbers as with Sage's symbols.
    with mock.patch.multiple(lwe_dual, pi=RR(pi), e=RR(e)):
        first = min(range(largest, 39, -1), key=lambda block: attack(block, 2, 0, 0)["rop"])
        for p in (2, 3):
            for zeta in range(0, params.n, 10):
                if is_too_much(p, zeta, 0):
                    break
                block = first
                for t in range(0, params.n - zeta, 10):
                    if is_too_much(p, zeta, t):
                        break
                    block = best_block(p, zeta, t, block)
        centre, tried = None, set()
        while best["rop"] < oo and centre != (best["zeta"], best["t"]):
            centre = best["zeta"], best["t"]
            around = itertools.product(*(range(max(0, middle - 10), middle + 11) for middle in centre))
            for zeta, t in sorted(set(around) - tried):
                tried.add((zeta, t))
                if zeta + t < params.n and not is_too_much(best["p"], zeta, t):
                    best_block_and_samples(best["p"], zeta, t, best["beta"])
        if best["rop"] < oo:
            choices = best["beta"], best["p"], best["zeta"], best["t"]
            least_near(best["m"], 1, 1, oo, lambda m: attack(*choices, m))
    return best


def estimate(key, attack, modulus_log2):
    import rotations
    from estimator import LWE, ND, RC
    from sage.all import oo
    from estimator.lwe_dual import dual_hybrid as sparse_dual_hybrid

    if key.weight is None:
        secret = ND.Uniform(0, 1)
    else:
        secret = ND.SparseTernary(key.weight // 2, key.weight - key.weight // 2, key.dimension)
    params = LWE.Parameters(
        n=key.dimension, q=2**key.modulus_log2, Xs=secret, Xe=ND.DiscreteGaussian(key.noise), m=oo
    )
    matzov = {"red_cost_model": RC.MATZOV}
    try:
        if attack.startswith(("rotations", "hybrid")):
            usvp = least_usvp(params, **matzov)
            if usvp["rop"] == oo and key.weight is None:
                return inf, "no block size is enough"
            block = int(usvp["beta"]) if usvp["rop"] < oo else 0
            targets = key.rotations_log2 if attack.startswith("rotations") else 0
            cost, choices = rotations.attack(key, targets, attack.partition(", ")[2] or "patterns", Model(block))
            return cost, " ".join(f"{what}={value}" for what, value in choices.items())
        found = {
            "usvp": lambda: least_usvp(params, **matzov),
            "usvp, quantum": lambda: least_usvp(params, red_cost_model=type(RC.MATZOV)(nn="quantum")),
            "bdd": lambda: LWE.primal_bdd(params, **matzov, red_shape_model="gsa"),
            "dual": lambda: LWE.dual(params, **matzov),
            "dual hybrid": lambda: least_dual_hybrid(params, **matzov),
            "dual hybrid, sparse": lambda: sparse_dual_hybrid(params, mitm_optimization=True, **matzov),
        }[attack]()
    except ArithmeticError as failure:
        # The estimator divides by zero at some moduli. A modulus of one bit more is easier to attack.
        if key.modulus_log2 > modulus_log2:
            raise
        cost, choices = estimate(dataclasses.replace(key, modulus_log2=key.modulus_log2 + 1), attack, modulus_log2)
        return cost, f"{choices} for one bit more: {failure}"
    rop = found["rop"]
    # The number of samples follows from the dimension, but not all results name the dimension.
    names = ("beta", "d" if "d" in found else "m", "zeta", "p", "t")
    choices = [f"{what}={found[what]}" for what in names if what in found]
    return (float(log2(rop)) if rop < inf else inf), " ".join(choices)


if __name__ == "__main__":
    main()
