"""Scenarios: complete, frozen descriptions of federations, read from TOML files."""
