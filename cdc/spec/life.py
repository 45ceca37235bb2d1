"""Options of `pipeline` about its life: when it runs, and what follows a failure. Names and defaults are Flink's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from cdc.options import AnyCase, AtLeast, Block, Duration, Field, Zone
from cdc.restarts import RestartPolicy, Strategy
from cdc.spec.schedule import check_schedule


class LifeOptions(Block):
    """The schedule of a pipeline, and its restarts."""

    schedule: Annotated[str, AfterValidator(check_schedule)] | None = Field(
        None,
        description="Makes runs bounded, and says when `cdc serve` begins them: a cron expression (`0 2 * * *`, "
        "`@daily`) or an interval (`every 15 min`). A run ends with what the log held at its beginning.",
    )
    schedule_time_zone: Zone = Field(
        "UTC", alias="schedule.time-zone", description="Time zone of the cron expression: a region, or UTC."
    )
    schedule_catch_up: Annotated[Literal["once", "skip"], AnyCase] = Field(
        "once",
        alias="schedule.catch-up",
        description="What becomes of times that passed while a run went on or nothing was there to begin one: one run "
        "for all of them at once, or none until the next time.",
    )
    schedule_copy: Annotated[Literal["incremental", "refresh"], AnyCase] = Field(
        "incremental",
        alias="schedule.copy",
        description="What a second and later run does: carry on with the log from where the last run ended, or "
        "re-snapshot all tables first, as `cdc resync` does.",
    )
    restart: Annotated[Strategy | None, AnyCase] = Field(
        None,
        description="What follows a failed run that another may get past. Default: exponential-delay with `cdc serve`, "
        "none with `cdc run`.",
    )
    fixed_attempts: int = Field(
        1, ge=1, alias="restart.fixed-delay.attempts", description="Restarts without a committed batch between them."
    )
    fixed_delay_s: Annotated[Duration, AtLeast("0 s")] = Field(
        1.0, alias="restart.fixed-delay.delay", description="Pause before a restart."
    )
    first_backoff_s: Annotated[Duration, AtLeast("1 ms")] = Field(
        1.0, alias="restart.exponential-delay.initial-backoff", description="Pause before the first restart."
    )
    longest_backoff_s: Annotated[Duration, AtLeast("1 ms")] = Field(
        60.0, alias="restart.exponential-delay.max-backoff", description="Longest pause before a restart."
    )
    backoff_factor: float = Field(
        1.5, ge=1, alias="restart.exponential-delay.backoff-multiplier", description="Each pause over the one before."
    )
    backoff_reset_s: Annotated[Duration, AtLeast("1 ms")] = Field(
        3600.0,
        alias="restart.exponential-delay.reset-backoff-threshold",
        description="After so long without a failure pauses start over.",
    )
    backoff_jitter: float = Field(
        0.1, ge=0, le=1, alias="restart.exponential-delay.jitter-factor", description="Part of a pause left to chance."
    )
    backoff_attempts: int | None = Field(
        None,
        ge=1,
        alias="restart.exponential-delay.attempts-before-reset-backoff",
        description="Restarts until pauses start over, after which the pipeline has failed. Default: without end.",
    )
    most_failures: int = Field(
        1, ge=1, alias="restart.failure-rate.max-failures-per-interval", description="More than so many end it."
    )
    failure_interval_s: Annotated[Duration, AtLeast("1 ms")] = Field(
        60.0, alias="restart.failure-rate.failure-rate-interval", description="Time in which failures are counted."
    )
    failure_delay_s: Annotated[Duration, AtLeast("0 s")] = Field(
        1.0, alias="restart.failure-rate.delay", description="Pause before a restart."
    )
    same_batch_attempts: int = Field(
        5,
        ge=1,
        alias="restart.same-batch.attempts",
        description="Runs that may fail in the same batch, unless what failed was not reachable or the disk was full: "
        "more of them would fail as well, so the pipeline then has failed, whatever the strategy.",
    )


def restart_policy(options: LifeOptions, default: Strategy) -> RestartPolicy:
    """The file's policy for restarts; `default` is the strategy where it names none."""
    names = (name for name in RestartPolicy.__dataclass_fields__ if name != "strategy")
    return RestartPolicy(options.restart or default, **{name: getattr(options, name) for name in names})
