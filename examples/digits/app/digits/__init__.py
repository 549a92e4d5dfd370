"""Five banks read digits together: the functions of a federation on Flower, and its first model."""
