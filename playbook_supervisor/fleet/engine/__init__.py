"""Carries out sessions of the fleet: take-up, leases, mirrors of remotes, pushes."""
