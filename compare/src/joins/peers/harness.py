"""What the peers share: the query, the clock around it, and the answer as one line of JSON.

The job comes as JSON in the first argument. Beside the figures of a run the answer has the row of
the query as text: counts and sums as whole numbers, money in cents, the date as YYYY-MM-DD.
"""

import json
import resource
import sys
import time

# The wide query: every column of both tables is used above the join, so full tuples travel
# through it, and one row comes out. Each string of customer meets a string of orders.
WIDE = """
SELECT count(*),
       sum(o_totalprice + c_acctbal),
       sum(CASE WHEN c_name < o_comment THEN 1 ELSE 0 END),
       sum(CASE WHEN c_address < o_clerk THEN 1 ELSE 0 END),
       sum(CASE WHEN c_phone < o_orderpriority THEN 1 ELSE 0 END),
       sum(CASE WHEN c_mktsegment < o_orderstatus THEN 1 ELSE 0 END),
       sum(CASE WHEN c_comment < o_comment THEN 1 ELSE 0 END),
       sum(o_orderkey), sum(o_custkey), sum(c_nationkey), sum(o_shippriority),
       max(c_custkey), max(o_orderdate)
FROM {customer} AS customer JOIN {orders} AS orders ON c_custkey = o_custkey
"""

# One column of either table beside the key. `lineitem` is the larger join; `skewed` are orders of few
# customers.
NARROW = """
SELECT count(*), sum(o_totalprice + c_acctbal)
FROM {customer} AS customer JOIN {orders} AS orders ON c_custkey = o_custkey
"""
LINEITEM = """
SELECT count(*), sum(o_totalprice + l_extendedprice)
FROM {customer} AS orders JOIN {orders} AS lineitem ON o_orderkey = l_orderkey
"""
QUERIES = {"wide": WIDE, "narrow": NARROW, "lineitem": LINEITEM, "skewed": NARROW}

# Fields of the row that are maxima; all others are sums.
MAXIMA = (11, 12)


def query(job, smaller, larger):
    """The query of the job over its two tables."""
    return QUERIES[job["query"]].format(customer=smaller, orders=larger)


def add(rows):
    """The row of the whole from the rows of its parts."""
    return [max(column) if i in MAXIMA else sum(column) for i, column in enumerate(zip(*rows))]


def as_text(row, money_is_cents=False):
    """The row as every engine has to tell it."""
    cents = row[1] if money_is_cents else row[1] * 100
    return [str(int(cents)) if i == 1 else str(field) for i, field in enumerate(row)]


def traffic():
    """Bytes read from and written to files' devices so far, and those dropped before they were."""
    with open("/proc/self/io") as file:
        values = dict(line.split(": ") for line in file)
    return [int(values[key]) for key in ("read_bytes", "write_bytes", "cancelled_write_bytes")]


def peak_rss_bytes():
    """The most main memory that this process has had, libraries included."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def run(version, answer):
    """Calls `answer` with the job and prints what it took; the exit code says whether it failed."""
    job = json.loads(sys.argv[1])
    before, usage, started = traffic(), resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    try:
        row = answer(job)
    except Exception as error:  # Whatever a library raises is its answer.
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        sys.exit(1)
    seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    read, written, dropped = (now - then for now, then in zip(traffic(), before))
    print(json.dumps({
        "version": version,
        "row": row,
        "seconds": seconds,
        "user_s": used.ru_utime - usage.ru_utime,
        "system_s": used.ru_stime - usage.ru_stime,
        "read_bytes": read,
        "written_bytes": written,
        "dropped_bytes": dropped,
        "peak_rss_bytes": peak_rss_bytes(),
    }))
