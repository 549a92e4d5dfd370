"""The paper's worked example: two rounds of three clients, as a file that `commonweal decide` reads."""

EXAMPLE_CSV = """\
round,client,utility,cost,contribution
1,C1,0.2,0.1,0.4
1,C2,0.15,0.1,0.2
1,C3,0.3,0.05,0.4
2,C1,0.1,0.15,0.5
2,C2,0.1,0.15,0.1
2,C3,0.3,0.15,0.4
"""
EXAMPLE_MU = 0.05
