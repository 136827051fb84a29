"""What tools and tasks share during one conversation."""

from __future__ import annotations

from pydantic import BaseModel


class State(BaseModel):
    pass


def state_cls(_task: type) -> type[State]:
    return State
