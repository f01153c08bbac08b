"""All options of all commands in one table, with their types, help texts and output files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from covopt.checks import required
from covopt.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet", ".tex")
JSON = (".json",)
FIGURE = (".png", ".pdf", ".svg")
PAGE = (".html", ".htm")


def check_suffix(path: Path | None, allowed: tuple[str, ...]) -> None:
    """Refuse a file name whose extension does not match the format to be written, before anything is computed.

    Parameters
    ----------
    path : Path, optional
        Pipes and devices may have any name.
    allowed : tuple of str

    Raises
    ------
    InputError
        Naming the allowed extensions.
    """
    if path is None or path.suffix.lower() in allowed or (path.exists() and not path.is_file()):
        return
    raise InputError(
        f"cannot write {path}: the file must end in {' or '.join(allowed)}; change the extension."
    )


def save_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table in the format of the file's extension.

    Parameters
    ----------
    table : pandas.DataFrame
    path : Path
        ``.csv``, ``.parquet`` or ``.tex``.

    Raises
    ------
    InputError
        For LaTeX without Jinja2.
    """
    from covopt.files import write_atomically

    suffix = path.suffix.lower()
    if suffix == ".parquet":
        required("pyarrow", str(path), "parquet")
        write_atomically(path, lambda stream: stream.write(table.to_parquet(index=False)))
        return
    if suffix == ".tex":
        try:
            content = table.to_latex(index=False, escape=True, float_format="%.6g")
        except ImportError:
            raise InputError(
                f"cannot write {path}: LaTeX tables need Jinja2; install it, or write .csv."
            ) from None
    else:
        content = table.to_csv(index=False)
    write_atomically(path, lambda stream: stream.write(content.encode()))


File = Path | None
Text = str | None
Seconds = float | None
Decimal = Literal[".", ","]
OutputBias = Literal["none", "penalized", "free"]
Duplicates = Literal["error", "mean"]
Potential = Literal["variation", "label-noise", "label-noise-exact"]
AnyOutputBias = Literal["auto", "none", "penalized", "free"]
Reduction = Literal["mean", "sum"]
Preserve = Literal["covariances", "outputs"]
Precision = Literal["float64", "float32"]
# in place of <int range>
NUMBERS: dict[Any, str] = {int: "N", int | None: "N", float: "X", float | None: "X"}
Solver = Literal[
    "auto", "column-generation", "relaxation", "conic:CLARABEL", "conic:SCS", "conic:MOSEK", "frank-wolfe:sliding",
    "frank-wolfe:fully-corrective", "frank-wolfe:pairwise", "frank-wolfe:vanilla",
]  # fmt: skip


def losses_there_are() -> list[str]:
    """Return the names of all losses, registered ones too, for shell completion."""
    from covopt.losses import LOSSES

    return list(LOSSES)


@dataclass(frozen=True)
class Option:
    """One option or argument, for all commands that share its default and help text.

    Attributes
    ----------
    commands : str
        The names of these commands.
    name : str
        Name of the parameter, and of the option unless ``flags`` has others; switches have no ``--no-`` form.
    kind : type
    default : object
        ``...`` if the option is required.
    help : str
    metavar : str, optional
        By default N or X for numbers, and a file name with the first extension for output files.
    flags : tuple of str
    argument : bool
        Whether it is a positional argument.
    reads : bool
        Whether it names a file that is read.
    writes : tuple of str, optional
        The allowed extensions of the output file that it names; empty for any.
    key : str
        The key of that file in ``--json``.
    more : dict
        Other keyword arguments for typer.
    """

    commands: str
    name: str
    kind: Any
    default: Any
    help: str
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    argument: bool = False
    reads: bool = False
    writes: tuple[str, ...] | None = None
    key: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    def parameter(self) -> Parameter:
        """Return the parameter of a command's function, as typer reads it."""
        make: Callable[..., Any] = typer.Argument if self.argument else typer.Option
        metavar = self.metavar or NUMBERS.get(self.kind) or (f"FILE{self.writes[0]}" if self.writes else None)
        switch = (f"--{self.name.replace('_', '-')}",) if self.kind is bool else ()  # without a --no-
        told = make(*(self.flags or switch), help=self.help, metavar=metavar, **self.more)
        default = Parameter.empty if self.default is ... else self.default
        return Parameter(
            self.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[self.kind, told]
        )


# fmt: off
OPTIONS = (
    # inputs
    Option("verify predict prove explore", "solution", Path, ..., "A saved solution or path; prove takes a "
           "solution with one output, verify any file of covopt.", "FILE.json", argument=True, reads=True),
    Option("reduce", "model", Path, ..., "State dict of Linear and ReLU: .safetensors, .pt or .pth.", "MODEL",
           argument=True, reads=True),
    Option("cp-rank", "source", Path, ..., "Symmetric matrix (.csv) or graph without weights (.g6, .graphml).",
           "FILE", argument=True, reads=True),
    Option("gap", "model", Path, ..., "Trained network: .pt, .pth, .safetensors, .npz, .onnx or .json.", "MODEL",
           argument=True, reads=True),
    Option("solve fit path depth train cells predict reduce gap", "table", Path, ...,
           "CSV (.gz, .bz2, .xz or .zip of it too; - for standard input), Parquet, Feather, Excel or NPZ file.",
           "TABLE", argument=True, reads=True),
    Option("verify", "table", File, None, "The table that it fits; by default the copy in the file.", "[TABLE]",
           argument=True, reads=True),
    Option("solve depth", "target", str, ..., "Target column.", "Y"),
    Option("fit path train gap", "target", str, ..., "Target column: numbers, or labels for classification.", "Y"),
    Option("cells reduce", "target", Text, None, "Columns of the table that are not inputs.", "Y"),
    Option("solve fit path depth train cells reduce gap", "features", Text, None,
           "Input columns; by default every other numeric column; -A,-B for all of these except A and B.", "A,B"),
    Option("fit path train gap", "sample_weight", Text, None, "Column of sample weights, not an input.", "COLUMN"),
    Option("solve fit path depth train cells predict reduce verify gap", "sep", Text, None,
           "Separator of the columns of a text table; by default it is detected.", "C"),
    Option("solve fit path depth train cells predict reduce verify gap", "encoding", str, "utf-8",
           "Encoding of a text table, as in latin-1.", "NAME"),
    Option("solve fit path depth train cells predict reduce verify gap", "decimal", Decimal, ".",
           "Decimal point of a text table."),
    Option("solve fit path train gap", "one_hot", bool, False,
           "Use columns of words: one column of 0 and 1 for each word."),
    Option("solve fit path train gap", "drop_missing", bool, False,
           "Drop rows with a missing value in a column that is used."),
    Option("predict", "drop_missing", bool, False, "Leave the predictions of rows with missing values empty."),
    Option("solve depth", "duplicates", Duplicates, "error",
           "How to treat equal rows with different targets."),
    # the problem
    Option("depth", "depth", int, ..., "Number of weight layers, 2 or more.", "L"),
    Option("fit", "depth", int, 2, "Weight layers; beyond 2 the network is found by descent, and bracketed.", "L"),
    Option("fit", "lam", Text, None,
           "λ of the objective, mean loss + λ‖W‖²: a number; a fraction of λ_max, above which the best network is "
           "empty (default 0.03max); or cv, chosen by cross-validation.", "λ"),
    Option("gap", "lam", Text, None, "λ of mean loss + λ‖W‖²: a number, or a fraction of λ_max.", "λ"),
    Option("gap", "weight_decay", float | None, None, "weight_decay of PyTorch's optimiser, instead of --lam.",
           "WD"),
    Option("gap", "reduction", Reduction, "mean", "Whether PyTorch's loss was a mean or a sum over the rows."),
    Option("gap", "interpolation", bool, False, "Compare ‖W‖² with the least norm for the same outputs."),
    Option("train", "lam", Text, None, "λ of mean loss + λ‖W‖²: numbers, fractions of λ_max as in 0.03max, or "
           "cv. By default 0; with --cross-check, networks through the points.", "A,B"),
    Option("predict", "lam", float | None, None, "Use the point of a path with the nearest λ.", "λ"),
    Option("path", "lams", Text, None, "The λ to solve for: numbers, or fractions of λ_max as in 0.1max; by default "
           "a grid from λ_max down.", "A,B"),
    Option("path", "n_lams", int, 30, "Points of the grid.", more={"min": 1}),
    Option("path", "eps", float, 1e-3, "Smallest λ of the grid, as a fraction of λ_max."),
    Option("path", "folds", int, 5, "Folds of a cross-validation that compares the λ on rows left out; 0 for none.",
           more={"min": 0}),
    Option("fit path train gap", "loss", Text, None, "squared, huber, logistic, hinge, squared-hinge or "
           "softmax-cross-entropy. By default squared for numbers, logistic for two classes, "
           "softmax-cross-entropy for more.", "NAME", more={"autocompletion": losses_there_are}),
    Option("solve fit path depth train cells gap", "bias", float, 1.0,
           "Amount of bias: inputs become (x, bias); 0 for none."),
    Option("solve fit path depth train", "output_bias", OutputBias, "none",
           "Bias of the output, and whether its norm counts."),
    Option("gap", "output_bias", AnyOutputBias, "auto", "Bias of the output; by default what the network has."),
    Option("solve fit path", "potential", Potential, "variation",
           "What neurons cost: variation (their norm), label-noise or label-noise-exact.", "NAME"),
    Option("solve fit path train", "standardise", bool | None, None,
           "Solve with columns of mean 0 and variance 1, and numerical targets of mean 0; the saved network still "
           "takes the columns of the table. By default if their units differ, or targets are far from zero.",
           flags=("--standardise/--no-standardise", "--standardize/--no-standardize")),
    Option("gap", "standardise", bool, False, "The network was trained on columns of mean 0 and variance 1.",
           flags=("--standardise", "--standardize")),
    Option("solve", "solver", Solver, "auto",
           "auto, column-generation, relaxation, conic:CLARABEL|SCS|MOSEK (slow), or "
           "frank-wolfe:sliding|fully-corrective|pairwise|vanilla.", "NAME", more={"case_sensitive": False}),
    Option("train", "widths", str, ..., "Hidden widths, as in 8,16; deep networks as in 32x16,64x16.", "A,B"),
    Option("train", "seeds", int, 32, "Networks of each width and λ.", more={"min": 1}),
    Option("train", "steps", int | None, None, "Steps of the optimiser, and of L-BFGS after it.", more={"min": 1}),
    Option("train", "optimiser", str, "adam", "adam, sgd, gd, lbfgs or label-noise-sgd.", "NAME"),
    Option("train", "learning_rate", float | None, None, "Learning rate."),
    Option("train", "device", str, "cpu", "Where to train.", "cpu|cuda"),
    Option("train", "dtype", Precision, "float64", "Precision of the numbers."),
    Option("train", "cross_check", bool, False, "Certify the optimum, and compare every network with it."),
    Option("cells", "count_only", bool, False, "Count without enumerating."),
    Option("cells", "n_jobs", int, 1, "Processes; -1 for one per core."),
    Option("reduce", "preserve", Preserve, "covariances",
           "Keep every pair (K, Kσ) and the outputs on the table, or the outputs alone at a lower norm."),
    Option("verify", "exact", bool, False, "Check residual, norm and bound in exact arithmetic, too."),
    Option("verify", "proof", File, None, "A proof written by `covopt prove`; implies --exact.", "PROOF.json"),
    Option("verify", "expect", list[str] | None, None,
           "What the problem must be, as lam=0.1, loss=squared, bias=1, weights=none; may be repeated.",
           "NAME=VALUE"),
    Option("prove", "boxes", int, 2_000_000, "Most boxes; if they are not enough, a weaker bound is proved.", "N",
           more={"min": 1}),
    Option("prove", "threads", int, 1, "Threads of the search.", "N", more={"min": 1}),
    Option("cp-rank", "tol", float, 1e-9, "Relative size of rounding in the entries and the factor."),
    Option("prove", "tol", float, 1e-9, "Fraction of the bound that may be lost, for a smaller file."),
    Option("gap", "tol", float, 1e-3, "Relative gap to certify between the best network and the bound."),
    Option("solve demo fit path depth", "tol", float, 1e-6, "Relative duality gap to certify."),
    # limits and seeds
    Option("solve demo fit path train cells reduce verify prove explore", "time_limit", Seconds, None,
           "Stop after S seconds, with the best so far.", "S"),
    Option("depth gap", "time_limit", Seconds, 60.0, "Stop after S seconds, with the best so far.", "S"),
    Option("cp-rank", "time_limit", Seconds, 300.0, "Stop after S seconds, with the best so far.", "S"),
    Option("solve fit path depth gap", "seed", int | None, None,
           "Seed of the starting neurons; the optimum is the same.", more={"min": 0}),
    Option("train", "seed", int, 0, "Seed of all draws.", more={"min": 0}),
    Option("cp-rank", "seed", int, 0, "Seed of the numerical search.", more={"min": 0}),
    Option("solve fit path depth train cells predict reduce verify prove cp-rank explore gap", "memory_limit",
           Seconds, None,
           "Maximum memory for the arrays of a step, besides 0.3 GiB for Python itself; by default four fifths of "
           "the free memory.", "GIB"),
    # outputs
    Option("solve fit depth", "out", File, None, "Save the solution.", writes=JSON, key="solution_file"),
    Option("gap", "out", File, None, "Save the report.", writes=JSON, key="gap_file"),
    Option("demo", "out", Path, Path("covopt-demo.json"), "Where to save the solution.", writes=JSON,
           key="solution_file"),
    Option("path", "out", File, None, "Save all solutions.", writes=JSON, key="path_file"),
    Option("train", "out", File, None, "Save the table (.csv, .parquet, .tex).", writes=TABLES, key="table_file"),
    Option("predict", "out", File, None, "Save the predictions (.csv, .parquet, .tex); else CSV on stdout.",
           writes=TABLES, key="table_file"),
    Option("cells", "out", File, None,
           "Save the patterns, packed bits (numpy.unpackbits): .npz, or .npy and .parquet, "
           "which are streamed in bounded memory.", "FILE", writes=(".npz", ".npy", ".parquet"),
           key="patterns_file"),
    Option("reduce", "out", Path, ..., "The smaller model, in the same format.", "FILE", writes=(),
           key="model_file"),
    Option("prove", "out", File, None, "Where to write the proof; for `verify --proof`.", "PROOF.json", writes=JSON),
    Option("prove", "coq", File, None, "A folder for Coq: `make -C DIR` lets its kernel check the proof.", "DIR"),
    Option("cp-rank", "out", File, None, "Save the certificate.", writes=JSON, key="certificate_file"),
    Option("explore", "out", File, None, "Where to write the page; by default beside the solution.", "PAGE.html",
           writes=PAGE, key="page_file"),
    Option("path verify", "rows", File, None, "Save a table too (.csv, .parquet, .tex).", flags=("--table",),
           writes=TABLES, key="table_file"),
    Option("solve fit path train gap", "plot", File, None, "Save a figure (.png, .pdf, .svg).", writes=FIGURE,
           key="figure_file"),
    Option("demo", "plot", Path, Path("covopt-demo.png"), "Where to save the figure.", writes=FIGURE,
           key="figure_file"),
    Option("solve fit path depth", "resume", bool, False, "Continue a stopped run from the solution in --out."),
    Option("*", "as_json", bool, False, "Print one JSON object on stdout, errors too.", flags=("--json",)),
    Option("*", "quiet", bool, False, "No progress and no summary.", flags=("--quiet", "-q")),
)
# fmt: on


def options_of(command: str) -> list[Option]:
    """Return the options of a command, in the order of the table.

    Examples
    --------
    >>> [option.name for option in options_of("explore")][:2]
    ['solution', 'time_limit']
    """
    return [option for option in OPTIONS if option.commands == "*" or command in option.commands.split()]


def signature(command: str) -> Signature:
    """Return the signature from which typer reads the options of a command."""
    return Signature([option.parameter() for option in options_of(command)])


def reading(given: SimpleNamespace) -> Any:
    """Return the separator, encoding and decimal point of text tables."""
    from covopt.data.readers import Text

    return Text("\t" if given.sep in ("\\t", "tab") else given.sep, given.encoding, given.decimal)
