"""Estimates the cost of attacks on the keys of `keys.tsv` and records it in `estimates.tsv`.

Run with SageMath's Python. The first argument is the directory of the lattice estimator:

    sage -python estimate.py ESTIMATOR [--again] [--jobs N] [--only TEXT]

Rows that exist are kept; `--again` computes them anew and reports each difference.
"""

import argparse
import csv
import dataclasses
import datetime
import multiprocessing
import pathlib
import subprocess
import sys
import warnings
from math import inf, isfinite, log2, sqrt

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
    shape = {"red_shape_model": "gsa"}
    matzov = {"red_cost_model": RC.MATZOV}
    try:
        if attack.startswith(("rotations", "hybrid")):
            usvp = LWE.primal_usvp(params, **matzov, **shape)
            if usvp["rop"] == oo and key.weight is None:
                return inf, "no block size is enough"
            block = int(usvp["beta"]) if usvp["rop"] < oo else 0
            targets = key.rotations_log2 if attack.startswith("rotations") else 0
            cost, choices = rotations.attack(key, targets, attack.partition(", ")[2] or "patterns", Model(block))
            return cost, " ".join(f"{what}={value}" for what, value in choices.items())
        found = {
            "usvp": lambda: LWE.primal_usvp(params, **matzov, **shape),
            "usvp, quantum": lambda: LWE.primal_usvp(params, red_cost_model=type(RC.MATZOV)(nn="quantum"), **shape),
            "bdd": lambda: LWE.primal_bdd(params, **matzov, **shape),
            "dual": lambda: LWE.dual(params, **matzov),
            "dual hybrid": lambda: LWE.dual_hybrid(params, **matzov),
            "dual hybrid, sparse": lambda: sparse_dual_hybrid(params, mitm_optimization=True, **matzov),
        }[attack]()
    except ArithmeticError as failure:
        # The estimator divides by zero at some moduli. A modulus of one bit more is easier to attack.
        if key.modulus_log2 > modulus_log2:
            raise
        cost, choices = estimate(dataclasses.replace(key, modulus_log2=key.modulus_log2 + 1), attack, modulus_log2)
        return cost, f"{choices} for one bit more: {failure}"
    rop = found["rop"]
    choices = [f"{what}={found[what]}" for what in ("beta", "d", "zeta", "p", "t") if what in found]
    return (float(log2(rop)) if rop < inf else inf), " ".join(choices)


if __name__ == "__main__":
    main()
