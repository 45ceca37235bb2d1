"""`write_steadily.py JSON`: one-row transactions at a steady rate; writes when each commit had returned.

Output: a float64 .npy array of two rows, with one column per row written, in the order of their ids: when the commit
had returned, seconds since the epoch; and how long it took, seconds.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pymysql

TICK_S = 0.005


def main() -> None:
    given = json.loads(sys.argv[1])
    connection = pymysql.connect(**given["server"], ssl_disabled=True, autocommit=True)
    rate, total = given["rate"], int(given["rate"] * given["seconds"])
    committed, took = np.empty(total), np.empty(total)
    payload = "x" * 80
    with connection.cursor() as cursor:
        started, sent = time.time(), 0
        while sent < total:
            due = min(total, int((time.time() - started) * rate) + 1)
            while sent < due:
                began = time.time()
                cursor.execute(f"INSERT INTO {given['table']} (payload) VALUES ('{payload}')")
                committed[sent] = time.time()
                took[sent] = committed[sent] - began
                sent += 1
            time.sleep(TICK_S)
    np.save(given["out"], np.stack([committed, took]))


if __name__ == "__main__":
    main()
