"""The command ``covopt explore``: a page to look around in."""

from __future__ import annotations

from types import SimpleNamespace

from covopt.cli.report import Exit
from covopt.cli.running import Answer, progress

EPILOG = (
    "Exit codes: 0 written; 1 error in the input; 2 usage; 3 stopped, or pictures left out for want of time."
)


def explore(given: SimpleNamespace) -> Answer:
    """Write one HTML page to look around in: the function, the dual function, neurons, a slider."""
    import covopt
    from covopt.explore.page import check_page_path, write_page

    given.out = given.out or given.solution.with_suffix(".html")
    check_page_path(given.out)
    with progress(given, "drawing"):
        left_out = write_page(covopt.load(given.solution), given.out, time_limit_s=given.time_limit)
    return Answer(
        Exit.NOT_CERTIFIED if left_out else Exit.CERTIFIED,
        {"left_out": left_out},
        [f"{'left out':<10} {', '.join(left_out)}, for want of time"] if left_out else [],
        saved=f"{'saved':<10} {{}}; open it in any browser",
    )
