"""Rules that change a search between two generations, each in a file of its own."""
