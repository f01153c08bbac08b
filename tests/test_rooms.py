"""The package's root holds public entries only, and old public module paths still lead to their names."""

from importlib import import_module
from pathlib import Path

import pytest

import covopt

ROOT = Path(covopt.__file__).parent
OLD = {
    "covopt.data": ("Data",),
    "covopt.losses": (
        "LOSSES", "Hinge", "Huber", "Logistic", "Loss", "SoftmaxCrossEntropy", "SquaredError", "SquaredHinge",
        "loss_from_dict", "make_loss",
    ),
    "covopt.network": ("ReLUNetwork",),
    "covopt.potentials": ("POTENTIALS", "LabelNoise", "make_potential"),
    "covopt.datasets": ("load_table", "load_diabetes_table"),
    "covopt.api": ("min_norm", "fit", "path", "lambda_max", "frank_wolfe"),
    "covopt.cli": ("app", "main"),
    "covopt.plotting": (
        "plot_attraction_repulsion", "plot_dual", "plot_forces", "plot_function_1d", "plot_history",
        "plot_loss_against_width", "plot_solution", "plot_surface_2d",
    ),
    "covopt.solution": ("Solution", "load"),
    "covopt.verification": ("Verification", "verify"),
    "covopt.files": ("read_json", "write_atomically"),
}  # fmt: skip


def test_at_most_ten_files_stand_at_the_root():
    assert len(list(ROOT.glob("*.py"))) <= 10


def test_no_folder_is_written_as_a_prefix():
    assert not [file.name for file in ROOT.glob("_*.py") if file.name not in ("__init__.py", "__main__.py")]


def test_tests_stand_in_the_rooms_of_what_they_test():
    rooms = {folder.name for folder in ROOT.iterdir() if (folder / "__init__.py").exists()}
    here = {folder.name for folder in Path(__file__).parent.iterdir() if list(folder.glob("test_*.py"))}
    assert here - {"bank"} <= rooms


@pytest.mark.parametrize("module", OLD)
def test_old_module_paths_lead_to_their_names(module):
    found = import_module(module)
    for name in OLD[module]:
        assert getattr(found, name) is not None
        assert name in dir(found)


def test_the_questions_are_the_same_objects_by_either_path():
    for name in OLD["covopt.api"]:
        assert getattr(import_module("covopt.api"), name) is getattr(covopt, name)
    with pytest.raises(AttributeError, match="no attribute 'minnorm'"):
        _ = import_module("covopt.api").minnorm
