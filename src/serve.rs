//! TLS, authentication, metrics, health.
