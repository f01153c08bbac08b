"""Every parameter of the public names is described, and nothing that is no parameter."""

import inspect
from functools import cached_property

import pytest
from numpydoc.validate import validate

import covopt

# no docstring, parameters without a description of their own, unknown parameters, yields
CODES = {"GL08", "PR01", "PR02", "YD01"}


def functions():
    """Public functions, and the public methods that public classes define or inherit within covopt."""
    for name in covopt.__all__:
        value = getattr(covopt, name)
        if inspect.isfunction(value):
            yield f"covopt.{name}"
        if inspect.isclass(value):
            for member, kind, owner, _ in inspect.classify_class_attrs(value):
                if member.startswith("_") or kind == "data" or not owner.__module__.startswith("covopt"):
                    continue
                if not isinstance(inspect.getattr_static(owner, member), cached_property):
                    yield f"covopt.{name}.{member}"


@pytest.mark.parametrize("name", sorted(set(functions())))
def test_parameters_are_documented(name):
    found = [message for code, message in validate(name)["errors"] if code in CODES]
    assert not found


@pytest.mark.parametrize(
    "name", sorted(n for n in covopt.__all__ if inspect.isclass(getattr(covopt, n)) and n != "Status")
)
def test_classes_document_their_parameters_or_attributes(name):
    text = inspect.getdoc(getattr(covopt, name))
    assert "Parameters\n---" in text or "Attributes\n---" in text
