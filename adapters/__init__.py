"""What stands between the program and the world: data sets in, models asked."""
