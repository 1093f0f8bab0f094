"""DuckDB: its own join, which spills; or block nested loops by hand, whose slices of customer each
scan orders anew. Reads Parquet, or tables of its own."""

import os

import duckdb
import harness


def answer(job):
    data = job["data"]
    if job["variant"] == "table":
        connection = duckdb.connect(os.path.join(data, "tables.duckdb"), read_only=True)
        customer, orders = "customer", "orders"
    else:
        connection = duckdb.connect()
        customer, orders = (f"read_parquet('{data}/{table}.parquet')" for table in
                            ("customer", "orders"))
    connection.execute(f"SET temp_directory = '{job['temp']}'")
    connection.execute(f"SET threads = {job['threads']}")
    connection.execute("SET preserve_insertion_order = false")
    if job["memory_bytes"]:
        connection.execute(f"SET memory_limit = '{job['memory_bytes']}B'")
    if not job["slices"]:
        row = connection.execute(harness.WIDE.format(customer=customer, orders=orders)).fetchone()
        return harness.as_text(row)
    query = harness.WIDE.format(customer=customer, orders=orders) + "WHERE c_custkey % {} = {}"
    rows = [connection.execute(query.format(job["slices"], i)).fetchone()
            for i in range(job["slices"])]
    return harness.as_text(harness.add(rows))


harness.run(duckdb.__version__, answer)
