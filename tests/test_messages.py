"""Every sentence of ``messages.txt``: an expression, and below it the error that it ends with."""

import re
from pathlib import Path

import pytest

import covopt.errors

SECTIONS = re.split(r"^== ", Path(__file__).with_name("messages.txt").read_text(), flags=re.MULTILINE)[1:]
NEEDED = re.compile(r"^! (?:from|import) (torch|covopt\.training)\b", re.MULTILINE)


def parsed(section):
    """Return the statements that come first, and pairs of an expression and its sentence, a regular expression."""
    first = re.findall(r"^! (.*)$", section, re.MULTILINE)
    return first, re.findall(r"^([^!\s].*)\n    (\w+): (.*)$", section.partition("\n")[2], re.MULTILINE)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_what_is_refused_is_said(section):
    if NEEDED.search(section):
        pytest.importorskip("torch")
    first, cases = parsed(section)
    space = {}
    for statement in first:
        exec(statement, space)
    assert cases
    for expression, kind, sentence in cases:
        with pytest.raises(getattr(covopt.errors, kind, ValueError), match=sentence):
            eval(expression, space)
            pytest.fail(f"{expression} is not refused")
