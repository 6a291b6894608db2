"""What the fleet's database stores, and each transaction on it; SQLAlchemy is known here only."""
