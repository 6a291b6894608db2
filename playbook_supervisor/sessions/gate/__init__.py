"""What a person is shown at a gate, and the tokens that answer it."""
