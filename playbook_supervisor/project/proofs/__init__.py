"""Proofs of checks, and the clean rooms where they run."""
