"""The work of `check`, `import` and the pre-commit hook with files."""
