"""Every parameter of the public names is described, and nothing that is no parameter."""

import inspect
from functools import cached_property

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


def test_parameters_are_documented():
    found = {name: validate(name)["errors"] for name in {*functions()}}
    assert not [(name, said) for name, errors in found.items() for code, said in errors if code in CODES]


def test_classes_document_their_parameters_or_attributes():
    for name in {*covopt.__all__} - {"Status"}:
        text = inspect.getdoc(getattr(covopt, name)) or ""
        if inspect.isclass(getattr(covopt, name)):
            assert "Parameters\n---" in text or "Attributes\n---" in text, name
