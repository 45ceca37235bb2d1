"""The transition table: what each event does to a pair in each state. Data; `cdc.tables.machine` runs it.

A cell is a list of cases; the first case whose conditions all hold is applied (`not merged` negates `merged`). A case
has the next state, the operations in order, and the notice for the user. An `Impossible` cell raises EngineError: it is
reached only through a defect or a state directory of another pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cdc.tables import events as on
from cdc.tables.cells import Case, Cell, Impossible, case
from cdc.tables.states import TableState

AB, SN, LI, RQ = TableState.ABSENT, TableState.SNAPSHOT, TableState.LIVE, TableState.REQUESTED
SU, SH, FR, OW = TableState.SUSPENDED, TableState.SHADOW, TableState.FROZEN, TableState.OVERWRITE
PA, RE, MI, DE = TableState.PAUSED, TableState.RESUMED, TableState.MISSING, TableState.DETACHED

NOT_GONE = Impossible("a table is dropped, renamed or excluded before another one of its name is created")
NOT_FOLLOWED = Impossible("the table is not followed: log and state directory are of different pipelines")
NO_SNAPSHOT = Impossible("no snapshot of the table is running")
NOT_VOID = Impossible("a running snapshot is declared void before another one of the table begins")
ROUTED_ONCE = Impossible("the table is routed there already")
NOT_PLANNED = Impossible("no operation was planned for the table")
NO_MEMBER_OF_IT = Impossible("a shadow table is for tables that are routed to the sink table")

_FOLLOWED = (SN, LI, RQ, SU, SH, FR, OW, PA, RE)
_Key = tuple[TableState, type[on.Event]]


def _cells(states: Iterable[TableState], event: type[on.Event], *cases: Case) -> dict[_Key, Cell]:
    return {(state, event): cases for state in states}


def _not(states: Iterable[TableState], event: type[on.Event], why: Impossible) -> dict[_Key, Cell]:
    return {(state, event): why for state in states}


STAYS = case()


def _created() -> dict[_Key, Cell]:
    event, shadow = on.TableCreated, ("create", "create shadow", "swap")
    come = [
        case(*rows, *when, to=state, do=do)
        for rows, state in ((("by snapshot",), SN), ((), LI))
        for when, do in (
            (("merged", "stale", "not shadowed", "all again"), shadow),
            (("shadowed", "grows"), shadow),
            ((), ("create",)),
        )
    ]
    occupied = (
        case("by snapshot", "occupied", "rows refused", do=("stop",)),
        case("by snapshot", "occupied", "replaces", to=FR, do=("create", "create shadow"), notice="replaced"),
        case("by snapshot", "occupied", to=SN, do=("create",), notice="occupied"),
        case("by statement", "occupied", "rows refused", do=("stop",)),
        case("by statement", "occupied", "replaces", to=LI, do=("create", "empty"), notice="emptied"),
        case("by statement", "occupied", to=LI, do=("create",), notice="found"),
    )
    again = case("by snapshot", "there", "not keyed", "not mirrors", to=FR, do=("create", "create shadow"))
    over = case("by snapshot", "stale", "not shadowed", "not all again", to=SN, do=("create",), notice="overwritten")
    return {
        **_cells((AB, MI), event, *occupied, *come),
        **_cells((DE,), event, again, *occupied, over, *come),
        **_cells((SN, LI), event, case("shadowed", "grows", do=shadow), case(do=("create",))),
        **_not((RQ, SU, SH, FR, OW, PA, RE), event, NOT_GONE),
    }


def _changed() -> dict[_Key, Cell]:
    event, shadow = on.TableChanged, ("widen", "create shadow")
    uncertain = (
        case("uncertain", "not allowed", to=RQ, do=("alter",)),
        case("uncertain", "same rows", "keyed", to=RQ, do=("alter",)),
        case("uncertain", "keyed", "not rekeyed", "not mirrors", to=RQ, do=("alter",)),
        case("uncertain", to=SU, do=("check policy", "remember rows"), notice="held back"),
    )
    exchanged = (
        case("merged", "exchanges", "all again", to=RQ, do=shadow),
        case("merged", "exchanges", do=("stop",)),
        case("respelled", "not replaceable", do=("stop",)),
    )
    live = (
        *exchanged,
        case("merged", "uncertain", "shadowed", to=RQ, do=shadow),
        case("merged", "uncertain", to=RQ, do=("widen",)),
        case("merged", "shadowed", "grows", to=RQ, do=shadow),
        case("merged", do=("widen",)),
        *uncertain,
        case(do=("alter",)),
    )
    requested = (
        *exchanged,
        case("merged", "shadowed", "grows", do=shadow),
        case("merged", do=("widen",)),
        *uncertain,
        case(do=("alter",)),
    )
    shadowed = (
        case("merged", "exchanges", to=RQ, do=shadow),
        case("merged", "uncertain", to=RQ, do=shadow),
        case("merged", "grows", to=RQ, do=shadow),
        case("merged", do=("widen",)),
        case("uncertain", "not allowed", to=RQ, do=("drop shadow", "alter")),
        case("uncertain", to=SU, do=("check policy", "drop shadow", "remember rows"), notice="held back"),
        case("grows", to=RQ, do=("drop shadow", "alter")),
        case(do=("alter",)),
    )
    frozen = (
        case("comment", "not merged", do=("alter",)),
        case("merged", "exchanges", to=SU, do=shadow),
        case("merged", "uncertain", to=SU, do=shadow),
        case("merged", "grows", to=SU, do=shadow),
        case("merged", do=("widen",)),
        case(to=SU, do=("drop shadow",)),
    )
    return {
        **_cells((LI, SN, OW), event, *live),
        **_cells((RQ,), event, *requested),
        **_cells((SH,), event, *shadowed),
        **_cells((FR,), event, *frozen),
        **_cells((SU, PA, RE), event, STAYS),
        **_cells((MI,), event, case(notice="missing")),
        **_not((AB, DE), event, NOT_FOLLOWED),
    }


def _uncertain() -> dict[_Key, Cell]:
    event = on.RowsUncertain
    return {
        **_cells(
            (LI, SN, OW), event,
            case("gap", "merged", "shadowed", to=SU, do=("remember rows", "create shadow")),
            case("gap", to=SU, do=("remember rows",)),
            case("shadowed", to=RQ, do=("create shadow",)),
            case(to=RQ),
        ),
        **_cells((RQ,), event, case("gap", to=SU, do=("remember rows",)), STAYS),
        **_cells(
            (SH,), event,
            case("gap", "merged", to=SU, do=("remember rows", "create shadow")),
            case("gap", to=SU, do=("remember rows", "drop shadow")),
            case("merged", to=RQ, do=("create shadow",)),
            case(to=RQ, do=("drop shadow",)),
        ),
        **_cells((FR,), event, case("merged", to=SU, do=("create shadow",)), case(to=SU, do=("drop shadow",))),
        **_cells((SU, PA, RE, MI), event, STAYS),
        **_not((AB, DE), event, NOT_FOLLOWED),
    }  # fmt: skip


def _truncated() -> dict[_Key, Cell]:
    event, check = on.TableTruncated, "check policy"

    def shadowed(after: TableState, held: TableState) -> tuple[Case, ...]:
        return (
            case("merged", "delete", "last", to=after, do=(check, "empty")),
            case("merged", "delete", to=after, do=(check, "create shadow", "swap")),
            case("merged", to=after, do=(check, "create shadow", "swap"), notice="rows stay"),
            case("carried out", to=after, do=("truncate",)),
            case(to=held, do=("drop shadow", "truncate")),
        )

    deleted = (
        case("merged", "delete", "last", to=LI, do=(check, "empty")),
        case("merged", "delete", "all again", to=LI, do=(check, "create shadow", "swap")),
    )
    return {
        **_cells(
            (LI, SN, OW), event, *deleted,
            case("merged", "delete", to=LI, do=(check,), notice="not all"),
            case("merged", "shadowed", to=LI, do=(check, "create shadow", "swap"), notice="rows stay"),
            case("merged", to=LI, do=(check,), notice="rows stay"),
            case(to=LI, do=("truncate",)),
        ),
        **_cells(
            (RQ,), event, *deleted,
            case("merged", "delete", do=(check,), notice="not all"),
            case("merged", do=(check,), notice="rows stay"),
            case(do=("truncate",)),
        ),
        **_cells((SH,), event, *shadowed(LI, RQ)),
        **_cells((FR,), event, *shadowed(SU, SU)),
        **_cells((SU, PA, RE), event, STAYS),
        **_cells((MI,), event, case(notice="missing")),
        **_not((AB, DE), event, NOT_FOLLOWED),
    }  # fmt: skip


def _dropped() -> dict[_Key, Cell]:
    event, check, leave = on.TableDropped, "check policy", ("leave shadow", "swap")
    return {
        **_cells(
            _FOLLOWED, event,
            case("merged", "delete", "last", to=AB, do=(check, "empty")),
            case("merged", "delete", "all again", to=DE, do=(check, "remember rows", "create shadow", "swap")),
            case("merged", "delete", to=DE, do=(check, "remember rows", *leave), notice="not all"),
            case("merged", "mirrors", to=DE, do=(check, "remember rows", *leave), notice="rows stay"),
            case("merged", to=DE, do=(check, *leave), notice="rows stay"),
            case("carried out", to=AB, do=("drop",)),
            case(to=DE, do=("leave shadow", "drop")),
        ),
        **_cells((MI,), event, case(to=AB, notice="missing")),
        **_cells((DE,), event, case("merged"), case("last", "there", "carried out", to=AB, do=("drop",)), STAYS),
        **_cells((AB,), event, STAYS),
    }  # fmt: skip


def _renamed() -> dict[_Key, Cell]:
    event = on.TableRenamed
    moved, emptied = ("leave shadow", "swap", "create renamed"), ("create shadow", "swap", "create renamed")

    def cases(follows: TableState | None, elsewhere: TableState) -> tuple[Case, ...]:
        again = SU if elsewhere is SU else RQ
        return (
            case("same table", "not sharded", do=("rename pair",)),
            case("follows", to=follows, do=("rename", "rename pair")),
            case("copied", "same table", to=again, do=("leave shadow", "rename pair")),
            case("copied", "merged", "delete", "all again", to=again, do=("remember rows", *emptied)),
            case("copied", "merged", to=again, do=("remember rows", *moved), notice="rename"),
            case("copied", to=again, do=("leave shadow", "drop", "create renamed")),
            case("exact", do=("stop",)),
            case("same table", do=("rename pair",), notice="rename"),
            case(to=elsewhere, do=moved, notice="rename"),
        )

    return {
        **{key: cell for state in (SN, LI, RQ, SU, OW, PA, RE)
           for key, cell in _cells((state,), event, *cases(None, state)).items()},
        **_cells((SH,), event, *cases(RQ, RQ)),
        **_cells((FR,), event, *cases(SU, SU)),
        **_cells((MI,), event, case("same table", do=("rename pair",)),
                 case(to=LI, do=("create renamed",), notice="late")),
        **_not((AB, DE), event, NOT_FOLLOWED),
    }  # fmt: skip


def _left() -> dict[_Key, Cell]:
    def removed(event: type[on.Event], notice: str) -> dict[_Key, Cell]:
        return {
            **_cells(_FOLLOWED, event, case(to=DE, do=("remember rows", "leave shadow", "swap"), notice=notice)),
            **_cells((MI,), event, case(to=AB)),
            **_cells((AB, DE), event, STAYS),
        }

    return {**removed(on.CaptureEnded, "left"), **removed(on.RouteRemoved, "unrouted")}


def _snapshots() -> dict[_Key, Cell]:
    void, done, shadow = on.SnapshotVoid, on.SnapshotDone, ("create shadow",)
    return {
        **_cells(
            (SN,),
            void,
            case("merged", "shadowed", to=RQ, do=shadow),
            case("merged", to=RQ),
            case(do=("empty",)),
        ),
        **_cells((SH,), void, case("merged", to=RQ, do=shadow), case(to=RQ, do=("drop shadow",))),
        **_cells((FR,), void, case("merged", to=SU, do=shadow), case(to=SU, do=("drop shadow",))),
        **_cells((OW,), void, case(to=RQ)),
        **_cells((LI, RQ, SU, PA, RE, MI, DE), void, STAYS),
        **_not((AB,), void, NO_SNAPSHOT),
        **_cells((SN, OW, SH, FR), done, case(to=LI, do=("swap",))),
        **_cells((LI, RQ, SU, PA, RE, MI, DE), done, STAYS),
        **_not((AB,), done, NO_SNAPSHOT),
    }


def _begun() -> dict[_Key, Cell]:
    event, shadow, widen = on.SnapshotBegun, ("widen", "create shadow"), ("widen",)
    alone = (
        case("not merged", "mirrors", "lacks", to=SH, do=("create new shadow",)),
        case("not merged", "mirrors", to=SH, do=("create shadow",)),
        case("not merged", "not keyed", "lacks", to=SH, do=shadow),
        case("not merged", "not keyed", to=SH, do=("create shadow",)),
        case("not merged", to=OW, do=widen, notice="overwritten"),
    )
    certain = case("keys certain", "keyed", "not shadowed", to=OW)
    into_shadow = (
        case("shadowed", "grows", to=FR, do=shadow),
        case("shadowed", to=FR, do=widen),
    )
    rest = (
        case("keyed", to=OW, do=widen, notice="overwritten"),
        case(do=("stop",)),
    )
    return {
        **_cells((SN,), event, case("void before", "not merged", do=("empty",)), STAYS),
        **_cells((LI,), event, certain, *alone, case("all again", to=SH, do=shadow), *rest),
        **_cells(
            (RQ,),
            event,
            certain,
            case("not merged", "shadowed", to=SH, do=("create shadow",)),
            *alone,
            case("shadowed", "grows", to=SH, do=shadow),
            case("shadowed", to=SH, do=widen),
            case("all again", to=SH, do=shadow),
            *rest,
        ),
        **_cells(
            (SU,),
            event,
            case("not merged", to=FR, do=("create new shadow",)),
            *into_shadow,
            case("stale", "all again", to=FR, do=shadow),
            case("not keyed", "all again", to=FR, do=shadow),
            case("not keyed", do=("stop",)),
            case("stale", to=OW, do=widen, notice="overwritten"),
            case(to=SN, do=widen),
        ),
        **_cells(
            (RE,),
            event,
            case("not merged", "mirrors", to=FR, do=("create new shadow",)),
            case("not merged", "not keyed", to=FR, do=("create new shadow",)),
            *into_shadow,
            case("all again", to=FR, do=shadow),
            case("keyed", to=OW, do=widen, notice="overwritten"),
            case(do=("stop",)),
        ),
        **_cells((PA, DE), event, STAYS),
        **_cells((MI,), event, case(notice="missing")),
        **_not((SH, FR, OW), event, NOT_VOID),
        **_not((AB,), event, NO_SNAPSHOT),
    }


def _requests() -> dict[_Key, Cell]:
    request, pause, resume = on.SnapshotRequested, on.PauseRequested, on.ResumeRequested
    held = case("shared", notice="not paused")
    return {
        **_cells(
            (LI,),
            request,
            case("shadowed", to=RQ, do=("create shadow",)),
            case("rekeyed", "keyed", "not merged", "not mirrors", to=SU, do=("remember rows",)),
            case(to=RQ),
        ),
        **_cells((SN, RQ, SU, SH, FR, OW, PA, RE, MI, AB, DE), request, STAYS),
        **_cells((SN, LI, RQ, SU, OW, RE), pause, held, case(to=PA, do=("remember rows",), notice="pause")),
        **_cells((SH, FR), pause, held, case(to=PA, do=("remember rows", "drop shadow"), notice="pause")),
        **_cells((PA, MI, AB, DE), pause, STAYS),
        **_cells((PA,), resume, case(to=RE)),
        **_cells([state for state in TableState if state is not PA], resume, STAYS),
    }


def _routed() -> dict[_Key, Cell]:
    cases = [
        case(*source, *when, to=state, do=do, notice="routed")
        for source, state in ((("paused",), PA), (("resumed",), RE), ((), SU))
        for when, do in (
            (("not there",), ("create",)),
            (("not merged",), ("check key", "empty", "widen")),
            (("shadowed", "grows"), ("check key", "widen", "create shadow")),
            ((), ("check key", "widen")),
        )
    ]
    others = [state for state in TableState if state not in (AB, DE)]
    return {**_cells((AB, DE), on.RouteAdded, *cases), **_not(others, on.RouteAdded, ROUTED_ONCE)}


def _sink() -> dict[_Key, Cell]:
    refused, begun = on.OperationRefused, on.ShadowBegun
    stop, unfit = case(do=("stop",)), on.RowsUnfit
    return {
        **_cells((LI, SN, RQ, OW), unfit, case("merged"), case(to=SU, do=("remember rows",), notice="unfit")),
        **_cells((SH, FR), unfit, case("merged"), case(to=SU, do=("remember rows", "drop shadow"), notice="unfit")),
        **_cells((SU, PA, RE, MI, AB, DE), unfit, STAYS),
        **_cells(
            (LI, SN, RQ, OW),
            refused,
            case("not merged", "re-snapshot helps", to=SU, do=("remember rows",), notice="refused"),
            stop,
        ),
        **_cells(
            (SH, FR),
            refused,
            case("not merged", "re-snapshot helps", to=SU, do=("remember rows", "drop shadow"), notice="refused"),
            stop,
        ),
        **_cells((SU, PA, RE), refused, STAYS),
        **_not((MI, DE, AB), refused, NOT_PLANNED),
        **_cells((LI, SN, OW, SH), begun, case(to=RQ)),
        **_cells((FR,), begun, case(to=SU)),
        **_cells((RQ, SU, MI, PA, RE), begun, STAYS),
        **_not((AB, DE), begun, NO_MEMBER_OF_IT),
    }


TRANSITIONS: Mapping[_Key, Cell] = {
    **_created(), **_changed(), **_uncertain(), **_truncated(), **_dropped(), **_renamed(), **_left(), **_snapshots(),
    **_begun(), **_requests(), **_routed(), **_sink(),
}  # fmt: skip
"""The cell of each state and type of event."""
