//! Update graph, recommended and conditional updates, choosing the target (cluster-version §4, §6).
