"""The columns of all result files: one row for each contribution rule, μ, round and client of a replication.

Where the whole μ axis was followed, a row stands for an interval of μ instead of one value; its four columns say
exactly which doubles lie in it. docs/reference/results-parquet.md describes every column.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("experiment", pa.string(), nullable=False),
        pa.field("replication", pa.int32(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("contribution_rule", pa.string(), nullable=False),
        pa.field("mu_lower", pa.float64(), nullable=False),
        pa.field("mu_upper", pa.float64(), nullable=False),
        pa.field("mu_includes_lower", pa.bool_(), nullable=False),
        pa.field("mu_includes_upper", pa.bool_(), nullable=False),
        pa.field("round", pa.int32(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("sample_count", pa.int32(), nullable=False),
        pa.field("training_count", pa.int32(), nullable=False),
        pa.field("validation_count", pa.int32(), nullable=False),
        pa.field("iteration_count", pa.int32(), nullable=False),
        pa.field("step_count", pa.int32(), nullable=False),
        pa.field("accuracy", pa.float64(), nullable=False),
        pa.field("accuracy_error", pa.float64()),
        pa.field("previous_accuracy", pa.float64(), nullable=False),
        pa.field("utility", pa.float64(), nullable=False),
        pa.field("cost", pa.float64(), nullable=False),
        pa.field("profit", pa.float64(), nullable=False),
        pa.field("profit_error", pa.float64()),
        pa.field("contribution", pa.float64(), nullable=False),
        pa.field("contribution_error", pa.float64()),
        pa.field("used_contribution", pa.float64(), nullable=False),
        pa.field("retained", pa.bool_(), nullable=False),
        pa.field("share", pa.float64()),
        pa.field("payoff", pa.float64()),
        pa.field("transfer", pa.float64()),
    ]
)
