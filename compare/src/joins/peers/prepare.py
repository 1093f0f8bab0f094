"""Makes what the peers read from the tables as generated: Parquet in random order, a database of
DuckDB and one of SQLite. The job in the first argument names `data`, what to `make`, and for Parquet
`raw` and `seed`. To make `lines` is to print the rows of `table` with tabs between their fields, for
others to load."""

import json
import os
import sqlite3
import sys

import duckdb

CENTS = {"customer": "(c_acctbal * 100)::BIGINT AS c_acctbal",
         "orders": "(o_totalprice * 100)::BIGINT AS o_totalprice"}
KEYS = {"customer": "c_custkey", "orders": "o_orderkey"}


def parquet(job, connection):
    for table, key in KEYS.items():
        target = f"{job['data']}/{table}.parquet"
        # Small row groups suit small memory: DuckDB fails at 32 MB with those of its default size, and
        # is no slower elsewhere. A hash of key and seed is as good an order as any, and the same with each run.
        connection.execute(
            f"COPY (SELECT * FROM read_parquet('{job['raw']}/{table}.parquet')"
            f" ORDER BY hash({key}, {job['seed']}::BIGINT)) TO '{target}.part'"
            " (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 20480)")
        os.rename(f"{target}.part", target)


def duckdb_tables(job, connection):
    target = f"{job['data']}/tables.duckdb"
    connection.execute(f"ATTACH '{target}.part' AS made")
    for table in KEYS:
        source = f"{job['data']}/{table}.parquet"
        connection.execute(f"CREATE TABLE made.{table} AS FROM read_parquet('{source}')")
    connection.execute("DETACH made")
    os.rename(f"{target}.part", target)


def sqlite_tables(job, connection):
    target = f"{job['data']}/tables.sqlite"
    if os.path.exists(f"{target}.part"):
        os.remove(f"{target}.part")
    made = sqlite3.connect(f"{target}.part", isolation_level=None)
    made.execute("PRAGMA journal_mode = OFF")
    made.execute("PRAGMA synchronous = OFF")
    customer = ("c_name TEXT, c_address TEXT, c_nationkey INTEGER, c_phone TEXT,"
                " c_acctbal INTEGER, c_mktsegment TEXT, c_comment TEXT")
    # Money is kept in cents, since a sum of floats would depend on the order of the rows.
    made.execute(f"CREATE TABLE customer_heap (c_custkey INTEGER, {customer})")
    made.execute(f"CREATE TABLE customer (c_custkey INTEGER PRIMARY KEY, {customer})")
    made.execute("CREATE TABLE orders (o_orderkey INTEGER, o_custkey INTEGER, o_orderstatus TEXT,"
                 " o_totalprice INTEGER, o_orderdate TEXT, o_orderpriority TEXT, o_clerk TEXT,"
                 " o_shippriority INTEGER, o_comment TEXT)")
    copy(made, connection, job, "customer", "customer_heap", 8, f"* REPLACE ({CENTS['customer']})")
    copy(made, connection, job, "orders", "orders", 9,
         f"* REPLACE ({CENTS['orders']}, o_orderdate::VARCHAR AS o_orderdate)")
    made.execute("BEGIN")
    made.execute("INSERT INTO customer SELECT * FROM customer_heap ORDER BY c_custkey")
    made.execute("COMMIT")
    made.close()
    os.rename(f"{target}.part", target)


def copy(made, connection, job, table, target, columns, selected):
    rows = connection.execute(f"SELECT {selected} FROM '{job['data']}/{table}.parquet'")
    marks = ", ".join("?" * columns)
    made.execute("BEGIN")
    while batch := rows.fetchmany(20000):
        made.executemany(f"INSERT INTO {target} VALUES ({marks})", batch)
    made.execute("COMMIT")


def lines(job, connection):
    table = job["table"]
    changed = CENTS[table]
    if table == "orders":
        changed += ", strftime(o_orderdate, '%Y%m%d')::INTEGER AS o_orderdate"
    rows = connection.execute(
        f"SELECT * REPLACE ({changed}) FROM read_parquet('{job['data']}/{table}.parquet')")
    while batch := rows.fetchmany(20000):
        sys.stdout.write("".join("\t".join(map(str, row)) + "\n" for row in batch))


job = json.loads(sys.argv[1])
connection = duckdb.connect()
connection.execute("SET memory_limit = '4GB'")
connection.execute(f"SET temp_directory = '{job['data']}/temp'")
{"parquet": parquet, "duckdb": duckdb_tables, "sqlite": sqlite_tables, "lines": lines}[job["make"]](job, connection)
