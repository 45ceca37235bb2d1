"""The layout of a table's values in row images, for kernels that process many images at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from connectors.mysql.kernels import ops
from connectors.mysql.rows.addresses import address

_PLACES_BYTES: Final = 32 << 10
_IMAGE_BYTES: Final = 16 << 10
"""Bytes of offsets, and of images, of one batch: both are read repeatedly, so they should fit the first-level cache."""
_MOST, _LEAST = 128, 8
"""Maximum and minimum images in a batch."""
_NEVER_SIZED: Final = frozenset({ops.BITS, ops.DECIMAL_TEXT, ops.ENUM, ops.SET})
"""Operations that turn values of fixed size into values of variable length."""


@dataclass(frozen=True, slots=True, eq=False)
class ImagePlan:
    """The plan for walking row images.

    Attributes:
        steps: ops.STEP[steps], the values that have variable length or may be NULL.
        where: ops.WHERE[columns].
        required: uint8[(columns + 7) // 8], bits of the columns that are never NULL.
        rest: bytes after the last step.
    """

    steps: Any
    where: Any
    required: Any
    rest: int

    @property
    def most(self) -> int:
        """Images in a batch."""
        fit = _PLACES_BYTES // (8 * (len(self.steps) + 1)) - 8
        return max(_LEAST, min(_MOST, fit))


def plan_image(numbers: Any, nullable: tuple[bool, ...]) -> ImagePlan:
    """Return the plan for images whose values are described by `numbers`, ops.COLUMN[columns].

    nullable: per column, from the log; without that, every column may be NULL.
    """
    steps: list[tuple[int, int, int, bool, int]] = []
    where: list[tuple[int, int, bool, bool]] = []
    required = np.zeros((len(numbers) + 7) >> 3, np.uint8)
    skip = 0
    for index, (op, need) in enumerate(zip(numbers["op"].tolist(), numbers["need"].tolist(), strict=True)):
        may_be_null = nullable[index] if index < len(nullable) else True
        sized = op >= ops.BITS and op not in _NEVER_SIZED
        if not may_be_null:
            required[index >> 3] |= 1 << (index & 7)
        where.append((len(steps), skip, sized or may_be_null, may_be_null))
        if sized or may_be_null:
            steps.append((skip, 0 if sized else need, need if sized else 0, may_be_null, index))
            skip = 0
        else:
            skip += need
    return ImagePlan(np.array(steps, ops.STEP), np.array(where, ops.WHERE), required, skip)


class Walk:
    """The memory for walking images, shared by all tables of a decoder."""

    def __init__(self) -> None:
        self._record, self._goal = np.zeros(1, ops.IMAGE), np.zeros(1, ops.STATE)
        self._places = np.zeros(0, np.int64)

    def record(self, plan: ImagePlan) -> int:
        """Return the address of an ops.IMAGE record; both stay valid until the next call."""
        stride = plan.most + 8  # an odd number of cache lines, so that offsets of one image do not share a set
        if (len(plan.steps) + 1) * stride > len(self._places):
            self._places = np.zeros((len(plan.steps) + 1) * stride, np.int64)
        self._record[0] = (
            address(plan.steps), len(plan.steps), plan.rest, address(plan.required), address(plan.where),
            address(self._places), 8 * stride, plan.most, _IMAGE_BYTES, address(self._goal),
        )  # fmt: skip
        return address(self._record)
