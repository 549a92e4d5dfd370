"""A federation's Flower app: `task.py` is yours, the other two stay as they are."""
