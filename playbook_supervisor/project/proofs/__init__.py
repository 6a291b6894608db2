"""Proofs that an agent cannot stage: test by test, in a clean room, with witnesses from before."""
