"""Makes what the peers read from the tables as generated: Parquet in random order, in small row groups
and in those of the default size, a database of DuckDB for each table and one of SQLite. The job in the
first argument names `data`, what to `make`, of which `table`, and for Parquet `raw` and `seed`. To make
`lines` is to print the rows with tabs between their fields, for others to load."""

import json
import os
import sqlite3
import sys

import duckdb

CENTS = {
    "customer": "(c_acctbal * 100)::BIGINT AS c_acctbal",
    "orders": "(o_totalprice * 100)::BIGINT AS o_totalprice",
    "lineitem": ", ".join(f"({name} * 100)::BIGINT AS {name}" for name in
                          ("l_quantity", "l_extendedprice", "l_discount", "l_tax")),
}
DATES = {"customer": [], "orders": ["o_orderdate"],
         "lineitem": ["l_shipdate", "l_commitdate", "l_receiptdate"]}
KEYS = {"customer": "c_custkey", "orders": "o_orderkey", "lineitem": "l_orderkey, l_linenumber"}
# Orders of few customers: u is uniform and follows from the order, its fourth power is mostly small.
SKEWED = ("SELECT * REPLACE ((1 + floor({count} * pow((hash(o_orderkey, {seed} + 1) % 1000003)"
          " / 1000003.0, 4)))::BIGINT AS o_custkey) FROM read_parquet('{data}/orders.parquet')")


def parquet(job, connection):
    table = job["table"]
    target = f"{job['data']}/{table}.parquet"
    # Small row groups suit small memory: DuckDB fails at 32 MB with those of its default size, and
    # is no slower elsewhere. A hash of key and seed is as good an order as any, and the same with each run.
    if table == "skewed":
        customers = f"read_parquet('{job['data']}/customer.parquet')"
        (count,) = connection.execute(f"SELECT count(*) FROM {customers}").fetchone()
        rows = SKEWED.format(count=count, **job)
    else:
        rows = (f"SELECT * FROM read_parquet('{job['raw']}/{table}.parquet')"
                f" ORDER BY hash({KEYS[table]}, {job['seed']}::BIGINT)")
    connection.execute(f"COPY ({rows}) TO '{target}.part'"
                       " (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 20480)")
    os.rename(f"{target}.part", target)


def default_parquet(job, connection):
    path = f"{job['data']}/{job['table']}"
    connection.execute(f"COPY (FROM read_parquet('{path}.parquet')) TO '{path}.part' (FORMAT parquet)")
    os.rename(f"{path}.part", f"{path}.default.parquet")


def duckdb_table(job, connection):
    path = f"{job['data']}/{job['table']}"
    if os.path.exists(f"{path}.duckdb.part"):
        os.remove(f"{path}.duckdb.part")
    connection.execute(f"ATTACH '{path}.duckdb.part' AS made")
    connection.execute(f"CREATE TABLE made.{job['table']} AS FROM read_parquet('{path}.parquet')")
    connection.execute("DETACH made")
    os.rename(f"{path}.duckdb.part", f"{path}.duckdb")


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
    made_as = "orders" if table == "skewed" else table
    changed = ", ".join([CENTS[made_as]] + [
        f"strftime({date}, '%Y%m%d')::INTEGER AS {date}" for date in DATES[made_as]])
    rows = connection.execute(
        f"SELECT * REPLACE ({changed}) FROM read_parquet('{job['data']}/{table}.parquet')")
    while batch := rows.fetchmany(20000):
        sys.stdout.write("".join("\t".join(map(str, row)) + "\n" for row in batch))


job = json.loads(sys.argv[1])
connection = duckdb.connect()
connection.execute("SET memory_limit = '4GB'")
connection.execute(f"SET temp_directory = '{job['data']}/temp'")
{"parquet": parquet, "default": default_parquet, "duckdb": duckdb_table, "sqlite": sqlite_tables,
 "lines": lines}[job["make"]](job, connection)
