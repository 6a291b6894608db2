"""Programs: start, bound, watch and end them."""
