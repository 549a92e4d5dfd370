"""A member's side: its private file, its folder, its task, and its answers."""
