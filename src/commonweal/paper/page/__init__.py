"""One page: the paper figure by figure and table by table, with our results beside it."""
