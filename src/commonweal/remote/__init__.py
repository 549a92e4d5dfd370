"""Federations between machines, independent of the framework that carries the messages."""
