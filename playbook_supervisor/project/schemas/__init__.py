"""The shapes of every document, as JSON Schema (draft-07), and the validator made of one."""
