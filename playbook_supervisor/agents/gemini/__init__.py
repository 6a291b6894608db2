"""Gemini CLI as an agent: headless, by its stream and a policy file."""
