"""A member's side: its private file, its home, its answers."""
