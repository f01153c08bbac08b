"""Every line of ``messages.txt``: an expression that is true, or below it the error that it ends with."""

import re
from pathlib import Path

import pytest

import covopt.errors

SECTIONS = re.split(r"^== ", Path(__file__).with_name("messages.txt").read_text(), flags=re.MULTILINE)[1:]
NEEDED = re.compile(r"^! (?:from|import) (torch|covopt\.training)\b", re.MULTILINE)
LINE = re.compile(r"^([^#\s].*)(?:\n    (\w+): (.*))?$", re.MULTILINE)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_what_is_true_and_what_is_refused(section):
    if NEEDED.search(section):
        pytest.importorskip("torch")
    space, wrong = {}, []
    for line, kind, sentence in LINE.findall(section.partition("\n")[2]):
        if line.startswith("! "):
            exec(line[2:], space)
        elif kind:
            with pytest.raises(getattr(covopt.errors, kind, ValueError), match=sentence):
                eval(line, space)
                pytest.fail(f"{line} is not refused")
        elif not eval(line, space):
            wrong.append(line)
    assert wrong == []
