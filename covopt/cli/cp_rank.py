"""What ``covopt cp-rank`` computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from covopt.cli.report import Exit
from covopt.errors import InputError


def run_cp_rank(
    source: Path, *, tol: float, time_limit_s: float | None, seed: int | None, checkpoint: Any = None
) -> Any:
    """Read a matrix or a graph and bracket its CP-rank."""
    from covopt.completely_positive.graphs import GRAPH_SUFFIXES, read_graph
    from covopt.completely_positive.matrix import read_csv
    from covopt.completely_positive.rank import cp_rank

    suffix = source.suffix.lower()
    if suffix not in (".csv", ".txt", ".tsv", *GRAPH_SUFFIXES):
        raise InputError(
            f"{source} must end in .csv, .tsv or .txt (a matrix) or {' or '.join(GRAPH_SUFFIXES)} (a graph)."
        )
    given = read_graph(source) if suffix in GRAPH_SUFFIXES else read_csv(source)
    return cp_rank(given, tol=tol, time_limit_s=time_limit_s, random_state=seed, checkpoint=checkpoint)


def as_record(certificate: Any) -> dict[str, Any]:
    """Return what ``--json`` prints; the certificate file has the rest."""
    return {
        "status": certificate.status.code,
        "message": certificate.status.message,
        "lower": certificate.lower,
        "upper": certificate.upper,
        "is_exact": certificate.is_exact,
        "n_rows": len(certificate.matrix),
        "residual": certificate.residual,
        "reasons": [
            {"side": r.side, "value": r.value, "method": r.method, "text": r.text, "vertices": r.vertices}
            for r in certificate.reasons
        ],
        "notes": certificate.notes,
        "time_s": certificate.time_s,
    }


def exit_code(certificate: Any) -> Exit:
    """Return 0 where the question is answered (a CP-rank, or that there is none), else 3."""
    return Exit.CERTIFIED if certificate.status.code in ("exact", "not_cp") else Exit.NOT_CERTIFIED
