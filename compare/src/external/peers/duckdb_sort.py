"""DuckDB: records of two numbers, sorted into another table.

The job comes as JSON in the first argument. Only the sort and its checkpoint are timed. Where the
input is not there yet, `make` writes it and nothing else.
"""

import json
import resource
import sys
import time

import duckdb
import harness
import numpy

WORD = 1 << 64
CHUNK = 1 << 22


def records(seed, first, count):
    """Keys as splitmix64 gives them; the payload is the number of the record."""
    numbers = numpy.arange(first, first + count, dtype=numpy.uint64)
    with numpy.errstate(over="ignore"):
        keys = (numbers + numpy.uint64(seed + 1)) * numpy.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        keys ^= keys >> numpy.uint64(31)
    return keys, numbers


def connect(job):
    connection = duckdb.connect(f"{job['data']}/sort.duckdb")
    connection.execute(f"SET temp_directory = '{job['temp']}'")
    connection.execute(f"SET threads = {job['threads']}")
    connection.execute(f"SET memory_limit = '{job['memory_bytes']}B'")
    return connection


def make(job):
    connection = connect(job)
    connection.execute("CREATE OR REPLACE TABLE input (k UBIGINT, v UBIGINT)")
    for first in range(0, job["question"]["records"], CHUNK):
        count = min(CHUNK, job["question"]["records"] - first)
        k, v = records(job["seed"], first, count)
        chunk = {"k": k, "v": v}  # DuckDB finds it by its name.
        connection.execute("INSERT INTO input SELECT k, v FROM chunk")
    connection.execute("CHECKPOINT")


def sort(job):
    connection = connect(job)
    connection.execute("DROP TABLE IF EXISTS output")
    before, usage, started = harness.traffic(), resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    connection.execute("CREATE TABLE output AS SELECT k, v FROM input ORDER BY k, v")
    connection.execute("CHECKPOINT")
    seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    read, written, dropped = (now - then for now, then in zip(harness.traffic(), before))
    peak = harness.peak_rss_bytes()
    count, total = connection.execute(
        f"SELECT count(*), sum((((rowid + 1)::UHUGEINT * k) % {WORD})::HUGEINT) % {WORD} FROM output"
    ).fetchone()
    connection.execute("DROP TABLE output")
    return {
        "row": [str(count), str(int(total))],
        "seconds": seconds,
        "user_s": used.ru_utime - usage.ru_utime,
        "system_s": used.ru_stime - usage.ru_stime,
        "read_bytes": read,
        "written_bytes": written,
        "dropped_bytes": dropped,
        "peak_rss_bytes": peak,
    }


job = json.loads(sys.argv[1])
try:
    answer = make(job) if job["make"] else sort(job)
except Exception as error:  # Whatever a library raises is its answer.
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
    sys.exit(1)
print(json.dumps(answer))
