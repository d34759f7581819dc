"""Plans: the records that follow from a request and an image, as pure functions."""
