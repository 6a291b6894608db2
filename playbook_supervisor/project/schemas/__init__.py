"""The JSON Schemas (draft-07) of every document, and the validator made of `playbook.json`.

`written` are what people and programs give us, `sessions` the files of a session, `printed` what
`--json` prints.
"""
