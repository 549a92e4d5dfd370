"""One client at home, in the simulator and at a member alike: its training, its evaluations and its report."""
