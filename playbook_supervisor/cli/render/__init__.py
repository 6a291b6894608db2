"""What people and programs are shown: plain text, JSON, pages, and a terminal's live list."""
