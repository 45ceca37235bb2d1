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
        description="Makes runs bounded and sets when `cdc serve` starts them: a cron expression (`0 2 * * *`, "
        "`@daily`) or an interval (`every 15 min`). A run ends at the position that the log's end had at its start.",
    )
    schedule_time_zone: Zone = Field(
        "UTC", alias="schedule.time-zone", description="Time zone of the cron expression: a region, or UTC."
    )
    schedule_catch_up: Annotated[Literal["once", "skip"], AnyCase] = Field(
        "once",
        alias="schedule.catch-up",
        description="What happens with times missed because a run was still active or `cdc serve` was down: one run at "
        "once for all of them, or none until the next time.",
    )
    schedule_copy: Annotated[Literal["incremental", "refresh"], AnyCase] = Field(
        "incremental",
        alias="schedule.copy",
        description="What later runs do: continue with the log where the last run ended, or re-snapshot all tables "
        "first, as `cdc resync` does.",
    )
    restart: Annotated[Strategy | None, AnyCase] = Field(
        None,
        description="Restart strategy after a failure that another run may not have. Default: exponential-delay with "
        "`cdc serve`, none with `cdc run`.",
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
        1.5, ge=1, alias="restart.exponential-delay.backoff-multiplier", description="Growth factor of the pauses."
    )
    backoff_reset_s: Annotated[Duration, AtLeast("1 ms")] = Field(
        3600.0,
        alias="restart.exponential-delay.reset-backoff-threshold",
        description="Time without a failure after which pauses start over.",
    )
    backoff_jitter: float = Field(
        0.1, ge=0, le=1, alias="restart.exponential-delay.jitter-factor", description="Random part of a pause."
    )
    backoff_attempts: int | None = Field(
        None,
        ge=1,
        alias="restart.exponential-delay.attempts-before-reset-backoff",
        description="Restarts until pauses start over, after which the pipeline has failed. Default: no limit.",
    )
    most_failures: int = Field(
        1, ge=1, alias="restart.failure-rate.max-failures-per-interval", description="More failures end the pipeline."
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
        description="Number of runs that fail in the same batch before the pipeline has failed, whatever the strategy. "
        "Failures due to an unreachable system or a full disk do not count.",
    )


def restart_policy(options: LifeOptions, default: Strategy) -> RestartPolicy:
    """Return the file's restart policy; `default` is the strategy where the file has none."""
    names = (name for name in RestartPolicy.__dataclass_fields__ if name != "strategy")
    return RestartPolicy(options.restart or default, **{name: getattr(options, name) for name in names})
