"""What tests of several packages share. No module here is a test."""
