"""What members gain who lie about contributions: real federations on Flower's in-process grid, and their lies."""
