//! Every join against one that looks at every pair of rows, over random rows, types and memories.

mod block_nested_loops;
mod sort_merge;
