"""Outcomes of mutants."""

import concurrent.futures
import time

import blame
import tree
import trial

TIMEOUT_SECONDS = 60
BASELINE_SECONDS = 3600


def of(name, sample, mutants, jobs):
    """Yields the identity and the outcome of each mutant.

    All mutants that can be switched share one build. Each other mutant needs a build of its own.
    """
    copy = tree.Tree(name, sample)
    numbered = dict(enumerate(mutants.values(), 1))
    identities = dict(enumerate(mutants, 1))
    switched, unviable = build(copy, numbered)
    yield from ((identities[number], "unviable") for number in unviable)
    limit = baseline(copy)
    print(f"{len(switched)} of {len(numbered)} mutants are switched; tests may take {limit:.0f} s", flush=True)
    threads = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        running = {threads.submit(trial.run, copy, numbered[it], limit, it): it for it in sorted(switched)}
        for done in concurrent.futures.as_completed(running):
            yield identities[running[done]], done.result()
    finally:
        threads.shutdown(cancel_futures=True)
    for number in sorted(numbered.keys() - switched - unviable):
        copy.restore()
        copy.replace(numbered[number])
        outcome = "unviable" if copy.build() else trial.run(copy, numbered[number], limit)
        yield identities[number], outcome


def build(copy, numbered):
    """Builds the copy with as many mutants as can be switched. Returns the numbers of these mutants
    and of those that compile in no build."""
    left = {number: mutant for number, mutant in numbered.items() if not returns_opaque(mutant)}
    unviable = set()
    while True:
        copy.restore()
        inserted = copy.switch(left)
        switched = {text["number"] for texts in inserted.values() for text in texts}
        errors = copy.build()
        if not errors:
            return switched, unviable
        broken = {number for error in errors for number in blame.mutants(error, inserted, numbered)}
        if not broken:
            raise SystemExit("".join(error["rendered"] for error in errors))
        unviable |= {number for error in errors for number in blame.unviable(error, inserted)}
        left = {number: left[number] for number in switched - broken}


def returns_opaque(mutant):
    """Whether a function without a type name returns another value. Two such values have two types."""
    return mutant["genre"] == "FnValue" and "impl " in mutant["function"]["return_type"]


def baseline(copy):
    """Time limit for the tests of a mutant, found by the tests without a mutant."""
    start = time.monotonic()
    if trial.run(copy, None, BASELINE_SECONDS) != "survived":
        raise SystemExit("the tests fail without a mutant")
    return max(TIMEOUT_SECONDS, 3 * (time.monotonic() - start))
