"""A house: sessions that many machines carry out, from one database.

`storage` is the database and its queue, `engine` takes sessions up and pushes them, `commands`
are the use cases, `cli` what is typed and printed. The core finds it through entry points.
"""
