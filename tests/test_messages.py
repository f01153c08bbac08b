"""Every line of ``messages.txt``: an expression that is true, or below it the error that it ends with."""

import builtins
import re
from pathlib import Path

import pytest

import covopt.errors

SECTIONS = re.split(r"^== ", Path(__file__).with_name("messages.txt").read_text(), flags=re.MULTILINE)[1:]
LINE = re.compile(r"^([^#\s].*)(?:\n    (\w+): (.*))?$", re.MULTILINE)


def of_something(judge):
    """``all`` or ``any`` that refuses to judge nothing: a line about no values is true whatever the code does."""

    def judged(values):
        seen = list(values)
        assert seen, "nothing is said"
        return judge(seen)

    return judged


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_what_is_true_and_what_is_refused(section):
    body = section.partition("\n")[2]
    unread = [line for line in LINE.sub("", body).splitlines() if line.strip() and not line.startswith("#")]
    assert unread == [] and any(not line.startswith("! ") for line, *_ in LINE.findall(body))
    space, wrong = {"all": of_something(all), "any": of_something(any)}, []
    for line, kind, sentence in LINE.findall(body):
        if kind:
            with pytest.raises(getattr(covopt.errors, kind, None) or getattr(builtins, kind), match=sentence):
                eval(line, space)
                pytest.fail(f"{line} is not refused")
        elif line.startswith("! "):
            exec(line[2:], space)
        elif str(eval(line, space)) != "True":  # of bool or NumPy, and no other value that counts as true
            wrong.append(line)
    assert wrong == []
