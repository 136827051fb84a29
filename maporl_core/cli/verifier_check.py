"""Would a run accept the verifier that a config names?  Everything but loading the model.

In: a config.  Out: where its learned verifier would stand, for a forecast and for people.
Neighbours: ``config check`` and ``doctor`` ask; ``verifier.placing`` decides as for a run,
``models.shapes`` reads the size of a base.
"""

from __future__ import annotations

from maporl_core.config.schema import RunConfig
from maporl_core.errors import ModelError
from maporl_core.kit.plain_text import one_line
from maporl_core.models.shapes import ShapeUnknown, read_shape
from maporl_core.runs.doctor import Finding
from maporl_core.runs.doctor.memory import Seat


def verifier_seat(config: RunConfig) -> tuple[Seat | None, list[Finding]]:
    """Where the learned verifier stands (None without one), and what cannot be told from here.

    Loads torch where there is one.  Raises ConfigError, DataError or ModelError as the run would.
    """
    if not config.verifier.on_model:
        return None, []
    from maporl_core.judging.verifier.placing import check, same_model

    placed, width = check(config)
    base = placed.apart or config.bases[placed.base]
    folder = one_line(config.verifier.path)
    fitted_on = one_line(placed.saved.base.model)
    findings = []
    try:
        ours = read_shape(base).hidden
    except ShapeUnknown as error:
        ours = width  # nothing is known against it
        if placed.apart is not None:
            findings.append(Finding("warning", f"the verifier's model: {error}"))
    if ours != width:
        raise ModelError(
            f"{folder}: was fitted on {fitted_on}, {width} wide, and {one_line(base.model)} is "
            f"{ours} wide; name the base it was fitted on (verifier.base), or fit it again"
        )
    if not same_model(base, placed.saved):
        words = (
            f"verifier: fitted on {fitted_on}, and stands on {one_line(base.model)}; that both "
            "have the same weights is only seen when they are loaded"
        )
        findings.append(Finding("warning", words))
    where = (
        f"on a model of its own, {one_line(base.model)}"
        if placed.apart is not None
        else f"on base {placed.base} of the agents"
    )
    words = f"{folder}, rank {placed.saved.policy.rank}, {where}"
    policy, length = placed.saved.policy, placed.saved.max_length
    return Seat(placed.base, base, policy, length, words), findings
