"""As `SnapshotWorkload`, with definitions that change in every way a server allows while tables are being copied."""

from __future__ import annotations

from typing import Any

import pymysql
from snapshot_workload import KEYLESS, TABLES, SnapshotWorkload

from cdc_services.server import MySqlServer

_NUMBERS = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (1000), PARTITION q VALUES LESS THAN MAXVALUE)"


class WildWorkload(SnapshotWorkload):
    """Types that convert rows, keys, partitions, swaps, tables emptied and recreated; what the server refuses counts
    as nothing. `often`: how many of its transactions are such a change."""

    def __init__(self, server: MySqlServer, seed: int, often: float = 0.05) -> None:
        super().__init__(server, seed, ddl=True)
        self._often = often

    def step(self) -> None:
        """One transaction, or a few statements that change definitions."""
        if self.random.random() >= self._often:
            super().step()
            return
        table = self.random.choice(tuple(TABLES))
        for statement in self.random.choice(self._changes(table)):
            self._do(statement)
            if self.random.random() < 0.5:
                self._write(self.random.choice(tuple(TABLES)))
                self._connection.commit()
        self._connection.commit()

    def _changes(self, table: str) -> list[list[str]]:
        self._serial += 1
        new, other = f"x{self._serial}", self.random.choice([name for name in TABLES if name != table])
        alter = f"ALTER TABLE `{table}`"
        found = [
            [f"{alter} MODIFY v VARCHAR(20)", f"{alter} MODIFY v INT"],
            [f"{alter} MODIFY v BIGINT", f"{alter} MODIFY v SMALLINT", f"{alter} MODIFY v INT"],
            [f"{alter} MODIFY v INT NOT NULL", f"{alter} MODIFY v INT"],
            [f"{alter} ADD {new} VARCHAR(9) DEFAULT 'x' FIRST", f"{alter} DROP {new}"],
            [f"{alter} ADD {new} INT AS (v * 2) STORED", f"{alter} DROP {new}"],
            [f"{alter} ADD {new} DATETIME(3) DEFAULT NOW(3)", f"{alter} DROP {new}"],
            [f"{alter} CHANGE v w BIGINT, ADD v INT", f"UPDATE `{table}` SET v = w % 1000 LIMIT 50", f"{alter} DROP w"],
            [f"{alter} CONVERT TO CHARACTER SET latin1", f"{alter} CONVERT TO CHARACTER SET utf8mb4"],
            [f"TRUNCATE TABLE `{table}`", f"INSERT IGNORE INTO `{table}` VALUES {self._values(table)}"],
            [f"CREATE TABLE other LIKE `{table}`", f"INSERT INTO other SELECT * FROM `{table}` LIMIT 50",
             f"RENAME TABLE `{table}` TO third, other TO `{table}`", "DROP TABLE third"],
            [f"RENAME TABLE `{table}` TO away", f"CREATE TABLE `{table}` {TABLES[table]} CHARACTER SET utf8mb4",
             f"INSERT INTO `{table}` SELECT * FROM away LIMIT 100", "DROP TABLE away"],
            [f"DROP TABLE `{table}`", f"CREATE TABLE `{table}` {TABLES[table]} CHARACTER SET utf8mb4"],
            [f"DROP TABLE `{table}`", f"CREATE TABLE `{table}` {TABLES[table]} CHARACTER SET utf8mb4",
             f"INSERT IGNORE INTO `{table}` VALUES {', '.join(self._values(table) for _ in range(30))}"],
            [f"{alter} ADD {new} INT AUTO_INCREMENT UNIQUE", f"{alter} DROP {new}"],
            [f"CREATE TABLE copied AS SELECT * FROM `{other}`", "DROP TABLE copied"],
            [f"{alter} ENGINE = InnoDB"],
        ]  # fmt: skip
        numbers = "ALTER TABLE numbers"
        found += [
            [f"{numbers} {_NUMBERS}", f"{numbers} TRUNCATE PARTITION p", f"{numbers} REMOVE PARTITIONING"],
            [f"{numbers} {_NUMBERS}", f"{numbers} DROP PARTITION p", f"{numbers} REMOVE PARTITIONING"],
            [f"{numbers} {_NUMBERS}", "CREATE TABLE part LIKE numbers", "ALTER TABLE part REMOVE PARTITIONING",
             "INSERT INTO part VALUES (7, 7, 'part'), (8, 8, 'part')",
             f"{numbers} EXCHANGE PARTITION p WITH TABLE part", "DROP TABLE part", f"{numbers} REMOVE PARTITIONING"],
            [f"{numbers} MODIFY id BIGINT AUTO_INCREMENT", f"{numbers} MODIFY id BIGINT"],
            [f"{numbers} MODIFY id DECIMAL(25)", f"{numbers} MODIFY id BIGINT"],
            [f"{numbers} DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)",
             f"{numbers} DROP PRIMARY KEY, ADD PRIMARY KEY (id)"],
            ["ALTER TABLE keyless ADD id INT AUTO_INCREMENT PRIMARY KEY", "ALTER TABLE keyless DROP id"],
            ["ALTER TABLE marks MODIFY e ENUM('x', 'z', 'y', 'w')", "ALTER TABLE marks MODIFY e ENUM('z', 'y', 'x')"],
            ["ALTER TABLE texts MODIFY name VARCHAR(20) COLLATE utf8mb4_bin",
             "ALTER TABLE texts MODIFY name VARCHAR(20) COLLATE utf8mb4_general_ci"],
            ["ALTER TABLE moments MODIFY at DATETIME", "ALTER TABLE moments MODIFY at DATETIME(3)"],
            ["ALTER TABLE western MODIFY num DECIMAL(12, 1)", "ALTER TABLE western MODIFY num DECIMAL(12, 3)"],
            ["ALTER TABLE raw MODIFY b BINARY(12)", "ALTER TABLE raw MODIFY b VARBINARY(12)"],
        ]  # fmt: skip
        return found

    def _do(self, sql: str) -> Any:
        self.log.append(sql)
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(sql)
            except pymysql.err.MySQLError as error:
                self.log.append(f"-- refused: {error}")
            return cursor.rowcount


__all__ = ["KEYLESS", "WildWorkload"]
