"""The exact checker: integers and fractions only; no solver, no oracle, no compiled code below it."""
