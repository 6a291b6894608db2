"""The database that workers share: rows, queue, transactions, upkeep."""
