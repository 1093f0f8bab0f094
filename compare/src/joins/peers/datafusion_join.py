"""DataFusion: its hash join, or the sort-merge join, which it plans with two partitions only."""

import datafusion
import harness


def answer(job):
    is_merge = job["variant"] == "merge"
    config = (
        datafusion.SessionConfig()
        .with_target_partitions(max(job["threads"], 2) if is_merge else job["threads"])
        .set("datafusion.optimizer.prefer_hash_join", "false" if is_merge else "true")
    )
    runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_specified(job["temp"])
    if job["memory_bytes"]:
        runtime = runtime.with_fair_spill_pool(job["memory_bytes"])
    context = datafusion.SessionContext(config, runtime)
    for table in job["tables"]:
        context.register_parquet(f"file_{table}", f"{job['data']}/{table}.parquet")
    frame = context.sql(harness.query(job, *(f"file_{table}" for table in job["tables"])))
    plan = str(frame.execution_plan().display_indent())
    wanted = "SortMergeJoin" if is_merge else "HashJoin"
    if wanted not in plan:
        raise RuntimeError(f"the plan has no {wanted}")
    (batch,) = frame.collect()
    return harness.as_text([column[0].as_py() for column in batch.columns])


harness.run(datafusion.__version__, answer)
