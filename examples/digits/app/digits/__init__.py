"""Five banks read digits together: the three functions of a federation on Flower, and its first model."""
