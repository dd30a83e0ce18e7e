"""Every attack: submissions that want marks, secrets, others' grades or the reader's browser.

Each earns nothing by itself: beside the attack its answers are blank or wrong, so any point is
the attack's. What a student must never read is tested for every submission alike. Importing
this module puts all of them into the table of submissions.
"""

from tests.grading.hostile import hidden, host, marks, neighbours, readers, resources, values

__all__ = ["hidden", "host", "marks", "neighbours", "readers", "resources", "values"]
