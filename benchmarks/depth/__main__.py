"""Deep networks: brackets of the representation cost, and the figures of RK23, BN23 and FL22.

python -m benchmarks.depth brackets [--only I …] [--seeds 1000]
python -m benchmarks.depth training [--only I …] [--seeds 1000]
python -m benchmarks.depth closed [--depths L …] [--biases] [--seconds 60]
python -m benchmarks.depth fits
python -m benchmarks.depth pieces [--count 5]
python -m benchmarks.depth figure NAME [--paper] [--device cuda] [--out FILE.png] [--share 0.001] [--outputs 2]
python -m benchmarks.depth paper [NAME …] [--device cuda]
"""

from __future__ import annotations

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    brackets = commands.add_parser("brackets", help="lower and upper bounds on twenty random tables")
    brackets.add_argument("--only", type=int, nargs="*", help="numbers of tables")
    brackets.add_argument("--seeds", type=int, default=0, help="networks of plain training beside each")
    plain = commands.add_parser("training", help="plain training of many networks on the same tables")
    plain.add_argument("--only", type=int, nargs="*", help="numbers of tables")
    plain.add_argument("--seeds", type=int, default=1000)
    forms = commands.add_parser("closed", help="tables whose cost is known in closed form, L = 2 … 10")
    forms.add_argument("--depths", type=int, nargs="*")
    forms.add_argument("--biases", action="store_true", help="only one or two rows with biases")
    forms.add_argument("--seconds", type=float, default=60.0, help="of each bracket, by the clock")
    commands.add_parser("fits", help="brackets of deep networks trained with weight decay")
    pieces = commands.add_parser("pieces", help="Jacobian ranks of widths 16 and four layers over the square")
    pieces.add_argument("--count", type=int, default=5)
    figure = commands.add_parser("figure", help="an experiment of the papers")
    figure.add_argument("name", help="rk23-1, rk23-2, rk23-3, bn23-1, bn23-2 or fl22-2")
    figure.add_argument("--paper", action="store_true", help="the paper's sizes")
    figure.add_argument("--device", default="cpu")
    figure.add_argument("--out", help="a picture")
    figure.add_argument("--share", type=float, default=1.0, help="of the steps: 0.001 shows that it starts")
    figure.add_argument("--outputs", type=float, help="Σ E y² of rk23-1")
    long = commands.add_parser("paper", help="how long the papers' sizes take, from a few of their steps")
    long.add_argument("names", nargs="*")
    long.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    if asked.command == "brackets":
        from benchmarks.depth.brackets import run

        run(asked.only, asked.seeds)
    elif asked.command == "training":
        from benchmarks.depth.brackets import run_training

        run_training(asked.only, asked.seeds)
    elif asked.command == "closed":
        from benchmarks.depth.closed import run_closed

        run_closed(asked.depths, asked.biases, asked.seconds)
    elif asked.command == "fits":
        from benchmarks.depth.fits import run_fits

        run_fits()
    elif asked.command == "pieces":
        from benchmarks.depth.brackets import run_pieces

        run_pieces(asked.count)
    elif asked.command == "paper":
        from benchmarks.depth.figures import run_extrapolation

        run_extrapolation(asked.names, asked.device)
    else:
        from benchmarks.depth import figures, teacher

        figures.SHARE = teacher.SHARE = asked.share
        figures.OUTPUTS = asked.outputs
        figures.run_figure(asked.name, paper=asked.paper, device=asked.device, out=asked.out)


if __name__ == "__main__":
    main()
