"""Find the values of named members in many JSON texts at once. Columnar: one array entry per text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors.kafka.kernels import ABSENT, NULL, STRING, scan, spans

Ints = npt.NDArray[np.int32]
Kinds = npt.NDArray[np.uint8]

Names = Mapping[str, "Names | None"]
"""The names of members; a member that is an object has the names of its own members below it."""

_PADDING = bytes(8)


class Tree:
    """The members to look for. A member is identified by its path, as a tuple of names."""

    def __init__(self, names: Names) -> None:
        paths: list[tuple[str, ...]] = [()]
        below: list[Names] = [names]
        first: list[int] = []
        count: list[int] = []
        for index in range(_size(names) + 1):
            children = below[index]
            first.append(len(paths))
            count.append(len(children))
            paths += [(*paths[index], name) for name in children]
            below += [inner or {} for inner in children.values()]
        texts = [path[-1].encode("utf-8") if path else b"" for path in paths]
        ends = np.cumsum([len(text) for text in texts])
        self._names = np.frombuffer(b"".join(texts) + _PADDING, np.uint8)
        self._first, self._count = np.array(first, np.int64), np.array(count, np.int64)
        self._name_end = ends.astype(np.int64)
        self._name_at = self._name_end - np.array([len(text) for text in texts], np.int64)
        # In a message, the bytes of a name with a backslash would mean another name.
        self._plain = np.array([b"\\" not in text for text in texts], np.uint8)
        self._nodes = {path: node for node, path in enumerate(paths)}

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, *path: str) -> int:
        """The number of a member. Raises KeyError."""
        return self._nodes[path]

    def scan(self, texts: Texts) -> Scan:
        """Look for the members in all texts."""
        shape = len(self), len(texts)
        starts, stops = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        kinds = np.full(shape, ABSENT, np.uint8)
        unknown, faults = np.full(len(texts), -1, np.int32), np.zeros(len(texts), np.int32)
        stack, hints = np.zeros((2, len(self) + 1), np.int64)  # made for each call: several threads may scan at once
        scan.walk(
            texts.address, texts.begins, texts.ends, self._names.ctypes.data, self._first, self._count,
            self._name_at, self._name_end, self._plain, stack, hints, starts, stops, kinds, unknown, faults,
        )  # fmt: skip
        return Scan(self, texts, starts, stops, kinds, unknown, faults)


def _size(names: Names) -> int:
    return sum(1 + _size(inner or {}) for inner in names.values())


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """Common beginnings of texts, which their buffer does not repeat.

    Attributes:
        known: the beginnings; more may be added.
        of: int32[n], the number of each text's beginning; -1 for a text that is complete in the buffer.
    """

    known: list[bytes]
    of: Ints

    def take(self, rows: Any) -> Heads:
        """The heads of the texts with these numbers, or of a mask."""
        return Heads(self.known, self.of[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """JSON texts in one buffer: text i is from begins[i] to ends[i] (int32[n] each); None when those are -1.

    With `heads`, the buffer only has the rest of a text after its head; call `inline_heads` before looking at bytes.
    """

    data: npt.NDArray[np.uint8]
    begins: Ints
    ends: Ints
    heads: Heads | None = None

    @classmethod
    def of(cls, texts: Sequence[bytes | None]) -> Texts:
        """Texts in a new buffer; less than 2 GiB in total."""
        ends = np.cumsum([len(text or b"") for text in texts], dtype=np.int64).astype(np.int32)
        begins = np.zeros(len(texts), np.int32)
        begins[1:] = ends[:-1]
        none = np.array([text is None for text in texts], bool)
        begins[none] = ends[none] = -1
        return cls(np.frombuffer(b"".join([*filter(None, texts), _PADDING]), np.uint8), begins, ends)

    @classmethod
    def concat(cls, parts: Sequence[Texts]) -> Texts:
        """Copy the texts of several buffers into one; less than 2 GiB in total."""
        heads = [part.heads for part in parts if part.heads is not None]
        if any(found.known is not heads[0].known for found in heads):
            return cls.concat([part.inline_heads() for part in parts])
        rooms = [int((part.ends - part.begins).sum()) for part in parts]
        data = np.empty(sum(rooms) + len(_PADDING), np.uint8)
        starts: list[Ints] = []
        at = 0
        for part, size in zip(parts, rooms, strict=True):
            offsets = np.empty(len(part) + 1, np.int32)
            kinds = np.where(part.present, STRING, NULL).astype(np.uint8)
            spans.gather(part.address, part.begins, part.ends, kinds, data.ctypes.data + at, offsets)
            starts.append(np.where(part.present, (offsets[:-1] + at, offsets[1:] + at), -1).astype(np.int32))
            at += size
        begins, ends = np.concatenate(starts, axis=1)
        if not heads:
            return cls(data, begins, ends)
        of = [np.full(len(part), -1, np.int32) if part.heads is None else part.heads.of for part in parts]
        return cls(data, begins, ends, Heads(heads[0].known, np.concatenate(of)))

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def address(self) -> int:
        """The memory address of position 0."""
        return int(self.data.ctypes.data)

    def part(self, begins: Ints, ends: Ints) -> Texts:
        """Other texts in the same buffer, without heads."""
        return Texts(self.data, begins, ends)

    @property
    def present(self) -> Any:
        """The texts that are not None (bool[n])."""
        return self.begins >= 0

    def take(self, rows: Any) -> Texts:
        """The texts with these numbers, or of a mask."""
        heads = None if self.heads is None else self.heads.take(rows)
        return Texts(self.data, self.begins[rows], self.ends[rows], heads)

    def inline_heads(self) -> Texts:
        """The same texts with their heads in the buffer; less than 2 GiB."""
        if self.heads is None:
            return self
        if (self.heads.of < 0).all():
            return self.part(self.begins, self.ends)
        present = self.present
        return Texts.of([self.bytes_of(index) if present[index] else None for index in range(len(self))])

    def with_more(self, texts: Sequence[bytes]) -> Texts:
        """The same texts, in a buffer to which other texts are appended."""
        more = np.frombuffer(b"".join([*texts, _PADDING]), np.uint8)
        return Texts(np.concatenate((self.data, more)), self.begins, self.ends)

    def bytes_of(self, index: int) -> bytes:
        """One text."""
        inline = self.data[self.begins[index] : self.ends[index]].tobytes()
        head = -1 if self.heads is None else self.heads.of[index]
        return inline if self.heads is None or head < 0 else self.heads.known[head] + inline


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The values of one member, one per row: positions in a buffer, and kinds (`connectors.kafka.kernels`)."""

    texts: Texts
    starts: Ints
    stops: Ints
    kinds: Kinds

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Any) -> Cells:
        """The rows with these numbers, or of a mask."""
        return Cells(self.texts, self.starts[rows], self.stops[rows], self.kinds[rows])

    def raw(self, row: int) -> bytes:
        """The bytes of one value as written in the text; of a string, without the quotes."""
        return self.texts.data[self.starts[row] : self.stops[row]].tobytes()

    @classmethod
    def either(cls, choice: Any, left: Cells, right: Cells) -> Cells:
        """For each row, the left value where `choice`, else the right one; both are of the same texts."""
        return cls(
            left.texts,
            np.where(choice, left.starts, right.starts),
            np.where(choice, left.stops, right.stops),
            np.where(choice, left.kinds, right.kinds),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """The values that a tree found in texts. `unknown` and `faults` are as in `kernels.scan.walk`."""

    tree: Tree
    texts: Texts
    starts: Ints
    stops: Ints
    kinds: Kinds
    unknown: Ints
    faults: Ints

    def fault(self, row: int) -> str:
        """A description of a text's fault."""
        return f"no JSON object (byte {self.faults[row] - 1 - self.texts.begins[row]})"

    def cells(self, *path: str) -> Cells:
        """The values of one member."""
        node = self.tree.node(*path)
        return Cells(self.texts, self.starts[node], self.stops[node], self.kinds[node])


def elements(cells: Cells) -> tuple[Texts, Ints, Any]:
    """The elements of lists as texts, the row of each, and the rows (bool[n]) with a list that is not JSON.

    An element that is not an object becomes an empty text.
    """
    nothing, faults = np.zeros(0, np.int32), np.zeros(len(cells), np.uint8)
    spans = cells.texts.address, cells.starts, cells.stops, cells.kinds
    total = scan.elements(*spans, nothing, nothing, nothing, faults)
    # Elements of a faulty list may have been filled in without being counted.
    found = np.zeros((3, total + int((cells.stops - cells.starts).max(initial=0)) + 1), np.int32)
    scan.elements(*spans, found[0], found[1], found[2], faults)
    return cells.texts.part(found[0, :total], found[1, :total]), found[2, :total], faults != 0


def runs(*cells: Cells) -> Ints:
    """The number of each row's run: a new run begins where one of the values differs from the row before."""
    starts, stops = (np.ascontiguousarray([getattr(item, name) for item in cells]) for name in ("starts", "stops"))
    kinds = np.ascontiguousarray([item.kinds for item in cells])
    same = np.ones(starts.shape[1], np.int32)
    scan.same_text(cells[0].texts.address, starts, stops, kinds, same)
    return np.asarray(np.cumsum(1 - same), np.int32)
