//! Clients, discovery, watches and the object index, read-merge-write, lease, events.
