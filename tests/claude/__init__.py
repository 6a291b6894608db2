"""The real client, alone with a scripted model."""
