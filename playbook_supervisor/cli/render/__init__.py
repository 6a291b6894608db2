"""Turns results into plain text, JSON, HTML pages and live terminal output."""
