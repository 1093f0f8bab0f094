"""SQLite: nested loops, inside by customer's primary key or by an automatic index."""

import os
import sqlite3

import harness

# The cache where nothing limits it: more than both tables.
UNLIMITED_KIB = 8 << 20


def answer(job):
    connection = sqlite3.connect(f"file:{job['data']}/tables.sqlite?mode=ro", uri=True)
    cache = job["memory_bytes"] >> 10 if job["memory_bytes"] else UNLIMITED_KIB
    connection.execute(f"PRAGMA cache_size = -{cache}")
    connection.execute("PRAGMA temp_store = FILE")
    customer = "customer_heap" if job["variant"] == "automatic" else "customer"
    query = harness.query(job, customer, "orders")
    row = connection.execute(query).fetchone()
    return harness.as_text(row, money_is_cents=True)


os.environ["SQLITE_TMPDIR"] = __import__("json").loads(__import__("sys").argv[1])["temp"]
harness.run(sqlite3.sqlite_version, answer)
