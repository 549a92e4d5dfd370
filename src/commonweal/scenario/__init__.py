"""A scenario: the complete, frozen description of a federation, read from TOML."""
