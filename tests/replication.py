"""Two real servers, the second one a replica of the first: for tests in which an address changes its server."""

from __future__ import annotations

from dataclasses import dataclass

from servers import ServerFactory

from cdc_services.server import StartedServer

_DURABLE = ("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1")
_REPLICA = {"mysql": ("--server-id=2",), "mariadb": ("--server-id=2", "--log-slave-updates=ON")}
_WAIT_S = 300


@dataclass
class Replication:
    """`primary` and its `replica`, which logs what it applies."""

    primary: StartedServer
    replica: StartedServer

    @classmethod
    def started(cls, flavor: str, make: ServerFactory) -> Replication:
        pair = cls(make(flavor, extra_args=_DURABLE), make(flavor, extra_args=[*_DURABLE, *_REPLICA[flavor]]))
        pair.follow(pair.replica, pair.primary)
        return pair

    @staticmethod
    def follow(replica: StartedServer, primary: StartedServer) -> None:
        """Make a server a replica of another one, by GTID."""
        address = f"HOST = '{primary.host}', {{0}}_PORT = {primary.port}, {{0}}_USER = '{primary.user}'"
        if replica.flavor == "mysql":
            replica.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_{address.format('SOURCE')}, "
                f"SOURCE_PASSWORD = '{primary.password}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, "
                "SOURCE_CONNECT_RETRY = 1",
                "START REPLICA",
            )
            return
        replica.execute(
            f"CHANGE MASTER TO MASTER_{address.format('MASTER')}, MASTER_PASSWORD = '{primary.password}', "
            "MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
            "START SLAVE",
        )

    def caught_up(self) -> None:
        """Wait until the replica has applied what the primary has logged."""
        done = executed(self.primary)
        wait = "WAIT_FOR_EXECUTED_GTID_SET" if self.primary.flavor == "mysql" else "MASTER_GTID_WAIT"
        assert self.replica.execute(f"SELECT {wait}('{done}', {_WAIT_S})") == ((0,),), f"{done} did not arrive"

    def stop(self) -> None:
        """The replica applies nothing more, and keeps what it has."""
        self.replica.execute("STOP REPLICA" if self.replica.flavor == "mysql" else "STOP SLAVE")


def executed(server: StartedServer) -> str:
    """The GTID set or position of everything in the server's log."""
    variable = "gtid_executed" if server.flavor == "mysql" else "gtid_binlog_pos"
    return str(server.execute(f"SELECT @@GLOBAL.{variable}")[0][0]).replace("\n", "")
