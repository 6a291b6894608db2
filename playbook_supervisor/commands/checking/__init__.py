"""What `check`, `import` and the pre-commit hook do with files."""
