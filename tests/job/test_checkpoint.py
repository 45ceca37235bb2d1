"""Spark's checkpoint after an early stop or a power failure: what may go goes, what a decision is about stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from together import together

from cdc.errors import StateError
from cdc.job.checkpoint import check_decided, repair, sync_offsets
from cdc.state.decisions import CommitLog, Decision
from cdc.state.store import LocalStore

WHOLE = 'v1\n{"batchWatermarkMs":0}\n{"item": 3, "batch": %d}'


def checkpoint(folder: Path, **files: str) -> Path:
    """Files by name, with `_` for `/`."""
    for name, text in files.items():
        path = folder / name.replace("_", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


def mended(folder: Path, *decided: int) -> list[str]:
    return [sentence.split()[1] for sentence in repair(folder, lambda batch: batch in decided)]


def test_a_checkpoint_that_is_sound_or_not_there_stays(tmp_path: Path) -> None:
    assert mended(tmp_path / "none") == []
    files = {"offsets_0": WHOLE % 1, "offsets_1": WHOLE % 2, "commits_0": 'v1\n{"nextBatchWatermarkMs":0}'}
    assert mended(checkpoint(tmp_path, metadata='{"id":"x"}', **files), 0) == []


def test_offsets_that_an_early_stop_logged_as_batch_0_go(tmp_path: Path) -> None:
    checkpoint(tmp_path, offsets_0=WHOLE % 0, metadata='{"id":"x"}')
    assert mended(tmp_path) == ["offsets/0"]
    assert mended(tmp_path) == []


@pytest.mark.parametrize("torn", ["", "v1\n", 'v1\n{"batch'])
def test_a_newest_entry_that_is_not_whole_goes(tmp_path: Path, torn: str) -> None:
    checkpoint(tmp_path, offsets_0=WHOLE % 1, commits_0="v1\n{}", offsets_1=torn, metadata='{"id":"x"}')
    assert mended(tmp_path, 0) == ["offsets/1"]
    checkpoint(tmp_path, offsets_1=WHOLE % 2, commits_1=torn, metadata=torn)
    assert mended(tmp_path, 0, 1) == ["commits/1", "metadata"]
    assert mended(tmp_path, 0, 1) == []


@together("torn", [None, "", '{"id', "[]", "{}"])
def test_metadata_that_are_not_whole_are_written_anew(tmp_path: Path, torn: str | None) -> None:
    """Spark refuses offsets without them."""
    checkpoint(tmp_path, offsets_0=WHOLE % 1, **({} if torn is None else {"metadata": torn}))
    assert mended(tmp_path, 0) == ["metadata"]
    assert len(json.loads((tmp_path / "metadata").read_text())["id"]) == 36
    assert mended(tmp_path, 0) == []


def test_what_is_decided_or_committed_stays(tmp_path: Path) -> None:
    checkpoint(tmp_path, offsets_4="", metadata='{"id":"x"}')
    assert mended(tmp_path, 4) == []
    checkpoint(tmp_path, commits_4="v1\n{}")
    assert mended(tmp_path) == []
    assert (tmp_path / "offsets" / "4").exists()


def test_offsets_that_are_gone_end_the_batch(tmp_path: Path) -> None:
    sync_offsets(checkpoint(tmp_path, offsets_0=WHOLE % 1), 0)
    with pytest.raises(StateError, match="cannot be put on disk: No such file"):
        sync_offsets(tmp_path, 1)


def test_spark_starts_only_where_the_last_decision_ends(tmp_path: Path) -> None:
    """It takes the place from its own logs: rows would be missing or twice."""
    spark, log = tmp_path / "checkpoint", CommitLog(LocalStore(tmp_path / "commits"))
    spark.mkdir()
    check_decided(spark, log)
    checkpoint(spark, offsets_0=WHOLE % 1, offsets_1=WHOLE % 2, commits_0="v1\n{}")
    for batch in range(2):
        log.decide(Decision(batch, {}, {"item": 3, "batch": batch + 1}, ()))
    check_decided(spark, log)

    for damaged in ("", (WHOLE % 2).replace("3", "7")):
        checkpoint(spark, offsets_1=damaged)
        with pytest.raises(StateError, match=r"offsets/1: .*restore"):
            check_decided(spark, log)
    (spark / "offsets" / "1").unlink()
    with pytest.raises(StateError, match="offsets of batch 1 are missing"):
        check_decided(spark, log)

    checkpoint(spark, offsets_1=WHOLE % 2, commits_1="v1\n{}")
    (tmp_path / "commits" / "1.json").unlink()
    with pytest.raises(StateError, match="the decision on batch 1 is missing"):
        check_decided(spark, log)
    (spark / "commits" / "1").unlink()
    log.note_committed(1)
    with pytest.raises(StateError, match="the decision on batch 1 is missing"):
        check_decided(spark, log)
