//! Part of payload.
