"""What people and programs are shown: plain text, JSON shapes, and a terminal's live list."""
