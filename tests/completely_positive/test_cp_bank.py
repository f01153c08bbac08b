"""Every matrix of the bank: its answer, its file, changes of units and order, and changed certificates."""

import json

import numpy as np
import pytest

import covopt
from covopt.completely_positive.certificate import CPRankCertificate, CPStatus, verify_cp_rank
from covopt.completely_positive.matrix import read_matrix
from covopt.errors import SolutionFileError
from tests.cases import cases, values, with_value
from tests.completely_positive.bank import EXCLUDED, KNOWN, failed

SAMPLE = 8  # numbers of a certificate that are changed, each in every way
WORDS = "name", "status", "side", "method", "text", "how", "proof"  # other texts are fractions


@pytest.fixture(scope="module")
def solved():
    return {name: covopt.cp_rank(A) for name, (A, _) in (KNOWN | EXCLUDED).items()}


def content_of(certificate) -> dict:
    return json.loads(json.dumps(certificate.to_dict()))


@pytest.mark.parametrize("name", KNOWN)
def test_the_answer(name, solved):
    found, value = solved[name], KNOWN[name][1]
    assert (found.status, found.lower, found.upper) == (CPStatus.EXACT, value, value)
    if found.factor is not None:
        assert len(found.factor) == value
        assert found.factor.min(initial=0.0) >= 0.0
        assert found.residual < 1e-9
    assert name == "lost row" or found.factor is not None


@pytest.mark.parametrize("name", EXCLUDED)
def test_the_reason_against(name, solved):
    found = solved[name]
    assert (found.status, found.lower, found.upper, found.factor) == (CPStatus.NOT_CP, None, None, None)
    assert [reason.method for reason in found.reasons] == [EXCLUDED[name][1]]
    assert "NOT_CP" in found.summary()
    assert name != "ring beside a factor" or found.reasons[0].vertices == (3, 4, 5, 6, 7)


@pytest.mark.parametrize("name", KNOWN | EXCLUDED)
def test_a_certificate_is_verified_and_so_is_its_file(name, solved, tmp_path):
    assert failed(solved[name]) == set()
    solved[name].save(tmp_path / "c.json")
    again = covopt.load(tmp_path / "c.json")
    assert again.to_dict() == solved[name].to_dict()
    assert verify_cp_rank(tmp_path / "c.json") == solved[name].verify()
    assert covopt.verify(tmp_path / "c.json").ok


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", [*KNOWN, *EXCLUDED])
def test_order_units_and_repeated_rows(name):
    matrix = read_matrix((KNOWN | EXCLUDED)[name][0])
    n, rng = len(matrix), np.random.default_rng(len(name))
    order, scale = rng.permutation(n).tolist(), rng.integers(1, 6, n).tolist()
    A = matrix.fractions() if matrix.exact is not None else matrix.values.tolist()
    moved = [[A[i][j] * scale[i] * scale[j] for j in order] for i in order]
    twice = [[A[i][j] for j in (*range(n), 0)] for i in (*range(n), 0)]
    for other, exact in ((moved, True), (twice, False)):
        found = covopt.cp_rank(other, time_limit_s=300.0 if exact else 0.3)
        assert failed(found) == set()
        if name in EXCLUDED:
            assert found.status is CPStatus.NOT_CP or not exact
            assert found.upper is None
            continue
        value = KNOWN[name][1]
        assert found.lower <= value
        assert found.upper is None or value <= found.upper
        assert (found.lower, found.upper) == (value, value) or not exact


def changed(content, place, change):
    """Return a copy with another number in a place, or another fraction."""
    return with_value(content, place, lambda old: str(change(7)) if isinstance(old, str) else change(old))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", [*KNOWN, *EXCLUDED])
def test_a_changed_number_is_refused_or_harmless(name, solved):
    """What still verifies claims nothing wrong of its matrix."""
    content = content_of(solved[name])
    paths = [
        ("readings", *place) for place, value in values(content["readings"])
        if isinstance(value, int | float) or (isinstance(value, str) and place[-1] not in WORDS)
    ]  # fmt: skip
    rng, truth = np.random.default_rng(0), KNOWN.get(name, (None, None))[1]
    for place in rng.permutation(len(paths))[:SAMPLE]:
        for change in (lambda x: x + 1, lambda x: x - 1, lambda x: -x, lambda x: x * 1.001):
            again = changed(content, paths[place], change)
            for claim in ("lower", "upper", "status"):  # a forger is consistent
                again[claim] = again["readings"][0][claim]
            try:
                forged = CPRankCertificate.from_dict(again)
            except SolutionFileError:
                continue
            if failed(forged):
                continue
            if truth is None:
                assert forged.status is CPStatus.NOT_CP
            else:
                assert forged.lower <= truth <= forged.upper


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("claim", ["lower", "upper"])
def test_no_better_bracket_can_be_forged(name, claim, solved):
    """The bound, the reading and every reason say so together; or every reason of that side is left out."""
    value = KNOWN[name][1]
    step = 1 if claim == "lower" else -1
    for with_reasons in (True, False):
        content = content_of(solved[name])
        reading = content["readings"][0]
        reasons = [r for r in reading["reasons"] if r["side"] == claim]
        for reason in reasons:
            reason["value"] = max(0, reason["value"] + step)
        if not with_reasons:
            reading["reasons"] = [r for r in reading["reasons"] if r["side"] != claim]
        content[claim] = reading[claim] = max(0, value + step)
        content["status"] = reading["status"] = "exact" if content["lower"] == content["upper"] else "bracket"
        try:
            forged = CPRankCertificate.from_dict(content)
        except SolutionFileError:
            continue
        assert failed(forged) or forged.lower <= value <= forged.upper


@pytest.mark.parametrize("name", EXCLUDED)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda reason: reason["data"].clear(),
        lambda reason: reason.update(method="intuition"),
        lambda reason: reason["data"].update({key: [] for key in reason["data"]}),
        lambda reason: reason["data"].update(dict.fromkeys(reason["data"], "x")),
    ],
    ids=["no data", "unknown method", "empty data", "words"],
)
def test_a_reason_against_needs_its_numbers(name, spoil, solved):
    content = content_of(solved[name])
    spoil(content["readings"][0]["reasons"][0])
    forged = CPRankCertificate.from_dict(content)
    # a negative entry is looked for in the matrix
    assert failed(forged) or EXCLUDED[name][1] == "entry"


# ------------------------------------------------------------------ changes by hand
def put(content, value, *, both=False):
    content["matrix"][0][1] = value
    if both:
        content["matrix"][1][0] = value


def exactly(content, rows):
    content.update(
        exact=[list(map(str, row)) for row in rows], matrix=[list(map(float, row)) for row in rows]
    )


def reasons(content, kept=None):
    reading = content["readings"][0]
    reading["reasons"] = reading["reasons"] if kept is None else kept
    return reading["reasons"]


OTHER = [
    reason for reason in reasons(covopt.cp_rank([[2, 1], [1, 2]]).to_dict()) if reason["side"] == "lower"
]


@pytest.mark.parametrize(
    ("name", "change", "claims"),
    cases("changes of a CP certificate, and all the claims that fail",
          OTHER=OTHER, exactly=exactly, put=put, reasons=reasons),
)  # fmt: skip
def test_a_changed_certificate_is_refused_for_what_it_claims(name, change, claims, solved):
    content = content_of(solved[name])
    change(content)
    assert failed(content) == claims
