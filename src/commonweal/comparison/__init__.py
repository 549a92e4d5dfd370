"""Every mechanism on the same federation: the same seeds, each history trained once, and one table of results."""
