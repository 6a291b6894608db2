"""Git, the forge and trees: the only place that asks git."""
