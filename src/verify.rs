//! Digests, OpenPGP, who must have signed (cluster-version §7).
