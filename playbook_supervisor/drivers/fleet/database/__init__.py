"""The fleet's database: who may drive which session, and what people answered.

Git has the sessions themselves. One database has the rows of this package and the queue's jobs, so
that a row and its job are written in one transaction.
"""

from playbook_supervisor.drivers.fleet.database.fleet_database import FleetDatabase as FleetDatabase
from playbook_supervisor.drivers.fleet.database.rows import Counts as Counts
from playbook_supervisor.drivers.fleet.database.rows import Lease as Lease
from playbook_supervisor.drivers.fleet.database.rows import NewSession as NewSession
from playbook_supervisor.drivers.fleet.database.rows import Renewal as Renewal
from playbook_supervisor.drivers.fleet.database.rows import Row as Row
from playbook_supervisor.drivers.fleet.database.rows import State as State
from playbook_supervisor.drivers.fleet.database.rows import StoredAnswer as StoredAnswer
from playbook_supervisor.drivers.fleet.database.rows import Swept as Swept
