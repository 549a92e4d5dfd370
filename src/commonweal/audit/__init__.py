"""What a lie would gain: an audit of a mechanism on the rounds of a federation.

The figures of each round are taken as the truth. A client that reports otherwise still has its true profit, so what it
gains by a lie is the difference between its transfers. `audit` is the entry point for rounds whose figures are known,
and `training` adds the lies that need a federation to be trained again.
"""
