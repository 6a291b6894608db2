"""A transaction of the fleet, and the rows in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from playbook_supervisor.drivers.fleet.storage.rows import Lease, Row, State, to_row
from playbook_supervisor.drivers.fleet.storage.tables import Tables, now_ms
from playbook_supervisor.errors import FleetError, StateError
from playbook_supervisor.formats.sanitize import first_line, one_line
from playbook_supervisor.sessions.session_ids import valid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.fleet.storage.dbos_queue import DbosQueue

_SAID = 500  # characters


class Transaction:
    """A connection in a transaction, with the tables and the queue whose jobs share it."""

    def __init__(
        self,
        connection: sa.Connection,
        tables: Tables,
        queue: Callable[[], DbosQueue],
        shown: str,
        role: str,
    ) -> None:
        self.connection = connection
        self.session, self.answer = tables.session, tables.answer
        self.tables, self.role = tables, role
        self._queue, self._shown = queue, shown

    # ── rows ────────────────────────────────────────────────────────────────────────────────

    def find(self, session_id: str, *, lock: bool = True) -> Row | None:
        """The row of a session, locked until the end unless it is only read.

        StateError PB-STATE-NO-SESSION if it is no id, FleetError PB-FLEET-DATABASE for a bad row.
        """
        query = sa.select(*self.tables.row).where(self.session.c.id == valid(session_id))
        found = self.connection.execute(query.with_for_update() if lock else query).mappings()
        data = found.one_or_none()
        return None if data is None else self._row(data)

    def get(self, session_id: str) -> Row:
        """The row, locked. As `find`; StateError PB-STATE-NO-SESSION if there is none."""
        row = self.find(session_id)
        if row is None:
            raise StateError(
                "PB-STATE-NO-SESSION",
                f"the fleet has no session {session_id}",
                guidance="`playbook status --fleet` lists the sessions.",
            )
        return row

    def select(self, *conditions: Any) -> tuple[list[Row], list[str]]:
        """The rows in the order of their creation, and what is wrong with those left out."""
        query = sa.select(*self.tables.row).where(*conditions)
        query = query.order_by(self.session.c.created_at, self.session.c.id)
        rows, bad = [], []
        for data in self.connection.execute(query).mappings():
            try:
                rows.append(to_row(data))
            except ValueError as error:
                name = first_line(str(data["id"]), 20)
                bad.append(f"the row of session {name} is damaged ({error}), and left out")
        return rows, bad

    def update(self, session_id: str, *conditions: Any, **values: Any) -> Row | None:
        """Change the row if the conditions hold; the new row, None if they do not."""
        query = (
            sa.update(self.session)
            .where(self.session.c.id == valid(session_id), *conditions)
            .values(changed_at=now_ms(), **values)
            .returning(*self.tables.row)
        )
        data = self.connection.execute(query).mappings().one_or_none()
        return None if data is None else self._row(data)

    def change(self, row: Row, **values: Any) -> Row:
        """Change a row that `find` or `get` has locked."""
        changed = self.update(row.id, **values)
        assert changed is not None  # noqa: S101 - it is locked
        return changed

    def let_go(self, row: Row, *, due_at: Any = 0, **values: Any) -> Row:
        """Change such a row, which no worker holds from now on."""
        return self.change(row, worker="", lease_until=0, due_at=due_at, **values)

    def ours(self, lease: Lease) -> Row | None:
        """The locked row if no one has taken a newer lease."""
        row = self.find(lease.session)
        return row if row is not None and row.epoch == lease.epoch else None

    def _row(self, data: Mapping[Any, Any]) -> Row:
        try:
            return to_row(data)
        except ValueError as error:
            raise FleetError(
                "PB-FLEET-DATABASE",
                f"a row of the fleet's database is damaged: {error}",
                where=self._shown,
                guidance="`playbook fleet rebuild` writes it again from the repository.",
            ) from None

    def answer_to(self, session_id: str, gate: str, *conditions: Any) -> sa.RowMapping | None:
        """The answer to that gate, if there is one and the conditions hold."""
        columns = self.answer.c
        query = sa.select(self.answer).where(
            columns.session == session_id, columns.gate == gate, *conditions
        )
        return self.connection.execute(query).mappings().one_or_none()

    def unjournaled(self, session_id: str, gate: str) -> sa.RowMapping | None:
        """The answer to that gate that no worker has journaled."""
        return self.answer_to(session_id, gate, ~self.answer.c.journaled)

    # ── jobs ────────────────────────────────────────────────────────────────────────────────

    def queue(self, row: Row, **values: Any) -> Row:
        """Queue the session with its next job, whose former jobs no longer count."""
        queued = self.let_go(row, state=State.QUEUED, job=row.job + 1, **values)
        self.put(queued)
        return queued

    def put(self, row: Row) -> None:
        """Put the job of that number, unless it is there."""
        self._queue().put(
            self.connection,
            row.id,
            row.job,
            pool=row.pool,
            repository=row.repository,
            priority=row.priority,
        )


def clock(tx: Transaction) -> int:
    """The database's clock, in ms since the epoch."""
    return int(tx.connection.execute(sa.select(now_ms())).scalar_one())


def words(texts: Sequence[str]) -> str:
    """Choices as they are stored."""
    return json.dumps(list(texts))


def sentence(text: str) -> str:
    """A text as it is stored: one line without control characters."""
    return one_line(text, _SAID)
