//! Desired into live (payload-and-apply §5).
