//! Against a registry of our own in this process, which can lie.

use super::*;
