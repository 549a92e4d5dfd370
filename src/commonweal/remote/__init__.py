"""Federations between machines, whatever framework carries the messages: coordinator, members, messages."""
