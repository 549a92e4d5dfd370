"""A whole federation on one machine: SuperLink, SuperNodes, TLS and keys, real processes."""
