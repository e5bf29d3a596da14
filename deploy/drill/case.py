"""A case of the trial of all alerts: a fault, and the alerts that it must cause."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass
class Case:
    """`alerts` must come within `patience` seconds. Those of `later` take longer, and may come until
    the end of the group. `repair` ends the fault. A case without `is_real` has a stand-in."""

    fault: str
    alerts: tuple
    inject: Callable
    repair: Callable = lambda stack: None
    later: tuple = ()
    patience: float = 90
    is_real: bool = True


@dataclasses.dataclass
class Group:
    """Cases that run one after the other on one stack, which `start` makes. `factor_max` bounds the
    factor of the times, where a shorter window would have too few events."""

    name: str
    start: Callable
    cases: list
    factor_max: float = 60
