"""An adversary: instances that try to refute covopt's proofs, judged by exact arithmetic of its own."""
