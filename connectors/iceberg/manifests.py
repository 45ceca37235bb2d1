"""Read and write manifests and manifest lists with the library, plus a writer for delete files, which it lacks.

For every file the library works out the Avro schema and the encoding of records again, which is most of the cost of a
small commit. Both depend only on the types of the partition, so they are cached here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import Any

_SYNC_BYTES = 16
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class _Encoding:
    """An Avro schema as the library's `Schema` and as JSON, and the encoder of its records."""

    schema: Any
    text: str
    writer: Any


def is_deletes(manifest: Any) -> bool:
    """Whether a manifest lists delete files."""
    return int(manifest.content) == 1


@cache
def manifest_writer(*, deletes: bool) -> Any:
    """The class that writes manifests of data files, or of delete files."""
    from pyiceberg.manifest import ManifestContent, ManifestWriterV2

    class DataManifests(ManifestWriterV2):  # type: ignore[misc]
        """Opens its file with what is kept of the encoding."""

        def new_writer(self) -> Any:
            partition = self._spec.partition_type(self._schema)
            return _avro_file()(self._output_file, _of_entries(str(partition), self._with_partition), self._meta)

    class DeleteManifests(DataManifests):
        """Marks the manifest and its metadata as those of delete files."""

        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    return DeleteManifests if deletes else DataManifests


@cache
def list_writer() -> Any:
    """The class that writes manifest lists."""
    from pyiceberg.manifest import ManifestListWriterV2

    class Lists(ManifestListWriterV2):  # type: ignore[misc]
        """Opens its file with what is kept of the encoding."""

        def __enter__(self) -> Any:
            self._writer = _avro_file()(self._output_file, _of_lists(), self._meta)
            self._writer.__enter__()
            return self

    return Lists


@cache
def _avro_file() -> Any:
    from pyiceberg.avro.file import AvroOutputFile

    class AvroFile(AvroOutputFile):  # type: ignore[misc]
        """The library's Avro file, with a cached encoding."""

        def __init__(self, output_file: Any, encoding: _Encoding, metadata: dict[str, str]) -> None:
            self.output_file, self.metadata = output_file, metadata
            self.file_schema, self.writer, self._text = encoding.schema, encoding.writer, encoding.text
            self.sync_bytes = os.urandom(_SYNC_BYTES)

        def _write_header(self) -> None:
            from pyiceberg.avro.file import AVRO_CODEC_KEY, MAGIC, AvroFileHeader

            metadata = {**self.metadata, "avro.schema": self._text, AVRO_CODEC_KEY: "deflate"}
            _of_header().write(self.encoder, AvroFileHeader(MAGIC, metadata, self.sync_bytes))

    return AvroFile


def read_entries(io: Any, manifest: Any) -> list[Any]:
    """The live entries of a manifest, with the values they inherit from it."""
    from pyiceberg.manifest import ManifestEntryStatus, _inherit_from_manifest

    with _reading()(io.new_input(manifest.manifest_path), _Content.ENTRIES) as file:
        return [
            _inherit_from_manifest(entry, manifest) for entry in file if entry.status != ManifestEntryStatus.DELETED
        ]


def read_list(io: Any, path: str) -> list[Any]:
    """The manifests of a manifest list."""
    with _reading()(io.new_input(path), _Content.LISTS) as file:
        return list(file)


class _Content(Enum):
    """The kinds of Avro files that are read."""

    ENTRIES = "manifest_entry"
    LISTS = "manifest_file"


@cache
def _reading() -> Any:
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.file import AvroFile

    class CachedSchemaReader(AvroFile):  # type: ignore[misc]
        """Reads a file with the cached decoder of its schema."""

        def __init__(self, input_file: Any, content: _Content) -> None:
            super().__init__(input_file)
            self._content = content

        def __enter__(self) -> Any:
            with self.input_file.open() as stream:
                self.decoder = new_decoder(stream.read())
            self.header = _header_reader().read(self.decoder)
            self.reader = _decoding(self._content, self.header.meta["avro.schema"])
            return self

    return CachedSchemaReader


@cache
def _header_reader() -> Any:
    from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
    from pyiceberg.avro.resolver import construct_reader

    return construct_reader(META_SCHEMA, {-1: AvroFileHeader})


@lru_cache(_MOST)
def _decoding(content: _Content, schema: str) -> Any:
    """The decoder for the records of files with this Avro schema."""
    from pyiceberg import manifest as made
    from pyiceberg.avro.resolver import resolve_reader
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    file_schema, version = AvroSchemaConversion().avro_to_iceberg(json.loads(schema)), made.DEFAULT_READ_VERSION
    if content is _Content.LISTS:
        types: dict[int, Any] = {-1: made.ManifestFile, 508: made.PartitionFieldSummary}
        return resolve_reader(file_schema, made.MANIFEST_LIST_FILE_SCHEMAS[version], types, {517: made.ManifestContent})
    enums = {0: made.ManifestEntryStatus, 101: made.FileFormat, 134: made.DataFileContent}
    types = {-1: made.ManifestEntry, 2: made.DataFile}
    return resolve_reader(file_schema, made.MANIFEST_ENTRY_SCHEMAS[version], types, enums)


_entries: dict[str, _Encoding] = {}
"""The encodings of manifest entries by the type of the partition, field ids included."""


def _of_entries(partition: str, schema_of: Callable[[int], Any]) -> _Encoding:
    if partition not in _entries:
        from pyiceberg.manifest import DEFAULT_READ_VERSION

        if len(_entries) > _MOST:
            _entries.clear()
        _entries[partition] = _encoding(schema_of(2), schema_of(DEFAULT_READ_VERSION), "manifest_entry")
    return _entries[partition]


@cache
def _of_lists() -> _Encoding:
    from pyiceberg.manifest import DEFAULT_READ_VERSION, MANIFEST_LIST_FILE_SCHEMAS

    return _encoding(MANIFEST_LIST_FILE_SCHEMAS[2], MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION], "manifest_file")


@cache
def _of_header() -> Any:
    from pyiceberg.avro.file import META_SCHEMA
    from pyiceberg.avro.resolver import construct_writer

    return construct_writer(META_SCHEMA)


def _encoding(schema: Any, records: Any, name: str) -> _Encoding:
    from pyiceberg.avro.resolver import resolve_writer
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    avro = json.loads(json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)), object_hook=_named)
    return _Encoding(schema, json.dumps(avro), resolve_writer(record_schema=records, file_schema=schema))


def _named(node: dict[str, Any]) -> dict[str, Any]:
    """A part of an Avro schema with an ASCII name, as Avro requires; the library would leave any letter in it."""
    name = node.get("name", "")
    if name.isascii():
        return node
    text = "".join(one if one.isascii() else f"_x{ord(one):X}" for one in name)
    return {"iceberg-field-name": name, **node, "name": text}
