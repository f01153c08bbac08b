"""Code that reproduces the figures of the papers; the rest of covopt imports it only on first use."""
