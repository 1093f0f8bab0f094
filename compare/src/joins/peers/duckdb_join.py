"""DuckDB: its own join, which spills; or block nested loops by hand, whose slices of customer each
scan orders anew. Reads Parquet, or tables of its own."""

import duckdb
import harness


def source(connection, job, table):
    path = f"{job['data']}/{table}"
    if job["variant"] == "table":
        connection.execute(f"ATTACH '{path}.duckdb' AS made_{table} (READ_ONLY)")
        return f"made_{table}.{table}"
    ending = "default.parquet" if job["variant"] == "default" else "parquet"
    return f"read_parquet('{path}.{ending}')"


def answer(job):
    connection = duckdb.connect()
    connection.execute(f"SET temp_directory = '{job['temp']}'")
    connection.execute(f"SET threads = {job['threads']}")
    connection.execute("SET preserve_insertion_order = false")
    if job["memory_bytes"]:
        connection.execute(f"SET memory_limit = '{job['memory_bytes']}B'")
    query = harness.query(job, *(source(connection, job, table) for table in job["tables"]))
    if not job["slices"]:
        return harness.as_text(connection.execute(query).fetchone())
    query += "WHERE c_custkey % {} = {}"
    rows = [connection.execute(query.format(job["slices"], i)).fetchone()
            for i in range(job["slices"])]
    return harness.as_text(harness.add(rows))


harness.run(duckdb.__version__, answer)
