"""A house: pages in the browser that show what waits and take answers.

`commands` are the use cases, `web` the server and its pages, `cli` what is typed. The core finds
it through entry points.
"""
