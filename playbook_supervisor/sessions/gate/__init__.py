"""The gate as a person sees it, and the tokens that answer it."""
