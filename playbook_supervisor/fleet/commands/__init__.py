"""One function for each use case of the fleet."""
