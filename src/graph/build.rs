//! Part of graph.
