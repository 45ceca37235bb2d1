"""Options of `pipeline` for its schedule and restarts. Names and defaults are Flink's."""

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
        description="Makes runs bounded and tells `cdc serve` when to start them: a cron expression (`0 2 * * *`, "
        "`@daily`) or an interval (`every 15 min`). A run ends at the end of the log as of its start.",
    )
    schedule_time_zone: Zone = Field(
        "UTC", alias="schedule.time-zone", description="Time zone of the cron expression: a region, or UTC."
    )
    schedule_catch_up: Annotated[Literal["once", "skip"], AnyCase] = Field(
        "once",
        alias="schedule.catch-up",
        description="What to do about times missed during a run or while `cdc serve` was down: `once` makes one "
        "run for all of them at once, `skip` none until the next time.",
    )
    schedule_copy: Annotated[Literal["incremental", "refresh"], AnyCase] = Field(
        "incremental",
        alias="schedule.copy",
        description="What later runs do: `incremental` follows the log from the end of the previous run, `refresh` "
        "re-snapshots all tables first, as `cdc resync` does.",
    )
    restart: Annotated[Strategy | None, AnyCase] = Field(
        None,
        description="Restart strategy after a failed run. Default: exponential-delay with `cdc serve`, none with "
        "`cdc run`.",
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
        1.5,
        ge=1,
        alias="restart.exponential-delay.backoff-multiplier",
        description="Factor between one pause and the next.",
    )
    backoff_reset_s: Annotated[Duration, AtLeast("1 ms")] = Field(
        3600.0,
        alias="restart.exponential-delay.reset-backoff-threshold",
        description="Time without a failure after which the pauses start over.",
    )
    backoff_jitter: float = Field(
        0.1, ge=0, le=1, alias="restart.exponential-delay.jitter-factor", description="Random part of a pause."
    )
    backoff_attempts: int | None = Field(
        None,
        ge=1,
        alias="restart.exponential-delay.attempts-before-reset-backoff",
        description="Maximum number of restarts until the pauses start over; after that the pipeline has failed. "
        "Default: unlimited.",
    )
    most_failures: int = Field(
        1,
        ge=1,
        alias="restart.failure-rate.max-failures-per-interval",
        description="Maximum number of failures per interval; more of them end the restarts.",
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
        description="Maximum number of failed runs in the same batch, except for unreachable servers and full "
        "disks; after that the pipeline has failed, whatever the strategy.",
    )


def restart_policy(options: LifeOptions, default: Strategy) -> RestartPolicy:
    """Return the file's restart policy; `default` is the strategy where the file has none."""
    names = (name for name in RestartPolicy.__dataclass_fields__ if name != "strategy")
    return RestartPolicy(options.restart or default, **{name: getattr(options, name) for name in names})
