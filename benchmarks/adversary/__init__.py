"""An adversary: instances that try to refute covopt's proofs, checked by the adversary's own exact arithmetic."""
