"""Connections to real servers: authentication, TLS, time-outs, and errors that say what to do."""

from __future__ import annotations

import datetime as dt
import ipaddress
import pickle
import socket
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from together import together
from waits import Waits

from cdc.errors import CorruptLog, PositionLost, SinkUnavailable, SourceError, SourceUnavailable
from cdc_services.server import MySqlServer, StartedServer
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.connection import ConnectionOptions, connect
from connectors.mysql.server.connection_errors import as_source_error
from connectors.mysql.server.lazy_session import LazySession
from connectors.mysql.server.server_info import query
from connectors.mysql.sink.session import SinkSession

SECRET = "pässwörd'\"\\日本-1"


def options_for(server: MySqlServer, **changes: object) -> ConnectionOptions:
    fields: dict[str, object] = {
        "hostname": server.host, "port": server.port, "username": server.user, "password": server.password,
        "tls_mode": "disabled", "key_retrieval": True, "max_retries": 0,
    }  # fmt: skip
    return ConnectionOptions(**{**fields, **changes})  # type: ignore[arg-type]


def new_user(server: MySqlServer, plugin: str | None = None, *, grants: str = "") -> str:
    name = server.new_database("u")  # unique, and short enough for a user name
    how = f"IDENTIFIED WITH {plugin} BY %s" if plugin else "IDENTIFIED BY %s"
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE USER '{name}'@'%%' {how}", (SECRET,))
            if grants:
                cursor.execute(f"GRANT {grants} TO '{name}'@'%'")
    finally:
        connection.close()
    return name


def ask(options: ConnectionOptions, sql: str) -> tuple[object, ...]:
    connection = connect(options)
    try:
        return query(connection, sql)[0]
    finally:
        connection.close()


CIPHER = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"


@pytest.mark.mysql
def test_the_session_is_utf8_utc_and_without_surprising_modes(any_server: MySqlServer) -> None:
    sql = "SELECT @@time_zone, @@character_set_connection, @@sql_mode, @@autocommit"
    assert ask(options_for(any_server), sql) == ("+00:00", "utf8mb4", "", 1)


def test_a_session_gets_all_rows_and_stays_after_a_rollback_whatever_the_servers_defaults(
    any_server: MySqlServer,
) -> None:
    limit = "max_execution_time" if any_server.flavor == "mysql" else "max_statement_time"
    ours = {"sql_select_limit": 18446744073709551615, "sql_big_selects": 1, "completion_type": "NO_CHAIN", limit: 0}
    theirs = {"sql_select_limit": 1, "sql_big_selects": 0, "completion_type": 2, limit: 9}
    before = any_server.execute("SELECT " + ", ".join(f"@@GLOBAL.{name}" for name in theirs))[0]
    try:
        any_server.execute(*(f"SET GLOBAL {name} = {value}" for name, value in theirs.items()))
        found = ask(options_for(any_server), "SELECT " + ", ".join(f"@@{name}" for name in ours))
    finally:
        any_server.execute(*(f"SET GLOBAL {name} = {value}" for name, value in zip(theirs, before, strict=True)))
    assert found == tuple(ours.values())


@pytest.mark.mysql
def test_caching_sha2_password_without_tls_uses_the_servers_rsa_key(mysql_server: MySqlServer) -> None:
    name = new_user(mysql_server, "caching_sha2_password")
    options = options_for(mysql_server, username=name, password=SECRET)
    for _ in range(2):  # the second time the server has the password in its cache
        assert ask(options, "SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)") == (name,)
        assert ask(options, CIPHER) == ("Ssl_cipher", "")
    mysql_server.execute("FLUSH PRIVILEGES")  # empties the cache: full authentication again
    assert ask(options, "SELECT 1") == (1,)


@pytest.mark.mysql
@pytest.mark.parametrize("mode", ["preferred", "required"])
def test_caching_sha2_password_over_tls(mysql_server: MySqlServer, mode: str) -> None:
    name = new_user(mysql_server, "caching_sha2_password")
    options = options_for(mysql_server, username=name, password=SECRET, tls_mode=mode)
    assert ask(options, CIPHER)[1] != ""


@pytest.mark.mysql
def test_sha256_password(mysql_server: MySqlServer) -> None:
    name = new_user(mysql_server, "sha256_password")
    for mode in ("disabled", "required"):
        options = options_for(mysql_server, username=name, password=SECRET, tls_mode=mode)
        assert ask(options, "SELECT 1") == (1,)


@pytest.mark.mysql
def test_mysql_native_password(mariadb_server: MySqlServer) -> None:
    connection = mariadb_server.connect()
    name = mariadb_server.new_database("u")
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE USER '{name}'@'%%' IDENTIFIED VIA mysql_native_password USING PASSWORD(%s)", (SECRET,))
    connection.close()
    assert ask(options_for(mariadb_server, username=name, password=SECRET), "SELECT 1") == (1,)


@pytest.mark.mysql
def test_a_wrong_password_is_refused_at_once_and_never_shown(any_server: MySqlServer) -> None:
    waits = Waits()
    options = options_for(any_server, password="hunter-2-secret", max_retries=5)
    with pytest.raises(SourceError, match=r"access denied.*source\.password") as caught:
        connect(options, waits.policy)
    assert not caught.value.retryable
    assert waits.total_s == 0
    assert "hunter-2" not in str(caught.value) + repr(options) + repr(caught.value.__cause__)
    assert caught.value.where == f"root@127.0.0.1:{any_server.port}"


@pytest.mark.mysql
def test_tls_that_the_server_lacks(server_factory) -> None:
    server = server_factory("mariadb", extra_args=["--skip-ssl"])
    assert ask(options_for(server, tls_mode="preferred"), CIPHER) == ("Ssl_cipher", "")
    with pytest.raises(SourceError, match=r"does not offer TLS.*tls\.mode: preferred"):
        connect(options_for(server, tls_mode="required"))


@pytest.mark.mysql
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_certificates_are_verified_as_asked(server_factory, tmp_path: Path, flavor: str) -> None:
    pki = Pki(tmp_path)
    server: StartedServer = server_factory(
        flavor,
        extra_args=[f"--ssl-ca={pki.ca}", f"--ssl-cert={pki.server[0]}", f"--ssl-key={pki.server[1]}"],
    )
    verify_identity = options_for(server, tls_mode="verify-identity", tls_ca=str(pki.ca))
    assert ask(verify_identity, CIPHER)[1] != ""
    # The certificate names 127.0.0.1, not localhost.
    with pytest.raises(SourceError, match=r"certificate is not accepted.*verify-ca does not"):
        connect(options_for(server, hostname="localhost", tls_mode="verify-identity", tls_ca=str(pki.ca)))
    by_name = options_for(server, hostname="localhost", tls_mode="verify-ca", tls_ca=str(pki.ca))
    assert ask(by_name, CIPHER)[1] != ""
    with pytest.raises(SourceError, match=r"certificate is not accepted.*tls.ca"):
        connect(options_for(server, tls_mode="verify-ca", tls_ca=str(Pki(tmp_path, "other").ca)))
    with pytest.raises(SourceError, match="certificate is not accepted"):
        connect(options_for(server, tls_mode="verify-ca"))
    server.execute("CREATE USER 'x509'@'%' IDENTIFIED BY 'pw' REQUIRE X509")
    with_certificate = options_for(
        server, username="x509", password="pw", tls_mode="required", tls_cert=pki.client[0], tls_key=pki.client[1]
    )
    assert ask(with_certificate, "SELECT 1") == (1,)
    with pytest.raises(SourceError, match="access denied"):
        connect(options_for(server, username="x509", password="pw", tls_mode="required"))


def test_a_tls_file_that_is_not_there() -> None:
    options = ConnectionOptions(hostname="127.0.0.1", username="u", tls_mode="verify-ca", tls_ca="/no/such/ca.pem")
    with pytest.raises(SourceError, match=r"/no/such/ca.pem: a TLS file cannot be used: No such file"):
        connect(options)


def test_nobody_listening_is_tried_again_with_growing_pauses() -> None:
    waits = Waits()
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        nobody = {"hostname": "127.0.0.1", "port": bound.getsockname()[1]}
        options = ConnectionOptions(**nobody, username="u", password="pw-x", max_retries=7)
        with pytest.raises(SourceUnavailable, match=r"Connection refused.*is the server running") as caught:
            connect(options, waits.policy)
    assert waits.total_s == pytest.approx(0.5 + 1 + 2 + 4 + 8 + 15 + 15)
    assert "pw-x" not in str(caught.value)


def test_an_unknown_host() -> None:
    error = as_source_error(socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "u@db.example:3306")
    assert type(error) is SourceUnavailable
    assert str(error) == (
        "u@db.example:3306: the host name is not known: Name or service not known (check source.hostname)"
    )


def test_a_host_name_that_cannot_be_one() -> None:
    options = ConnectionOptions(hostname="a..b", username="u", max_retries=0)
    with pytest.raises(SourceError, match=r"not a host name.*source\.hostname") as caught:
        connect(options)
    assert not caught.value.retryable


def test_a_server_that_never_greets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        options = ConnectionOptions(
            hostname="127.0.0.1", port=port, username="u", connect_timeout_s=0.2, read_timeout_s=0.2, max_retries=0
        )
        with pytest.raises(SourceUnavailable):
            connect(options)


@pytest.mark.mysql
def test_a_connection_that_is_cut_is_unavailable_not_wrong(any_server: MySqlServer) -> None:
    connection = connect(options_for(any_server))
    try:
        own = query(connection, "SELECT CONNECTION_ID()")[0][0]
        any_server.execute(f"KILL {own}")
        for _ in range(2):
            with pytest.raises(SourceUnavailable):
                query(connection, "SELECT 1")
    finally:
        connection.close()


@pytest.mark.mysql
def test_a_session_that_was_closed_while_idle_is_opened_again(any_server: MySqlServer) -> None:
    """Between two chunks, when reading one takes longer than the server's wait_timeout: it would be so each time."""
    session = LazySession(lambda: connect(options_for(any_server)))
    try:
        (own,) = session.only_row("SELECT CONNECTION_ID()")
        any_server.execute(f"KILL {own}")
        assert session.only_row("SELECT 1") == (1,)
    finally:
        session.close()


@pytest.mark.mysql
def test_a_connection_comes_back_after_a_restart(server_factory) -> None:
    server = server_factory("mariadb")
    options = options_for(server, max_retries=3)
    connection = connect(options)
    server.kill9()
    with pytest.raises(SourceUnavailable):
        query(connection, "SELECT 1")
    connection.close()

    def start_instead_of_waiting(number: int) -> None:
        if server.pid is None:
            server.start()

    connection = connect(options, Waits(start_instead_of_waiting).policy)
    assert query(connection, "SELECT 1") == ((1,),)
    connection.close()


def test_options_of_the_pipeline_file() -> None:
    given = MySqlSourceOptions.model_validate(
        {
            "type": "mysql", "hostname": "db", "username": "u", "password": "geheim", "tables": "a.b",
            "connect.timeout": "5s", "connect.max-retries": 9, "tls.mode": "required",
        }
    )  # fmt: skip
    options = ConnectionOptions.of(given)
    assert (options.where, options.password, options.tls_mode) == ("u@db:3306", "geheim", "required")
    assert (options.connect_timeout_s, options.read_timeout_s, options.max_retries) == (5.0, 5.0, 9)
    assert "geheim" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


@together(
    "text, kind",
    [
        ("Could not find first log file name in binary log index file", PositionLost),
        ("Cannot replicate because the source purged required binary logs.", PositionLost),
        ("Could not find GTID state requested by slave in any binlog files.", PositionLost),
        ("Client requested source to start replication from position > file size", PositionLost),
        ("bogus data in log event; the first event 'binlog.000001' at 4", CorruptLog),
        ("Event crc check failed! Most likely there is event corruption.", CorruptLog),
        ("A replica with the same server_uuid/server_id as this replica has connected", SourceError),
        ("could not find next log; the first event 'binlog.000002' at 198", SourceUnavailable),
        ("Binary log is not open", SourceError),
    ],
)
def test_errors_that_end_a_dump(text: str, kind: type[SourceError]) -> None:
    from pymysql.err import OperationalError

    error = as_source_error(OperationalError(1236, text), "u@h:1")
    assert type(error) is kind
    assert error.hint


@pytest.mark.parametrize("text", ["log event entry exceeded max_allowed_packet", "bogus data in log event"])
def test_a_place_where_no_event_begins_may_come_of_a_log_that_was_reset(text: str) -> None:
    from pymysql.err import OperationalError

    hint = as_source_error(OperationalError(1236, text), "u@h:1").hint
    assert "RESET BINARY LOGS" in hint
    assert "another server" in hint


@pytest.mark.parametrize("number", [1135, 3032, 3169])
def test_a_server_that_takes_no_sessions_at_the_moment_is_waited_for(number: int) -> None:
    """No thread is left, `offline_mode`, a session that was killed: the run stopped."""
    from pymysql.err import OperationalError

    class Refusing:
        def cursor(self) -> None:
            raise OperationalError(number, "The server is currently in offline mode")

    assert isinstance(as_source_error(OperationalError(number, "for now"), "u@h:1"), SourceUnavailable)
    with pytest.raises(SinkUnavailable):
        SinkSession(Refusing(), "u@h:1")  # type: ignore[arg-type]


def test_a_table_between_two_tablespaces_is_waited_for() -> None:
    from pymysql.err import OperationalError

    found = as_source_error(OperationalError(1814, "Tablespace is discarded for table, 't'"), "u@h:1")
    assert found.retryable
    assert "not imported yet" in str(found)


class Pki:
    """A certificate authority with a server certificate for 127.0.0.1 and a client certificate."""

    def __init__(self, folder: Path, name: str = "test") -> None:
        self._folder, self._name = folder, name
        self._key, self._subject = ec.generate_private_key(ec.SECP256R1()), self._x509_name(f"{name} authority")
        certificate = self._certificate(self._subject, self._key.public_key(), authority=True)
        self.ca = folder / f"{name}-ca.pem"
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self.server = self._issue("server")
        self.client = self._issue("client")

    def _issue(self, role: str) -> tuple[str, str]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certificate(self._x509_name(role), key.public_key(), authority=False)
        paths = self._folder / f"{self._name}-{role}.pem", self._folder / f"{self._name}-{role}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return str(paths[0]), str(paths[1])

    def _certificate(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, authority: bool) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder(self._subject, subject, key, x509.random_serial_number())
        builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=9))
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    @staticmethod
    def _x509_name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@pytest.mark.mysql
def test_a_server_that_stalls_in_a_short_query_is_unavailable(any_server: MySqlServer) -> None:
    stalled, asked = (connect(options_for(any_server)) for _ in range(2))
    for connection in (stalled, asked):
        connection._read_timeout = 0.3  # type: ignore[attr-defined]  # the login may take longer
    with pytest.raises(SourceUnavailable):
        query(stalled, "SELECT SLEEP(60)")
    assert query(asked, "SELECT SLEEP(1)", slow=True) == ((0,),)
    with pytest.raises(SourceUnavailable):  # from here on as before
        query(asked, "SELECT SLEEP(60)")
