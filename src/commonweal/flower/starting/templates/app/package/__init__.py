"""A federation's Flower app: change `task.py`, and leave the other two files as they are."""
