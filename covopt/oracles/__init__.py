"""Oracles: which neuron violates a dual point most, and by how much at most."""
