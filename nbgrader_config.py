"""nbgrader's settings for this course. Closed when broken: rather no grades than unsafe ones.

nbgrader's own autograder runs students' code without walls and believes what it prints. So its
steps are replaced by one that refuses, here by name and once more in nbgrader_config.json, which
holds even when this file cannot be read. Only then is the safe way put in its place.
"""

import sys
import traceback
from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821 (nbgrader puts it here)

REFUSE = ["grading.nbgrader_plugin.RefuseUnsandboxed"]
c.Autograde.sanitize_preprocessors = REFUSE
c.Autograde.autograde_preprocessors = REFUSE

ROOT = Path(__file__).resolve().parent
c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
# Or a server's: "postgresql://USER@HOST/NAME"; the password is looked up in ~/.pgpass. The grader
# reads the address here too: it runs this file up to this line.
c.CourseDirectory.db_url = f"sqlite:///{ROOT / 'gradebook.db'}"
# What being late costs, by nbgrader's plugin: 'zero', or a class of your own in a file beside this
# one. The due date is set in formgrader or by: nbgrader db assignment add NAME --duedate="..."
# c.LateSubmissionPlugin.penalty_method = "zero"
# c.AssignLatePenalties.plugin_class = "late.ByTheHour"

# nbgrader's default is a folder for all users of the machine.
c.Exchange.root = str(ROOT / ".grading" / "exchange")

try:
    sys.path.insert(0, str(ROOT))
    import nbgrader.apps.api
    import nbgrader.apps.autogradeapp
    import nbgrader.apps.generateassignmentapp
    import nbgrader.coursedir
    import nbgrader.server_extensions.formgrader.handlers as formgrader

    from grading.nbgrader_plugin import (
        TEMPLATES,
        FeedbackExporter,
        SafeAutograde,
        SafeGenerateAssignment,
        existing_timestamp,
        submitted_timestamp,
    )
except Exception:
    # Raised on, the error would only be logged, and the settings above dropped with it.
    traceback.print_exc()
    print("The grader cannot be used, so nothing will be graded.", file=sys.stderr)
else:
    nbgrader.apps.autogradeapp.Autograde = SafeAutograde
    nbgrader.apps.api.Autograde = SafeAutograde
    # nbgrader's own takes checks.json away and looks for no flaw.
    nbgrader.apps.generateassignmentapp.GenerateAssignment = SafeGenerateAssignment
    nbgrader.apps.api.GenerateAssignment = SafeGenerateAssignment
    # nbgrader's own read a student's timestamp.txt whatever it is, and wait or fail for everyone.
    nbgrader.apps.api.NbGraderAPI.get_submitted_timestamp = submitted_timestamp
    nbgrader.coursedir.CourseDirectory.get_existing_timestamp = existing_timestamp
    c.GenerateFeedback.exporter_class = FeedbackExporter
    # Pages that show students' work: a content security policy, and nothing from other hosts.
    c.HTMLExporter.extra_template_basedirs = [
        TEMPLATES,
        formgrader.template_path,
    ]
    # Without MathJax, which is another host's, formulas need another way to be shown.
    c.HTMLExporter.filters = {"markdown2html": "grading.formulas.markdown2html"}
