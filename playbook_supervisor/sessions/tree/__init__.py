"""A session and its children: routes ids to the engine of each."""
